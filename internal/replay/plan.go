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

// exclusion is the reason for leaving a candidate out; meant: it is not left out.
type exclusion int

const (
	meant exclusion = iota
	alreadyReplayed
	putAway
	onItsWay
	superseded
)

// excluded is the reason for leaving d out of a replay, by its current marks.
func excluded(d *grapnel.Delivery, s *grapnel.Selection) exclusion {
	switch {
	case len(s.Deliveries) == 0 && d.Mark.ReplayedAs != 0 && slices.Contains(s.Status, d.Mark.ReplayResult):
		// Its copy has finished in a selected status as well. With both, every replay would double
		// the number of its failures.
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

// Plan counts the deliveries that a replay would create.
func (r *Runner) Plan(ctx context.Context, scope store.Scope, q Request) (Plan, error) {
	ep, err := r.check(scope, &q)
	if err != nil {
		return Plan{}, err
	}
	end := r.now().Add(r.bounds.Within)
	if q.CountFor > 0 {
		end = r.now().Add(min(q.CountFor, r.bounds.Within))
	}
	c := &counting{selection: &q.Selection, events: map[string][]int64{}, atOnce: r.bounds.Plan}
	if q.CountFor > 0 {
		c.atOnce = min(c.atOnce, r.bounds.Brief)
	}
	if err := r.count(ctx, &ep, c, r.now(), end); err != nil {
		return Plan{}, err
	}
	err = r.overtaken(ctx, &ep, c, end)
	return c.Plan, err
}

// check validates the request and fills in defaults. It returns the endpoint.
func (r *Runner) check(scope store.Scope, q *Request) (grapnel.Endpoint, error) {
	ep, ok := r.engine.Endpoint(scope, q.Endpoint)
	if !ok {
		return ep, store.ErrNotFound("endpoint")
	}
	if ep.DropReason() != "" {
		return ep, grapnel.Errorf(grapnel.CodeConflict, "the endpoint is disabled and its policy drops pending deliveries: enable it first")
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
			return ep, grapnel.Invalid("/status", "%q is not a status of finished deliveries", status)
		}
	}
	for _, pattern := range s.Types {
		if !grapnel.ValidPattern(pattern) {
			return ep, grapnel.Invalid("/event_types", "%q is no event type or pattern", pattern)
		}
	}
	return ep, nil
}

// counting is a plan in progress.
type counting struct {
	Plan
	selection *grapnel.Selection
	events    map[string][]int64 // by key: the events of the selected deliveries
	atOnce    int                // read between two looks at the clock
}

// count goes through the candidates until the time is up.
func (r *Runner) count(ctx context.Context, ep *grapnel.Endpoint, c *counting, overBy, end time.Time) error {
	find := store.CandidateQuery{Endpoint: ep.ID, Selection: *c.selection, OverBy: overBy, Limit: c.atOnce}
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

// count counts one candidate.
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

// overtaken counts the selected events that are older than the newest delivered one of their key.
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

// newest is the row id of the newest delivered event of a key; 0: none was delivered. A redelivery
// may be of any older event. But the first delivery in the list that is no redelivery is of a newer
// event than all before it, so the search ends there: mostly at the first one, as more of a key are
// far apart.
func (r *Runner) newest(ctx context.Context, ep *grapnel.Endpoint, key string) (event int64, err error) {
	q := store.DeliveryQuery{Endpoint: ep.ID, Key: key, Status: []grapnel.Status{grapnel.Delivered}, Limit: 1}
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
