package memory

import (
	"context"
	"iter"
	"slices"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/decide"
)

// shown is a delivery as history shows it. Its status is the stored one, so pending for a held one
// too.
func (d *delivery) shown() grapnel.Delivery {
	e := d.event
	c := grapnel.Delivery{
		Seq: d.Seq, EventSeq: d.Event, EventID: e.ID, EndpointID: d.Endpoint, Tenant: e.Tenant, Type: e.Type, Key: e.Key,
		Position: d.Position, Status: d.status, ReasonCode: d.Code, Reason: d.Reason, AttemptsMade: d.Attempts,
		CreatedAt: codec.Moment(d.Created), FinishedAt: decide.Moment(d.finished), ReplayOf: d.ReplayOf, Last: d.last(), Mark: d.mark,
	}
	if d.status == grapnel.Pending {
		c.Waiting = grapnel.Waiting{Head: d.Head, Due: decide.Moment(d.Due), Blocked: d.Blocked, Anchor: decide.Moment(d.Anchor)}
		c.NextAttemptAt = c.Waiting.Due
	}
	return c
}

// last summarizes the last attempt.
func (d *delivery) last() grapnel.Last {
	if len(d.tries) == 0 {
		return grapnel.Last{}
	}
	return d.tries[len(d.tries)-1].Last()
}

// Event takes an empty tenant as any that the scope allows.
func (s *model) Event(_ context.Context, scope store.Scope, tenant, id string) (*grapnel.Event, []grapnel.Delivery, error) {
	only, some := scope.Narrow(tenant)
	e := s.byID[eventName{only, id}]
	if some && only == "" {
		for _, of := range s.events {
			if of.ID == id && e != nil {
				return nil, nil, store.ErrSeveral
			} else if of.ID == id {
				e = of
			}
		}
	}
	if e == nil || !some {
		return nil, nil, store.ErrNotFound("event")
	}
	c := copyEvent(&e.Event)
	c.Intake = deepCopy(e.Intake)
	var deliveries []grapnel.Delivery
	again := 0
	for _, d := range slices.Backward(e.deliveries) {
		if d.ReplayOf != 0 {
			again++
		}
		if d.ReplayOf == 0 || again <= store.MostRedeliveries {
			deliveries = append(deliveries, d.shown())
		}
	}
	slices.Reverse(deliveries)
	return &c, deliveries, nil
}

// newest lists the items with a row id below before (0: all).
func newest[T interface{ number() int64 }](all []T, before int64) []T {
	if before > 0 {
		i, _ := locate(all, before)
		return all[:i]
	}
	return all
}

// backward goes through a list from its end.
func backward[T any](list []T) iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, item := range slices.Backward(list) {
			if !yield(item) {
				return
			}
		}
	}
}

// pick returns at most limit of the wanted items, as they are shown.
func pick[T, R any](items iter.Seq[T], limit int, wanted func(T) bool, shown func(T) R) (list []R) {
	for item := range items {
		if len(list) >= limit {
			break
		}
		if wanted(item) {
			list = append(list, shown(item))
		}
	}
	return list
}

// EventList returns at most Limit events; no limit is none.
func (s *model) EventList(_ context.Context, scope store.Scope, q store.EventQuery) ([]grapnel.Event, error) {
	return pick(backward(newest(s.events, q.Before)), q.Limit, func(e *event) bool {
		return either(q.Source, e.Source) && q.Takes(scope, e.Tenant, e.Type, e.Key, e.AcceptedAt)
	}, func(e *event) grapnel.Event { return copyEvent(&e.Event) }), nil
}

// Delivery returns attempts in the order in which they were recorded.
func (s *model) Delivery(_ context.Context, scope store.Scope, seq int64) (*grapnel.Delivery, error) {
	d := s.delivery(seq)
	if d == nil || !scope.Allows(d.event.Tenant) {
		return nil, store.ErrNotFound("delivery")
	}
	c := d.shown()
	for _, a := range d.tries {
		c.Attempts = append(c.Attempts, copyAttempt(a))
	}
	return &c, nil
}

// DeliveryList returns at most Limit deliveries; no limit is none.
func (s *model) DeliveryList(_ context.Context, scope store.Scope, q store.DeliveryQuery) ([]grapnel.Delivery, error) {
	wanted := func(d *delivery) bool { return d.wanted(scope, &q) }
	return pick(backward(newest(s.deliveries, q.Before)), q.Limit, wanted, (*delivery).shown), nil
}

// Feed examines all deliveries from the mark on.
func (s *model) Feed(ctx context.Context, scope store.Scope, q store.FeedQuery) (store.FeedPage, error) {
	is := store.FeedState{UpTo: s.made}
	if of := s.queues[q.Endpoint]; of != nil {
		is.Purged = of.purged
	}
	after := int64(0)
	if q.After != nil {
		after = q.After.Seq
		d := s.delivery(after)
		is.Known = d != nil && q.After.Of.Event != 0 && q.After.Of.Is(d.Event, d.Endpoint, d.Created)
	}
	if q.After.Lost(is) {
		q.After = nil
		page, err := s.Feed(ctx, scope, q)
		page.Gap = true
		return page, err
	}
	i, _ := locate(s.deliveries, after+1)
	read := pick(slices.Values(s.deliveries[i:]), q.Limit, func(d *delivery) bool { return d.Endpoint == q.Endpoint }, (*delivery).shown)
	return q.Page(scope, read, is), nil
}

// wanted says whether a list has d in it.
func (d *delivery) wanted(scope store.Scope, q *store.DeliveryQuery) bool {
	e, is, events := d.event, d.shown(), q.Events()
	return either(q.Source, e.Source) && events.Takes(scope, e.Tenant, e.Type, e.Key, e.AcceptedAt) && q.Takes(&is)
}

// Counts counts by the stored status: held deliveries are counted as pending.
func (s *model) Counts(_ context.Context, scope store.Scope) (map[string]map[grapnel.Status]int64, error) {
	counts := make(map[string]map[grapnel.Status]int64)
	for _, d := range s.deliveries {
		if !scope.Allows(d.event.Tenant) {
			continue
		}
		if counts[d.Endpoint] == nil {
			counts[d.Endpoint] = make(map[grapnel.Status]int64)
		}
		counts[d.Endpoint][d.status]++
	}
	return counts, nil
}

// HasType examines all events.
func (s *model) HasType(_ context.Context, tenant, name string, limit int) (has bool, n int, err error) {
	kinds := map[[2]string]bool{}
	for _, e := range s.events {
		if e.Tenant == tenant {
			kinds[[2]string{e.Type, e.Source}] = true
			has = has || e.Type == name
		}
	}
	return has, min(len(kinds), max(limit, 0)), nil
}

// Waiting counts heads and the deliveries behind them.
func (s *model) Waiting(_ context.Context, endpoint string, limit int) (int, error) {
	return min(s.queue(endpoint).pending.size, max(limit, 0)), nil
}
