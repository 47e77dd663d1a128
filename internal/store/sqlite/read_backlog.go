package sqlite

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/decide"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// The numbers of pending deliveries and of dead letters are in the tally. Heads are counted in
// their index, which has all columns that are needed. Few are read one by one. Many are counted by
// the ranges of due times, which are up to 36; one that has no head costs nothing: the next due
// time says which range to count next. A count comes with the lowest row id among the heads and its
// creation time, which SQLite takes from the row of the minimum.
const (
	// fewHeadsQuery begins with the blocked heads, which have no due time.
	fewHeadsQuery = "SELECT due, seq, created FROM pending WHERE head = 1 AND target = ? ORDER BY due LIMIT ?"
	blockedQuery  = `SELECT count(*), ifnull(min(seq), 0), ifnull(created, 0) FROM
		(SELECT seq, created FROM pending WHERE head = 1 AND target = ? AND due IS NULL LIMIT ?)`
	nextDueQuery = "SELECT due FROM pending WHERE head = 1 AND target = ? AND due >= ? ORDER BY due LIMIT 1"
	rangeQuery   = `SELECT count(*), ifnull(min(seq), 0), ifnull(created, 0) FROM
		(SELECT seq, created FROM pending WHERE head = 1 AND target = ? AND due >= ? AND due < ? ORDER BY due, seq LIMIT ?)`
	leasedDueQuery = "SELECT due FROM pending WHERE target = ? AND token IS NOT NULL LIMIT ?"
	// backlogsQuery skips other statuses and zeros before it looks the name of an endpoint up.
	backlogsQuery = `SELECT y.target, t.endpoint, y.n, y.letters FROM tally y JOIN target t ON t.number = y.target WHERE y.status = 1
		AND (y.n > 0 OR y.letters > 0) AND (?1 = '' OR y.tenant = (SELECT number FROM tenant WHERE name = ?1)) ORDER BY y.target`
	anyLeasedQuery = "SELECT EXISTS (SELECT 1 FROM pending WHERE token IS NOT NULL)"
)

// Backlogs reads one snapshot.
func (s *reader) Backlogs(ctx context.Context, scope store.Scope, tenant string, now time.Time,
	limit int64) ([]store.Backlog, error) {
	tenant, some := scope.Narrow(tenant)
	if !some {
		return nil, ctx.Err()
	}
	return rows.Reading(ctx, s.snapshot, func(r *sqlite3.Conn) (list []store.Backlog, err error) {
		targets, err := readWaiting(r.Query(backlogsQuery).Text(tenant))
		if err != nil {
			return nil, err
		}
		shares := func(of func(*waitingTarget) int64) []int64 {
			rows := make([]int64, len(targets))
			for i := range targets {
				rows[i] = of(&targets[i])
			}
			return store.Shares(rows, limit)
		}
		// The targets are sorted, and not the list: a backlog is ten times as large.
		slices.SortFunc(targets, func(a, b waitingTarget) int { return cmp.Compare(a.endpoint, b.endpoint) })
		leased, err := rows.Integer(r.Query(anyLeasedQuery)) // if there are none, no endpoint is asked for its own
		if err != nil {
			return nil, err
		}
		heads := shares(func(t *waitingTarget) int64 { return t.pending })
		letters := shares(func(t *waitingTarget) int64 { return t.letters })
		list = make([]store.Backlog, 0, len(targets))
		for i, t := range targets {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			c := backlogCount{r: r, target: t.number, now: codec.Micros(now), left: heads[i], leases: leased > 0}
			c.Endpoint, c.Pending, c.Dead, c.DeadMore = t.endpoint, t.pending, letters[i], letters[i] < t.letters
			if err := c.heads(heads[i], int64(s.bounds.FewHeads)); err != nil {
				return nil, err
			}
			list = append(list, c.Backlog)
		}
		return list, nil
	})
}

// waitingTarget is an endpoint with its numbers of pending deliveries and of dead letters.
type waitingTarget struct {
	number           int64
	endpoint         string
	pending, letters int64
}

// readWaiting adds the numbers of an endpoint's tenants, whose rows follow each other.
func readWaiting(q *sqlite3.Stmt) (found []waitingTarget, err error) {
	for q.More(&err) {
		if number := q.Integer(0); len(found) == 0 || found[len(found)-1].number != number {
			found = append(found, waitingTarget{number: number, endpoint: q.String(1)})
		}
		last := &found[len(found)-1]
		last.pending, last.letters = last.pending+q.Integer(2), last.letters+q.Integer(3)
	}
	return found, err
}

// backlogCount counts an endpoint's heads.
type backlogCount struct {
	store.Backlog
	r      *sqlite3.Conn
	target int64
	now    int64
	left   int64 // heads that may still be counted
	leases bool  // some delivery of any endpoint is leased
	oldest int64 // lowest row id among those that were
}

func (c *backlogCount) heads(most, few int64) error {
	if most == 0 {
		c.Settle(0, 0)
		return nil
	}
	read := c.many
	if most <= few {
		read = c.few
	}
	if err := read(); err != nil {
		return err
	}
	counted := most - c.left
	if c.leases {
		if err := c.leased(most); err != nil {
			return err
		}
	}
	c.Settle(counted, most)
	return nil
}

// few reads heads one by one.
func (c *backlogCount) few() (err error) {
	q := c.r.Query(fewHeadsQuery)
	q.Int(c.target).Int(c.left)
	for q.More(&err) {
		if c.left--; q.IsNull(0) {
			c.Blocked++
		} else {
			c.AddPart(store.PartOf(codec.Moment(q.Integer(0)), codec.Moment(c.now)), 1)
		}
		c.seen(q)
	}
	return err
}

// seen remembers the oldest head, whose row id and creation are behind the first column of q.
func (c *backlogCount) seen(q *sqlite3.Stmt) {
	if seq := q.Integer(1); c.oldest == 0 || seq < c.oldest {
		c.oldest, c.Oldest = seq, codec.Moment(q.Integer(2))
	}
}

// many counts heads by the ranges of their due times.
func (c *backlogCount) many() error {
	n, err := c.blocked(c.left)
	if err != nil {
		return err
	}
	c.Blocked = n
	for from := int64(math.MinInt64); c.left > 0; {
		due, found, err := rows.Next(c.r.Query(nextDueQuery).Int(c.target).Int(from))
		if !found {
			return err
		}
		part := store.PartOf(codec.Moment(due), codec.Moment(c.now))
		end := int64(math.MaxInt64)
		switch {
		case part == 0:
			end = c.now + 1
		case part <= store.AheadParts:
			end = c.now + store.AheadEnd(part-1).Microseconds()
		}
		n, err := c.between(due, end, c.left)
		if err != nil {
			return err
		}
		c.AddPart(part, n)
		from = end
	}
	return nil
}

// blocked counts the heads without a due time, at most this many.
func (c *backlogCount) blocked(most int64) (int64, error) {
	return c.count(c.r.Query(blockedQuery).Int(c.target).Int(most))
}

// between counts heads by their due time, the earliest first, at most this many.
func (c *backlogCount) between(from, below, most int64) (int64, error) {
	return c.count(c.r.Query(rangeQuery).Int(c.target).Int(from).Int(below).Int(most))
}

// count runs a query that counts heads, and remembers the oldest of them.
func (c *backlogCount) count(q *sqlite3.Stmt) (n int64, err error) {
	err = rows.Single(q, func() {
		if n = q.Integer(0); n > 0 {
			c.seen(q)
		}
	})
	c.left -= n
	return n, err
}

// leased takes heads with a lease out of the numbers of heads by due time, which include them.
func (c *backlogCount) leased(most int64) error {
	dues, err := rows.Integers(c.r.Query(leasedDueQuery).Int(c.target).Int(most))
	if err != nil {
		return err
	}
	c.Leased = int64(len(dues))
	for _, due := range dues {
		c.AddPart(store.PartOf(codec.Moment(due), codec.Moment(c.now)), -1)
	}
	return nil
}

// A queue's heads are counted by their index and only up to a limit; the numbers of pending
// deliveries and of dead letters are in the tally. So counting a queue with a million pending
// deliveries takes as long as counting one with ten thousand.
const (
	leasedQuery  = "SELECT count(*), ifnull(sum(due <= ?), 0) FROM pending WHERE target = ? AND token IS NOT NULL"
	lettersQuery = "SELECT ifnull(sum(letters), 0) FROM tally WHERE target = ? AND status = 1"
)

// QueueCounts reads one snapshot.
func (s *reader) QueueCounts(ctx context.Context, queue string, now time.Time) (grapnel.QueueCounts, error) {
	return rows.Reading(ctx, s.snapshot, func(r *sqlite3.Conn) (n grapnel.QueueCounts, err error) {
		target, waiting, err := waitingAt(r, queue)
		if err != nil || target == 0 {
			return n, err
		}
		if n, err = countHeads(r, target, waiting, codec.Micros(now)); err != nil {
			return n, err
		}
		n.Dead, err = rows.Integer(r.Query(lettersQuery).Int(target))
		return n, err
	})
}

// countHeads counts all unfinished deliveries, `waiting` in number.
func countHeads(r *sqlite3.Conn, target, waiting, now int64) (n grapnel.QueueCounts, err error) {
	var h decide.Heads
	q := r.Query(leasedQuery).Int(now).Int(target)
	if err := rows.Single(q, func() { h.Leased, h.Over = q.Integer(0), q.Integer(1) }); err != nil {
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
