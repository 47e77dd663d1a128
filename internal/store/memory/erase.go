package memory

import (
	"context"
	"math"
	"slices"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
)

// EraseEvents empties one event after the other.
func (s *model) EraseEvents(_ context.Context, q store.Erasure) (done store.Erased, err error) {
	for _, seq := range q.Events {
		e := s.event(seq)
		if e == nil || e.Tenant != q.Tenant || !e.ErasedAt.IsZero() && !(q.Keys && e.Key != "") {
			continue
		}
		if e.pending() || q.LeaveDead && e.dead() {
			done.Pending = append(done.Pending, seq)
			continue
		}
		done.Events++
		e.ErasedAt, e.Data, e.Metadata, e.Intake = micro(q.At), nil, nil, nil
		for _, d := range e.deliveries {
			done.Deliveries++
			done.Attempts += len(d.tries)
			d.Reason, d.mark.Note, d.mark.DiscardReason = "", "", ""
			for i := range d.tries {
				codec.Empty(&d.tries[i])
			}
			if q.Keys {
				s.queue(d.Endpoint).forget(d, math.MinInt64) // whatever position it had
				d.Key, d.lane = "", nil
			}
		}
		if q.Keys {
			e.Key = ""
		}
	}
	return done, nil
}

func (e *event) pending() bool {
	for _, d := range e.deliveries {
		if !d.status.Final() {
			return true
		}
	}
	return false
}

// dead says whether a delivery of the event is a dead letter.
func (e *event) dead() bool {
	return slices.ContainsFunc(e.deliveries, func(d *delivery) bool {
		return d.status == grapnel.Failed && d.mark.DiscardedAt.IsZero() && d.mark.ReplayResult != grapnel.Delivered
	})
}

// Reclaim has nothing to do: there are no files.
func (s *model) Reclaim(context.Context) (string, error) { return "", nil }
