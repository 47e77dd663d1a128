package sqlite

import (
	"context"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

const (
	pendingRowQuery = `SELECT p.seq, p.event, e.id, t.endpoint, k.tenant, k.type, e.key, e.accepted,
		p.position, p.attempts, p.created, p.replay_of, p.code, p.reason, 1, NULL, p.head, p.blocked, p.due, p.anchor,
		NULL, ` + markColumns + `, k.source
		FROM pending p JOIN event e ON e.seq = p.event JOIN kind k ON k.number = e.kind JOIN target t ON t.number = p.target
		LEFT JOIN mark m ON m.delivery = p.seq WHERE p.seq = ?`
	finishedRowQuery = `SELECT f.seq, f.event, e.id, t.endpoint, k.tenant, k.type, e.key, e.accepted,
		f.position, f.attempts, f.created, f.replay_of, f.code, f.reason, f.status, f.finished, 0, 0, NULL, NULL,
		` + lastColumn + `, ` + markColumns + `, k.source
		FROM finished f JOIN event e ON e.seq = f.event JOIN kind k ON k.number = e.kind JOIN target t ON t.number = f.target
		LEFT JOIN mark m ON m.delivery = f.seq WHERE f.seq = ?`
	markColumns        = `m.delivery, m.note, m.discarded_at, m.discard_reason, m.replayed_at, m.replayed_by, m.replayed_as, m.replay_result`
	newestAttemptQuery = "SELECT body FROM attempt WHERE delivery = ? ORDER BY number DESC LIMIT 1"
	redeliveriesQuery  = "SELECT delivery FROM redelivery WHERE event = ? ORDER BY delivery"

	newestRedeliveriesQuery = "SELECT delivery FROM redelivery WHERE event = ? ORDER BY delivery DESC LIMIT ?"

	attemptsQuery    = "SELECT body FROM attempt WHERE delivery = ? ORDER BY number"
	lastAttemptQuery = "SELECT " + lastColumn + " FROM finished f WHERE f.seq = ? AND f.last IS NOT NULL"
	// lastColumn is the attempt that ended a delivery: in its row, or in the table ending.
	lastColumn   = "CASE typeof(f.last) WHEN 'integer' THEN (SELECT body FROM ending WHERE number = f.last) ELSE f.last END"
	talliesQuery = "SELECT t.endpoint, n.name, y.status, y.n FROM tally y JOIN target t ON t.number = y.target JOIN tenant n ON n.number = y.tenant"
)

// row is a delivery as history shows it, when its event was accepted, and through which source.
type row struct {
	grapnel.Delivery
	accepted time.Time
	source   string
}

// fetch reads one delivery, or returns nil. Nearly all deliveries of a store are finished.
func fetch(r *sqlite3.Conn, p *codec.Packer, seq int64) (*row, error) {
	for _, query := range []string{finishedRowQuery, pendingRowQuery} {
		d, err := rows.First(r.Query(query).Int(seq), nil, func(q *sqlite3.Stmt) (d *row, err error) {
			d = readRow(q)
			d.Reason = p.OpenReason(context.Background(), d.Seq, d.Reason) // all keys are in memory
			d.Last, err = last(r, d, q.Bytes(20))
			return d, err
		})
		if d != nil || err != nil {
			return d, err
		}
	}
	return nil, nil
}

// last is the summary of a delivery's last attempt: the one that ended it, or the last one before.
func last(r *sqlite3.Conn, d *row, ended []byte) (grapnel.Last, error) {
	if ended != nil {
		return codec.DecodeLast(ended)
	}
	if d.AttemptsMade == 0 {
		return grapnel.Last{}, nil
	}
	return rows.First(r.Query(newestAttemptQuery).Int(d.Seq), nil, func(q *sqlite3.Stmt) (grapnel.Last, error) {
		return codec.DecodeLast(q.Bytes(0))
	})
}

func readRow(q *sqlite3.Stmt) *row {
	d := &row{accepted: codec.Moment(q.Integer(7)), source: q.String(29), Delivery: grapnel.Delivery{
		Seq: q.Integer(0), EventSeq: q.Integer(1), EventID: q.String(2), EndpointID: q.String(3), Tenant: q.String(4),
		Type: q.String(5), Key: q.String(6), Position: q.Integer(8), AttemptsMade: int(q.Integer(9)), CreatedAt: codec.Moment(q.Integer(10)),
		ReplayOf: q.Integer(11), ReasonCode: rows.ReadWord(q, 12, rows.ReasonCodes), Reason: q.String(13),
		Status:     rows.ReadWord(q, 14, rows.Statuses),
		FinishedAt: rows.ReadTime(q, 15),
		Waiting: grapnel.Waiting{Head: q.Integer(16) == 1, Blocked: q.Integer(17) == 1, Due: rows.ReadTime(q, 18),
			Anchor: rows.ReadTime(q, 19)},
	}}
	d.NextAttemptAt = d.Waiting.Due
	if !q.IsNull(21) {
		d.Mark = readMark(q, 22)
	}
	return d
}

// readMark reads the markColumns after the first.
func readMark(q *sqlite3.Stmt, from int) grapnel.Mark {
	return grapnel.Mark{
		Note: q.String(from), DiscardedAt: rows.ReadTime(q, from+1), DiscardReason: q.String(from + 2), ReplayedAt: rows.ReadTime(q, from+3),
		ReplayedBy: q.String(from + 4), ReplayedAs: q.Integer(from + 5), ReplayResult: rows.ReadWord(q, from+6, rows.Statuses),
	}
}

// Delivery returns attempts in the order in which they were recorded. The last attempt of a
// finished delivery is apart from the others (lastColumn).
func (s *reader) Delivery(ctx context.Context, scope store.Scope, seq int64) (*grapnel.Delivery, error) {
	return rows.Reading(ctx, s.snapshot, func(r *sqlite3.Conn) (*grapnel.Delivery, error) {
		d, err := fetch(r, s.packer, seq)
		if err != nil {
			return nil, err
		}
		if d == nil || !scope.Allows(d.Tenant) {
			return nil, store.ErrNotFound("delivery")
		}
		d.Attempts, err = s.attempts(ctx, r, seq)
		return &d.Delivery, err
	})
}

func (s *reader) attempts(ctx context.Context, r *sqlite3.Conn, delivery int64) (all []grapnel.Attempt, err error) {
	for _, query := range []string{attemptsQuery, lastAttemptQuery} {
		some, err := rows.Each(r.Query(query).Int(delivery), func(q *sqlite3.Stmt) (grapnel.Attempt, error) {
			return s.packer.DecodeAttempt(ctx, delivery, q.Bytes(0))
		})
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// Counts reads the counts that every transaction maintains. Held deliveries are counted as pending.
func (s *reader) Counts(ctx context.Context, scope store.Scope) (map[string]map[grapnel.Status]int64, error) {
	return rows.Reading(ctx, s.read, func(r *sqlite3.Conn) (counts map[string]map[grapnel.Status]int64, err error) {
		counts = make(map[string]map[grapnel.Status]int64)
		q := r.Query(talliesQuery)
		for q.More(&err) {
			endpoint, n := q.String(0), q.Integer(3)
			if n == 0 || !scope.Allows(q.String(1)) {
				continue
			}
			if counts[endpoint] == nil {
				counts[endpoint] = make(map[grapnel.Status]int64)
			}
			counts[endpoint][rows.ReadWord(q, 2, rows.Statuses)] += n
		}
		return counts, err
	})
}

// Waiting counts heads and the deliveries behind them.
func (s *reader) Waiting(ctx context.Context, endpoint string, limit int) (int, error) {
	return rows.Reading(ctx, s.snapshot, func(r *sqlite3.Conn) (int, error) {
		_, waiting, err := waitingAt(r, endpoint)
		return int(min(waiting, int64(max(limit, 0)))), err
	})
}
