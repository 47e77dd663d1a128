package sqlite

import (
	"context"
	"slices"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

const (
	undeliveredAfterQuery = `SELECT seq FROM finished WHERE target = ? AND status = ? AND status <> 3 AND seq > ? AND seq < ?
		ORDER BY seq LIMIT ?`
	redeliveredAfterQuery = "SELECT delivery FROM redelivery WHERE delivery > ? ORDER BY delivery LIMIT ?"
	redeliveredKeysQuery  = `SELECT r.delivery, e.hash FROM redelivery r CROSS JOIN event e ON e.seq = r.event
		WHERE r.delivery > ? AND r.delivery <= ? ORDER BY r.delivery LIMIT ?`
)

// candidates is the state of a call of Candidates.
type candidates struct {
	*lister
	selected store.CandidateQuery
	target   int64
	status   []int64
	accepted window // range of the events in the selection's time
}

// Candidates examines the deliveries with the wanted statuses, the oldest first.
func (s *reader) Candidates(ctx context.Context, scope store.Scope,
	q store.CandidateQuery) (list []grapnel.Delivery, resume int64, err error) {
	err = s.snapshot(ctx, func(r *sqlite3.Conn) error {
		list, resume = nil, 0
		if q.Limit <= 0 {
			return nil
		}
		if len(q.Selection.Status) == 0 {
			q.Selection.Status = []grapnel.Status{grapnel.Failed}
		}
		of := store.DeliveryQuery{Status: q.Selection.Status, From: q.Selection.From, To: q.Selection.To}
		c := &candidates{lister: newLister(ctx, s.database, r, scope, of), selected: q}
		c.status = slices.Compact(slices.Sorted(slices.Values(c.finals())))
		if c.target, err = rows.Integer(r.Query(targetQuery).Text(q.Endpoint)); err != nil || c.target == 0 {
			return err
		}
		if len(q.Selection.Deliveries) == 0 {
			if c.accepted, err = c.events.events(r); err != nil || c.accepted.empty() {
				return err
			}
			if c.within, err = c.deliveries(c.accepted); err != nil {
				return err
			}
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
			d, err := fetch(r, s.packer, n)
			if err != nil {
				return err
			}
			if d != nil && q.Takes(scope, &d.Delivery, d.accepted) {
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

// next returns the next row ids to read, rising, and whether more are behind them.
func (c *candidates) next(after int64) (numbers []int64, more bool, err error) {
	sel := &c.selected.Selection
	switch {
	case len(sel.Deliveries) > 0:
		numbers = slices.DeleteFunc(slices.Clone(sel.Deliveries), func(n int64) bool { return n <= after })
		slices.Sort(numbers)
		numbers = slices.Compact(numbers)
		return numbers[:min(len(numbers), c.bounds.Looked)], len(numbers) > c.bounds.Looked, nil
	case len(sel.Keys) > 0 && len(sel.Keys) <= c.bounds.Keys && !slices.Contains(sel.Keys, ""): // those without a key are not looked up by it
		return c.ofKeys(after)
	case slices.Contains(c.status, rows.StatusDelivered):
		numbers, more, err = c.finished(max(after, c.within.from-1))
	default:
		numbers, more, err = c.undelivered(max(after, c.within.from-1))
	}
	if more || err != nil || c.within.below == everything(0).below {
		return numbers, more, err
	}
	// A redelivery may be outside of the range, even if its event is inside.
	later, err := rows.Integers(c.r.Query(redeliveredAfterQuery).Int(max(after, c.within.below-1)).Int(int64(c.bounds.Looked)))
	return append(numbers, later...), len(later) == c.bounds.Looked, err
}

// ofKeys takes the next deliveries of the events that have one of the keys: those of the events'
// acceptance, whose row ids rise with the events', and the redeliveries among them.
func (c *candidates) ofKeys(after int64) (numbers []int64, more bool, err error) {
	var hashes []int64
	for _, key := range c.selected.Selection.Keys {
		hashes = append(hashes, keyHash(key))
	}
	if numbers, more, err = c.acceptedWith(hashes, after); err != nil {
		return nil, false, err
	}
	last := everything(0).below
	if more {
		last = numbers[len(numbers)-1]
	}
	looked, again := 0, int64(0)
	for q := c.r.Query(redeliveredKeysQuery).Int(after).Int(last).Int(int64(c.bounds.Looked)); q.More(&err); {
		again = q.Integer(0)
		if looked++; looked == c.bounds.Looked || slices.Contains(hashes, q.Integer(1)) {
			numbers = append(numbers, again)
		}
	}
	if looked == c.bounds.Looked {
		numbers, more = slices.DeleteFunc(numbers, func(n int64) bool { return n > again }), true
	}
	slices.Sort(numbers)
	return numbers, more, err
}

// acceptedWith takes the next deliveries of the acceptance of events whose keys have these hashes.
func (c *candidates) acceptedWith(hashes []int64, after int64) (numbers []int64, more bool, err error) {
	there, err := stored(c.r, oldestEventQuery, newestEventQuery)
	if err != nil {
		return nil, false, err
	}
	first, err := originAbove(c.r, there, func(made window) bool { return made.below > after+1 })
	if err != nil {
		return nil, false, err
	}
	in, with := c.accepted.and(there).and(window{first, there.below}), having(c.r, hashes, len(hashes), eventsKeyQuery, "")
	for block := in.from >> rows.BlockBits; block <= (in.below-1)>>rows.BlockBits && !in.empty(); block++ {
		if err := c.ctx.Err(); err != nil {
			return nil, false, err
		}
		events, err := with(block)
		if err != nil {
			return nil, false, err
		}
		for _, event := range slices.Backward(newestFirst(events, in)) {
			made, err := createdBy(c.r, event)
			if err != nil {
				return nil, false, err
			}
			for n := max(made.from, after+1); n < made.below; n++ {
				if numbers = append(numbers, n); len(numbers) == c.bounds.Looked {
					return numbers, true, c.ctx.Err()
				}
			}
		}
	}
	return numbers, false, nil
}

// undelivered takes the next of each status. Those behind the last one of a status that has more
// are left for later.
func (c *candidates) undelivered(after int64) (numbers []int64, more bool, err error) {
	end := everything(0).below
	for _, status := range c.status {
		q := c.r.Query(undeliveredAfterQuery).Int(c.target).Int(status).Int(after).Int(c.within.below)
		found, err := rows.Integers(q.Int(int64(c.bounds.Looked)))
		if err != nil {
			return nil, false, err
		}
		if len(found) == c.bounds.Looked {
			end = min(end, found[len(found)-1])
		}
		numbers = append(numbers, found...)
	}
	more = end < everything(0).below
	numbers = slices.DeleteFunc(numbers, func(n int64) bool { return n > end })
	slices.Sort(numbers)
	return numbers, more, nil
}

// finished goes through the blocks of the target's finished deliveries.
func (c *candidates) finished(after int64) (numbers []int64, more bool, err error) {
	there, err := stored(c.r, oldestFinishedQuery, newestFinishedQuery)
	if err != nil {
		return nil, false, err
	}
	q := c.r.Query(finishedTargetQuery)
	after = max(after, there.from-1)
	last := min(there.below, c.within.below) - 1
	for block := (after + 1) >> rows.BlockBits; block <= last>>rows.BlockBits; block++ {
		if err := c.ctx.Err(); err != nil {
			return nil, false, err
		}
		found, err := rows.Integers(q.Int(block).Int(c.target))
		if err != nil {
			return nil, false, err
		}
		found = slices.DeleteFunc(found, func(n int64) bool { return n <= after || n > last })
		slices.Sort(found)
		if numbers = append(numbers, found...); len(numbers) > c.bounds.Looked {
			return numbers[:c.bounds.Looked], true, nil
		}
	}
	return numbers, false, nil
}
