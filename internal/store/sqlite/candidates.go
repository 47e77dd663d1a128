package sqlite

import (
	"context"
	"slices"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

const (
	undeliveredAfterQuery = "SELECT seq FROM finished WHERE target = ? AND status = ? AND status <> 3 AND seq > ? ORDER BY seq LIMIT ?"
	// lookedAt is how many deliveries Candidates looks at in one call: some tens of milliseconds.
	lookedAt = 2000
)

// candidates is what a call of Candidates looks for.
type candidates struct {
	ctx    context.Context
	r      *sqlite3.Conn
	query  store.CandidateQuery
	scope  store.Scope
	target int64
	status []int64
}

// Candidates looks at those that have the statuses wanted, the oldest first.
func (s *Store) Candidates(ctx context.Context, scope store.Scope, q store.CandidateQuery) (list []grapnel.Delivery, resume int64, err error) {
	err = s.snapshot(ctx, func(r *sqlite3.Conn) error {
		list, resume = nil, 0
		if q.Limit <= 0 {
			return nil
		}
		c := &candidates{ctx: ctx, r: r, query: q, scope: scope}
		if len(q.Selection.Status) == 0 {
			c.query.Selection.Status = []grapnel.Status{grapnel.Failed}
		}
		for _, status := range c.query.Selection.Status {
			if n, known := ordinal(statuses, status); known && status.Final() && !slices.Contains(c.status, n) {
				c.status = append(c.status, n)
			}
		}
		if c.target, err = integer(r, targetQuery, func(s *sqlite3.Stmt) { s.Text(q.Endpoint) }); err != nil || c.target == 0 {
			return err
		}
		numbers, more, err := c.next(max(q.After, 0))
		if err != nil {
			return err
		}
		for i, n := range numbers {
			if err := ctx.Err(); err != nil {
				return err
			}
			if q.UpTo != 0 && n > q.UpTo {
				return nil
			}
			d, err := fetch(r, n)
			if err != nil {
				return err
			}
			if d != nil && c.takes(d) {
				list = append(list, d.Delivery)
			}
			if len(list) == q.Limit && (more || i+1 < len(numbers)) {
				resume = n
				return nil
			}
		}
		if more {
			resume = numbers[len(numbers)-1]
		}
		return nil
	})
	return list, resume, err
}

// takes says whether a delivery is meant.
func (c *candidates) takes(d *row) bool {
	sel := &c.query.Selection
	switch {
	case d.EndpointID != c.query.Endpoint, !d.Status.Final(), micros(d.FinishedAt) > micros(c.query.OverBy), !c.scope.Allows(d.Tenant):
		return false
	case len(sel.Deliveries) > 0:
		return true
	}
	when := eventFilter{scope: c.scope, from: sel.From, to: sel.To}
	ofType := func(pattern string) bool { return grapnel.MatchType(pattern, d.Type) }
	return slices.Contains(sel.Status, d.Status) && (len(sel.Keys) == 0 || slices.Contains(sel.Keys, d.Key)) &&
		(len(sel.Types) == 0 || slices.ContainsFunc(sel.Types, ofType)) && when.takes(d.Tenant, d.Type, d.Key, d.accepted)
}

// next returns the next numbers to look at, rising, and whether there are more behind them.
func (c *candidates) next(after int64) (numbers []int64, more bool, err error) {
	switch {
	case len(c.query.Selection.Deliveries) > 0:
		for _, n := range c.query.Selection.Deliveries {
			if n > after {
				numbers = append(numbers, n)
			}
		}
		slices.Sort(numbers)
		numbers = slices.Compact(numbers)
		more = len(numbers) > lookedAt
		return numbers[:min(len(numbers), lookedAt)], more, nil
	case slices.Contains(c.status, statusDelivered):
		return c.finished(after)
	}
	return c.undelivered(after)
}

// undelivered takes the next of each status. Those behind the last one of a status that has more are left for later.
func (c *candidates) undelivered(after int64) (numbers []int64, more bool, err error) {
	end := everything(0).below
	for _, status := range c.status {
		q, err := c.r.Prepare(undeliveredAfterQuery)
		if err != nil {
			return nil, false, err
		}
		found, err := integers(q.Int(c.target).Int(status).Int(after).Int(lookedAt))
		if err != nil {
			return nil, false, err
		}
		if len(found) == lookedAt {
			end = min(end, found[lookedAt-1])
		}
		numbers = append(numbers, found...)
	}
	more = end < everything(0).below
	numbers = slices.DeleteFunc(numbers, func(n int64) bool { return n > end })
	slices.Sort(numbers)
	return numbers, more, nil
}

// finished goes through the blocks of all that is over at the target.
func (c *candidates) finished(after int64) (numbers []int64, more bool, err error) {
	newest, err := one(c.r, newestFinishedQuery)
	if err != nil {
		return nil, false, err
	}
	q, err := c.r.Prepare(finishedTargetQuery)
	if err != nil {
		return nil, false, err
	}
	for block := (after + 1) >> blockBits; block <= newest>>blockBits; block++ {
		if err := c.ctx.Err(); err != nil {
			return nil, false, err
		}
		found, err := integers(q.Int(block).Int(c.target))
		if err != nil {
			return nil, false, err
		}
		found = slices.DeleteFunc(found, func(n int64) bool { return n <= after })
		slices.Sort(found)
		if numbers = append(numbers, found...); len(numbers) > lookedAt {
			return numbers[:lookedAt], true, nil
		}
	}
	return numbers, false, nil
}
