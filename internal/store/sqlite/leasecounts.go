package sqlite

import (
	"context"
	"math"
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
	leasedQuery    = "SELECT count(*), ifnull(sum(due <= ?), 0) FROM pending WHERE target = ? AND token IS NOT NULL"
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

// countHeads counts all unfinished deliveries, `waiting` in number.
func countHeads(r *sqlite3.Conn, target, waiting, now int64) (n grapnel.QueueCounts, err error) {
	var h decide.Heads
	q := r.Query(leasedQuery).Int(now).Int(target)
	if err := single(q, func() { h.Leased, h.Over = q.Integer(0), q.Integer(1) }); err != nil {
		return n, err
	}
	// Leased heads are among the heads with a due time, so the limit grows by their number.
	h.Limit = store.MostCounted + h.Leased + 1
	c := backlogCount{r: r, target: target, now: now}
	h.Blocked, err = c.blocked(h.Limit)
	if err == nil {
		h.Due, err = c.between(math.MinInt64, now+1, h.Limit)
	}
	if err == nil {
		h.Later, err = c.between(now+1, math.MaxInt64, h.Limit)
	}
	n = h.Counts(waiting)
	n.Oldest = c.Oldest
	return n, err
}
