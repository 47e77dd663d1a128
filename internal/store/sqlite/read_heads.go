package sqlite

import (
	"cmp"
	"context"
	"slices"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

const (
	// headsQuery reads only the index, not the rows of the heads.
	headsQuery = claimableQuery + " LIMIT ?"
	headQuery  = `SELECT p.seq, p.event, p.lane, p.position, p.due, p.blocked, p.attempts, p.anchor, p."trigger", p.created,
		p.head, t.endpoint FROM pending p JOIN target t ON t.number = p.target WHERE p.seq = ?`
	eventQuery = `SELECT ` + eventColumns + ` FROM event e JOIN kind k ON k.number = e.kind WHERE e.seq = ?`
	// eventColumns are the columns of readEvent.
	eventColumns = `e.seq, e.id, k.tenant, k.type, e.key, e.accepted, e.occurred, e.content_type, e.metadata, e.packed, e.sum, e.data,
		k.source`
)

// Heads leaves out blocked heads: they have no due time. A page is a few hundred entries of one
// index. That takes the writer less time than a flush.
func (s *reader) Heads(ctx context.Context, endpoint string, limit int) ([]store.Head, error) {
	return rows.Reading(ctx, s.readUnflushed, func(r *sqlite3.Conn) ([]store.Head, error) {
		target, err := rows.Integer(r.Query(targetQuery).Text(endpoint))
		if err != nil || target == 0 || limit <= 0 {
			return nil, err
		}
		q := r.Query(headsQuery).Int(target).Int(int64(limit))
		return rows.Each(q, func(q *sqlite3.Stmt) (store.Head, error) { return readHead(q, endpoint), nil })
	})
}

// Head returns neither due time nor anchor for a delivery behind its lane's head.
func (s *reader) Head(ctx context.Context, delivery int64) (head *store.Head, leads bool, err error) {
	head, err = rows.Reading(ctx, s.read, func(r *sqlite3.Conn) (*store.Head, error) {
		return rows.First(r.Query(headQuery).Int(delivery), nil, func(q *sqlite3.Stmt) (*store.Head, error) {
			h := readHead(q, q.String(11))
			leads = q.Integer(10) == 1
			return &h, nil
		})
	})
	return head, leads, err
}

// Events reads each event separately: their rows are far apart, so one query would do the same
// work. Events that are not unflushed are read without a flush: no unflushed operation changes or
// removes an event. Otherwise every attempt in a long backlog would wait for a flush, and cause
// one.
func (s *reader) Events(ctx context.Context, seqs []int64) ([]*grapnel.Event, error) {
	events := make([]*grapnel.Event, len(seqs))
	if len(seqs) == 0 {
		return events, nil
	}
	look := s.read
	if slices.Max(seqs) <= s.unflushed.event.Load() {
		look = s.readFlushed
	}
	read := func(r *sqlite3.Conn) (err error) {
		q := r.Query(eventQuery)
		for i := 0; i < len(seqs) && err == nil; i++ {
			if events[i], err = rows.First(q.Int(seqs[i]), nil, s.readEvent); err == nil && events[i] != nil && (events[i].Damaged || events[i].Erased) {
				events[i] = nil
			}
		}
		return err
	}
	err := look(ctx, func(r *sqlite3.Conn) error {
		if len(seqs) == 1 {
			return read(r)
		}
		return rows.Together(r, read)
	})
	if err != nil {
		return nil, err
	}
	return events, nil
}

// readEvent reads the eventColumns of a row. An event whose checksum differs is Damaged, without
// data.
func (s *database) readEvent(q *sqlite3.Stmt) (*grapnel.Event, error) {
	e := &grapnel.Event{
		Seq: q.Integer(0), ID: q.String(1), Tenant: q.String(2), Type: q.String(3), Key: q.String(4),
		AcceptedAt: codec.Moment(q.Integer(5)), OccurredAt: codec.Moment(q.Integer(6)), ContentType: grapnel.JSONType,
		Source: q.String(12),
	}
	if !q.IsNull(7) {
		e.ContentType = q.String(7)
	}
	if at, erased := codec.ErasedAt(q.Bytes(11), q.Integer(9)); erased {
		e.ErasedAt = at
		return e, nil
	}
	data, packed, err := s.data.whole(q.Bytes(11), q.Integer(9))
	if err == nil {
		f := codec.Frozen{Data: data, Packed: packed, Metadata: q.Bytes(8), Sum: q.Integer(10)}
		err = s.packer.Thaw(context.Background(), e, &f) // all keys are in memory
	}
	if broken(err) {
		return nil, err
	}
	if err != nil {
		s.stats.damaged.Add(1)
		s.log.Error("corrupt event in the database", "event", e.Seq)
		e.Damaged = true
	}
	return e, nil
}

const (
	// stuckQuery reads all heads of an endpoint by their index: a tenth of a second for a million.
	// An index of stuck lanes would have to be written with every failing attempt. The plus keeps
	// SQLite from reading the deliveries behind the heads.
	stuckQuery = `SELECT seq FROM pending WHERE head = 1 AND target = ? AND +position > 0 AND (attempts > 0 OR blocked = 1)
		AND seq > ? AND (? OR tenant = (SELECT number FROM tenant WHERE name = ?)) ORDER BY seq LIMIT ?`
	behindQuery = `SELECT count(*) FROM
		(SELECT 1 FROM pending WHERE target = ? AND lane = ? AND position > ? AND position > 0 LIMIT ?)`
)

// StuckLanes returns at most Limit lanes; no limit: none.
func (s *reader) StuckLanes(ctx context.Context, scope store.Scope, q store.LaneQuery) ([]grapnel.Lane, error) {
	tenant, one := scope.One()
	if q.Limit <= 0 || one && !scope.Allows(tenant) {
		return nil, ctx.Err()
	}
	return rows.Reading(ctx, s.snapshot, func(r *sqlite3.Conn) (lanes []grapnel.Lane, err error) {
		target, err := rows.Integer(r.Query(targetQuery).Text(q.Endpoint))
		if err != nil || target == 0 {
			return nil, err
		}
		heads, err := rows.Integers(r.Query(stuckQuery).Int(target).Int(q.After).Bool(!one).Text(tenant).Int(int64(q.Limit)))
		if err != nil {
			return nil, err
		}
		for _, seq := range heads {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			l, err := s.readLane(r, target, seq, q.MostWaiting())
			if err != nil {
				return nil, err
			}
			lanes = append(lanes, l)
		}
		return lanes, nil
	})
}

// readLane reads the lane whose head has this row id, and counts at most most deliveries behind it.
func (s *database) readLane(r *sqlite3.Conn, target, head int64, most int) (grapnel.Lane, error) {
	d, err := fetch(r, s.packer, head)
	if d == nil {
		return grapnel.Lane{}, cmp.Or(err, codec.ErrMangled)
	}
	behind, err := rows.Integer(r.Query(behindQuery).Int(target).Text(d.Key).Int(d.Position).Int(int64(most)))
	return grapnel.Lane{Endpoint: d.EndpointID, Key: d.Key, Head: d.Delivery, Waiting: int(behind)}, err
}
