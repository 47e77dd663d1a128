package replay

import (
	"context"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// most is how many deliveries, types or keys a request may name.
const most = 10_000

// exclusion is why a delivery that matches is left out.
type exclusion int

const (
	meant exclusion = iota
	alreadyReplayed
	putAway
	onItsWay
	superseded
)

// excluded says why d is left out of a replay, as it is now.
func excluded(d *grapnel.Delivery, s *grapnel.Selection) exclusion {
	switch {
	case len(s.Deliveries) == 0 && d.Mark.ReplayedAs != 0 && slices.Contains(s.Status, d.Mark.ReplayResult):
		// Its copy is over in a status that is meant as well. With both, every replay would double what it leaves behind.
		return superseded
	case s.Again:
		return meant
	case !d.Mark.DiscardedAt.IsZero():
		return putAway
	case d.Mark.ReplayResult == grapnel.Delivered:
		return alreadyReplayed
	case d.Mark.ReplayResult == grapnel.Pending:
		return onItsWay
	}
	return meant
}

// Plan counts what a replay would deliver again.
func (r *Runner) Plan(ctx context.Context, scope store.Scope, q Request) (Plan, error) {
	ep, err := r.check(scope, &q)
	if err != nil {
		return Plan{}, err
	}
	end := r.now().Add(r.bounds.Within)
	c := &counting{selection: &q.Selection, events: map[string][]int64{}}
	if err := r.count(ctx, &ep, c, r.now(), end); err != nil {
		return Plan{}, err
	}
	err = r.overtaken(ctx, &ep, c, end)
	return c.Plan, err
}

// check refuses what cannot be carried out and fills in what is left out. It returns the endpoint that is meant.
func (r *Runner) check(scope store.Scope, q *Request) (grapnel.Endpoint, error) {
	ep, ok := r.street.Endpoint(scope, q.Endpoint)
	if !ok {
		return ep, store.ErrNotFound("endpoint")
	}
	if ep.DropReason() != "" {
		return ep, grapnel.Errorf(grapnel.CodeConflict, "the endpoint is disabled and its policy drops what would wait: enable it first")
	}
	s := &q.Selection
	if len(s.Status) == 0 {
		s.Status = []grapnel.Status{grapnel.Failed}
	}
	if q.Rate == 0 {
		q.Rate = DefaultRate
	}
	switch {
	case !(q.Rate > 0 && q.Rate <= MaxRate):
		return ep, grapnel.Invalid("/rate", "must be above 0 and at most %d deliveries in a second", MaxRate)
	case q.StopAfter < 0:
		return ep, grapnel.Invalid("/stop_after", "must not be negative; 0 is never")
	case len(s.Deliveries) > most:
		return ep, grapnel.Invalid("/deliveries", "at most %d can be named; select them by time, type or key", most)
	case len(s.Types) > most:
		return ep, grapnel.Invalid("/event_types", "at most %d can be named", most)
	case len(s.Keys) > most:
		return ep, grapnel.Invalid("/keys", "at most %d can be named", most)
	case !s.From.IsZero() && !s.To.IsZero() && !s.From.Before(s.To):
		return ep, grapnel.Invalid("/to", "must be after from")
	}
	for _, status := range s.Status {
		if !status.Final() || !slices.Contains(grapnel.Statuses(), status) {
			return ep, grapnel.Invalid("/status", "%q is not a status of deliveries that are over", status)
		}
	}
	for _, pattern := range s.Types {
		if !grapnel.ValidPattern(pattern) {
			return ep, grapnel.Invalid("/event_types", "%q is no event type or pattern", pattern)
		}
	}
	return ep, nil
}

// counting is a plan that is being made.
type counting struct {
	Plan
	selection *grapnel.Selection
	events    map[string][]int64 // by key: the events of what is meant
}

// count looks at all that match, until somebody has waited long enough.
func (r *Runner) count(ctx context.Context, ep *grapnel.Endpoint, c *counting, overBy, end time.Time) error {
	find := store.CandidateQuery{Endpoint: ep.ID, Selection: *c.selection, OverBy: overBy, Limit: r.bounds.Plan}
	for {
		list, resume, err := r.store.Candidates(ctx, store.Of(ep.Tenant), find)
		if err != nil {
			return err
		}
		for i := range list {
			c.count(&list[i])
		}
		if resume == 0 {
			break
		}
		if find.After = resume; !r.now().Before(end) {
			c.Partial = true
			break
		}
	}
	c.Keys = len(c.events)
	for _, events := range c.events {
		n := len(events)
		if ep.Ordering != grapnel.OrderByKey {
			n = 1
		}
		c.LongestChain = max(c.LongestChain, n)
	}
	if c.LongestChain == 0 && c.Total > 0 {
		c.LongestChain = 1
	}
	return nil
}

// count counts one.
func (c *counting) count(d *grapnel.Delivery) {
	switch excluded(d, c.selection) {
	case alreadyReplayed:
		c.AlreadyReplayed++
	case putAway:
		c.Discarded++
	case onItsWay:
		c.OnItsWay++
	case superseded:
		c.Superseded++
	case meant:
		c.Total++
		if d.Key != "" {
			c.events[d.Key] = append(c.events[d.Key], d.EventSeq)
		}
	}
}

// overtaken counts what is older than the newest of its key that was delivered.
func (r *Runner) overtaken(ctx context.Context, ep *grapnel.Endpoint, c *counting, end time.Time) error {
	for key, events := range c.events {
		if !r.now().Before(end) {
			c.Partial = true
			return nil
		}
		newest, err := r.newest(ctx, ep, key)
		if err != nil {
			return err
		}
		for _, event := range events {
			if event < newest {
				c.Overtaken++
			}
		}
	}
	return nil
}

// newest is the number of the newest event of a key that was delivered; 0: none was. What repeats another delivery may be about any older
// event. But a delivery that acceptance made is about a newer one than those before it, repeated or not.
func (r *Runner) newest(ctx context.Context, ep *grapnel.Endpoint, key string) (event int64, err error) {
	q := store.DeliveryQuery{Endpoint: ep.ID, Key: key, Status: []grapnel.Status{grapnel.Delivered}, Limit: min(8, r.bounds.Plan)}
	for {
		list, err := r.store.DeliveryList(ctx, store.Of(ep.Tenant), q)
		if err != nil {
			return 0, err
		}
		for i := range list {
			if event = max(event, list[i].EventSeq); list[i].ReplayOf == 0 {
				return event, nil
			}
		}
		if len(list) < q.Limit {
			return event, nil
		}
		q.Before = list[len(list)-1].Seq
		q.Limit = min(2*q.Limit, r.bounds.Plan)
	}
}
