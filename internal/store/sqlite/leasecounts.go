package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/decide"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// A queue's heads are counted by their index and only up to a limit; the numbers of pending
// deliveries and of dead letters are in the tally. So counting a queue with a million pending
// deliveries takes as long as counting one with ten thousand.
const (
	leasedQuery = "SELECT count(*), ifnull(sum(due <= ?), 0) FROM pending WHERE target = ? AND token IS NOT NULL"
	// The counts of heads come with the lowest row id among them and its creation time, which
	// SQLite takes from the row of the minimum.
	blockedHeadsQuery = `SELECT count(*), min(seq), created FROM
		(SELECT seq, created FROM pending WHERE head = 1 AND target = ? AND due IS NULL LIMIT ?)`
	dueHeadsQuery = `SELECT count(*), min(seq), created FROM
		(SELECT seq, created FROM pending WHERE head = 1 AND target = ? AND due <= ? ORDER BY due, seq LIMIT ?)`
	laterHeadsQuery = `SELECT count(*), min(seq), created FROM
		(SELECT seq, created FROM pending WHERE head = 1 AND target = ? AND due > ? ORDER BY due, seq LIMIT ?)`
	deadTallyQuery = "SELECT ifnull(sum(n), 0) FROM tally WHERE target = ? AND status = 4"
	// discardedQuery examines the newest dead letters.
	discardedQuery = `SELECT count(*) FROM
		(SELECT seq FROM finished WHERE target = ? AND status = 4 AND status <> 3 ORDER BY seq DESC LIMIT ?) d
		JOIN mark m ON m.delivery = d.seq WHERE m.discarded_at IS NOT NULL`
)

// QueueCounts reads one snapshot.
func (s *Store) QueueCounts(ctx context.Context, queue string, now time.Time) (grapnel.QueueCounts, error) {
	return reading(ctx, s.snapshot, func(r *sqlite3.Conn) (n grapnel.QueueCounts, err error) {
		target, waiting, err := waitingAt(r, queue)
		if err != nil || target == 0 {
			return n, err
		}
		if n, err = countHeads(r, target, waiting, codec.Micros(now)); err != nil {
			return n, err
		}
		if n.Dead, err = integer(r.Query(deadTallyQuery).Int(target)); err != nil || n.Dead == 0 {
			return n, err
		}
		discarded, err := integer(r.Query(discardedQuery).Int(target).Int(store.MostCounted))
		n.Dead -= discarded
		return n, err
	})
}

// heads are heads in the same state.
type heads struct {
	n, oldest, created int64
}

func (h *heads) read(q *sqlite3.Stmt) error {
	return single(q, func() { *h = heads{q.Integer(0), q.Integer(1), q.Integer(2)} })
}

// countHeads counts all unfinished deliveries, `waiting` in number.
func countHeads(r *sqlite3.Conn, target, waiting, now int64) (n grapnel.QueueCounts, err error) {
	var leased, over int64
	q := r.Query(leasedQuery).Int(now).Int(target)
	err = single(q, func() { leased, over = q.Integer(0), q.Integer(1) })
	if err != nil {
		return n, err
	}
	// Leased heads are among the heads with a due time, so the limit grows by their number.
	limit := store.MostCounted + leased + 1
	var blocked, due, later heads
	if err := errors.Join(blocked.read(r.Query(blockedHeadsQuery).Int(target).Int(limit)),
		due.read(r.Query(dueHeadsQuery).Int(target).Int(now).Int(limit)),
		later.read(r.Query(laterHeadsQuery).Int(target).Int(now).Int(limit))); err != nil {
		return n, err
	}
	counted := decide.Heads{Limit: limit, Due: due.n, Later: later.n, Blocked: blocked.n, Leased: leased, Over: over}
	n = counted.Counts(waiting)
	first := heads{}
	for _, h := range []heads{blocked, due, later} {
		if h.n > 0 && (first.n == 0 || h.oldest < first.oldest) {
			first = h
		}
	}
	if first.n > 0 {
		n.Oldest = codec.Moment(first.created)
	}
	return n, nil
}
