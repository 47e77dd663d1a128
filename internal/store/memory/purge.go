package memory

import (
	"context"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/decide"
)

// Purge examines the events in the order of their acceptance.
func (s *model) Purge(_ context.Context, keep store.Keep, limit int) (int, error) {
	now := micro(keep.Now)
	s.merge(now)
	removed, _ := s.remove(limit, keep.Shortest(), func(e *event) (time.Time, bool) {
		before := now.Add(-keep.Of(e.Tenant, e.Type))
		return before, e.AcceptedAt.Before(before)
	})
	return removed, nil
}

// remove removes old events, and their deliveries that finished before the time that old returns. It
// counts as Purge does, and also returns what it has removed. shortest is that of queue.forget.
func (s *model) remove(limit int, shortest time.Duration, old func(*event) (time.Time, bool)) (removed int, what store.TenantErased) {
	gone := make(map[*delivery]bool)
	s.events = slices.DeleteFunc(s.events, func(e *event) bool {
		before, is := old(e)
		if removed >= limit || !is {
			return false
		}
		had := len(e.deliveries)
		e.deliveries = slices.DeleteFunc(e.deliveries, func(d *delivery) bool {
			gone[d] = removed < limit && d.status.Final() && decide.Moment(d.finished).Before(before)
			if gone[d] {
				removed++
			}
			return gone[d]
		})
		if had == 0 {
			removed++
		}
		if len(e.deliveries) > 0 {
			return false
		}
		delete(s.byID, named(&e.Event))
		what.Events++
		return true
	})
	s.deliveries = slices.DeleteFunc(s.deliveries, func(d *delivery) bool {
		if gone[d] {
			s.purged++
			q := s.queue(d.Endpoint)
			q.forget(d, shortest)
			q.purged = max(q.purged, d.Seq)
			what.Deliveries, what.Attempts = what.Deliveries+1, what.Attempts+len(d.tries)
		}
		return gone[d]
	})
	return removed, what
}

// Imbalance compares the deliveries created and purged with those that are stored.
func (s *model) Imbalance(_ context.Context) (int64, error) {
	here := make(map[grapnel.Status]int64)
	for _, d := range s.deliveries {
		here[d.status]++
	}
	balance := s.made - s.purged
	for _, status := range grapnel.Statuses() {
		balance -= here[status]
	}
	return balance, nil
}
