package memory

import (
	"context"
	"slices"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/decide"
)

// Purge examines the events in the order of their acceptance.
func (s *model) Purge(_ context.Context, keep store.Keep, limit int) (int, error) {
	now, removed := micro(keep.Now), 0
	s.merge(now)
	gone := make(map[*delivery]bool)
	s.events = slices.DeleteFunc(s.events, func(e *event) bool {
		before := now.Add(-keep.Of(e.Tenant, e.Type))
		if removed >= limit || !e.AcceptedAt.Before(before) {
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
		return true
	})
	s.deliveries = slices.DeleteFunc(s.deliveries, func(d *delivery) bool {
		if gone[d] {
			s.purged++
			s.queue(d.Endpoint).forget(d, keep.Shortest())
		}
		return gone[d]
	})
	return removed, nil
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
