package memory

import (
	"context"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/decide"
)

// lookedAt is the number of deliveries that Candidates and DeliverySearch read in one call. It is
// small, so that callers meet the limit in tests.
const lookedAt = 1000

func (s *model) replay(id string) (at int, there bool) {
	return slices.BinarySearchFunc(s.replays, id, func(r *replay, id string) int { return strings.Compare(r.ID, id) })
}

// PutReplay stores a new replay, or the fields of an existing one that may change.
func (s *model) PutReplay(_ context.Context, scope store.Scope, r grapnel.Replay, with store.With) (store.Put, error) {
	return s.putting(with, func() (int64, error) {
		at, there := s.replay(r.ID)
		var stored *grapnel.Replay
		if there {
			stored = &s.replays[at].Replay
		}
		kept, err := decide.Replay(scope, stored, r)
		if err != nil {
			return 0, err
		}
		kept = deepCopy(kept)
		kept.Revision++
		if there {
			*stored = kept
			return kept.Revision, nil
		}
		kept.UpTo, kept.Cursor = s.made, 0
		kept.Started, kept.Done, kept.Delivered, kept.Failed, kept.Row = 0, 0, 0, 0, 0
		s.replays = slices.Insert(s.replays, at, &replay{Replay: kept})
		return kept.Revision, nil
	})
}

// Replay returns one.
func (s *model) Replay(_ context.Context, scope store.Scope, id string) (grapnel.Replay, error) {
	at, there := s.replay(id)
	if !there || !scope.Allows(s.replays[at].Tenant) {
		return grapnel.Replay{}, store.ErrNotFound("replay")
	}
	return deepCopy(s.replays[at].Replay), nil
}

// ReplayList returns at most Limit replays; no limit: none.
func (s *model) ReplayList(_ context.Context, scope store.Scope, q store.ReplayQuery) ([]grapnel.Replay, error) {
	return pick(backward(s.replays), q.Limit, func(r *replay) bool {
		return scope.Allows(r.Tenant) && either(q.Tenant, r.Tenant) && either(q.Endpoint, r.Endpoint) && !(q.Active && r.Status.Final()) &&
			(q.Before == "" || r.ID < q.Before)
	}, func(r *replay) grapnel.Replay { return deepCopy(r.Replay) }), nil
}

// Candidates reads at most lookedAt deliveries.
func (s *model) Candidates(_ context.Context, scope store.Scope,
	q store.CandidateQuery) (list []grapnel.Delivery, resume int64, err error) {
	if q.Limit <= 0 {
		return nil, 0, nil
	}
	first, _ := locate(s.deliveries, q.After+1)
	for i, d := range s.deliveries[first:] {
		if i == lookedAt || len(list) >= q.Limit {
			return list, d.Seq - 1, nil
		}
		named := len(q.Selection.Deliveries) == 0 || slices.Contains(q.Selection.Deliveries, d.Seq)
		if c := d.shown(); named && q.Takes(scope, &c, d.event.AcceptedAt) {
			list = append(list, c)
		}
	}
	return list, 0, nil
}

// Advance creates the next deliveries of a replay.
func (s *model) Advance(_ context.Context, step store.ReplayStep) ([]store.Redelivered, error) {
	at, there := s.replay(step.Replay)
	if !there {
		return nil, store.ErrNotFound("replay")
	}
	r := s.replays[at]
	if err := decide.Step(&r.Replay, &step); err != nil {
		return nil, err
	}
	endpoint := s.endpoint(r.Endpoint)
	if err := endpoint.Open(); err != nil {
		return nil, err
	}
	done := make([]store.Redelivered, len(step.Items))
	for i, one := range step.Items {
		of := s.delivery(one.Of)
		if of == nil || !of.status.Final() || of.Endpoint != r.Endpoint || !of.event.ErasedAt.IsZero() ||
			one.Overtaken(of.mark.ReplayedAs, !of.mark.DiscardedAt.IsZero()) {
			continue
		}
		done[i] = s.again(of, grapnel.TriggerReplay, one.Ordered, one.Delay, step.At, r.ID)
		d := s.deliveries[len(s.deliveries)-1]
		d.item = &item{of: r, ReplayItem: grapnel.ReplayItem{
			Original: of.Seq, CreatedAt: codec.Moment(of.Created), Made: d.Seq, MadeAt: done[i].CreatedAt, Status: grapnel.Pending,
		}}
		r.items = append(r.items, d.item)
		r.Started++
	}
	r.Cursor = step.To
	return done, nil
}

// again creates a delivery that repeats another one, by hand or by a replay, and records that on
// the original.
func (s *model) again(of *delivery, trigger grapnel.Trigger, ordered bool, delay time.Duration, at time.Time, by string) store.Redelivered {
	d := s.create(of.event, decide.Pending{Endpoint: of.Endpoint, Created: codec.Micros(at), ReplayOf: of.Seq, Trigger: trigger})
	done := store.Redelivered{Delivery: d.Seq, CreatedAt: codec.Moment(d.Created)}
	if s.wait(d, ordered, delay, time.Time{}); d.Head {
		done.Head = d.head()
	}
	of.mark.ReplayedAt, of.mark.ReplayedBy, of.mark.ReplayedAs, of.mark.ReplayResult = done.CreatedAt, by, d.Seq, grapnel.Pending
	return done
}

// tally counts a finished delivery for its replay, and marks the original with the result, unless
// the original was redelivered once more since.
func (s *model) tally(d *delivery) {
	if of := s.delivery(d.ReplayOf); of != nil && of.mark.ReplayedAs == d.Seq {
		of.mark.ReplayResult = d.status
	}
	if d.ReplayOf != 0 && d.status == grapnel.Delivered {
		s.resolve(d)
	}
	if d.item == nil || d.item.of == nil {
		return
	}
	d.item.Status = d.status
	r := d.item.of
	r.Done++
	if d.status == grapnel.Delivered {
		r.Delivered++
		r.Row = 0
		return
	}
	r.Failed++
	r.Row++
}

// resolve marks the failed deliveries of an event that a redelivery has delivered to their
// endpoint, unless they were redelivered once more since.
func (s *model) resolve(d *delivery) {
	by := ""
	if d.item != nil && d.item.of != nil {
		by = d.item.of.ID
	}
	for _, of := range d.event.deliveries {
		if m := &of.mark; of.Endpoint == d.Endpoint && of.status == grapnel.Failed && of.Seq < d.Seq && m.ReplayedAs < d.Seq {
			m.ReplayedAt, m.ReplayedBy, m.ReplayedAs, m.ReplayResult = codec.Moment(d.Created), by, d.Seq, d.status
		}
	}
}

// ReplayItems returns at most limit; no limit is none.
func (s *model) ReplayItems(_ context.Context, scope store.Scope, id string, after int64, limit int) ([]grapnel.ReplayItem, error) {
	at, there := s.replay(id)
	if !there || !scope.Allows(s.replays[at].Tenant) {
		return nil, store.ErrNotFound("replay")
	}
	items := s.replays[at].items
	items = items[sort.Search(len(items), func(i int) bool { return items[i].Original > after }):]
	var list []grapnel.ReplayItem
	for _, i := range items[:min(len(items), max(limit, 0))] {
		list = append(list, i.ReplayItem)
	}
	return list, nil
}

// Again refuses an endpoint that is absent or marked as deleted (decide.Object.Open).
func (s *model) Again(_ context.Context, scope store.Scope, r store.Redelivery) (store.Redelivered, error) {
	if then, err := s.recall(r.Once); then != nil || err != nil {
		return store.Redelivered{Answer: then}, err
	}
	of := s.delivery(r.Of)
	if of == nil || !scope.Allows(of.event.Tenant) {
		return store.Redelivered{}, store.ErrNotFound("delivery")
	}
	endpoint := s.endpoint(of.Endpoint)
	if err := endpoint.Open(); err != nil {
		return store.Redelivered{}, err
	}
	if !of.event.ErasedAt.IsZero() {
		return store.Redelivered{}, store.ErrErased
	}
	done := s.again(of, r.Trigger, r.Ordered, r.Delay, r.At, "")
	s.note(r.Audit)
	s.remember(r.Once, done)
	return done, nil
}

// finish makes d final, which is delisted. If it was the head of its lane, the next one becomes the
// head, with this delay.
func (s *model) finish(d *delivery, e store.Ending, delay time.Duration) {
	s.queue(d.Endpoint).pending.take(d)
	d.Token = ""
	s.end(d, &e)
	s.tally(d)
	if d.lane == nil {
		return
	}
	d.lane.pending.take(d)
	if next := d.lane.pending.first(); d.Head && next != nil {
		next.Lead(d.finished, delay)
		s.enlist(next)
	}
}
