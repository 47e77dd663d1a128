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
	trial
)

// excluded is the reason for leaving d out of a replay, by its current marks.
func excluded(d *grapnel.Delivery, s *grapnel.Selection) exclusion {
	switch {
	case len(s.Deliveries) == 0 && d.Mark.ReplayedAs != 0 && slices.Contains(s.Status, d.Mark.ReplayResult):
		// Its copy has finished in a selected status as well. With both, every replay would double
		// the number of its failures.
		return superseded
	case d.Test():
		return trial
	case s.Again:
		return meant
	case d.ReplayOf != 0 && d.Status == grapnel.Delivered && len(s.Deliveries) == 0 && slices.Contains(s.Status, grapnel.Failed):
		// A selection of all ends means events and not deliveries: this event was replayed with success.
		return alreadyReplayed
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
	c := counted(&q.Selection, r.bounds.Plan, end)
	if q.CountFor > 0 {
		c.brief, c.atOnce = true, min(c.atOnce, r.bounds.Brief)
	}
	read := r.candidates(ctx, &ep, c, r.now())
	if query, is := searchable(&ep, &q.Selection); c.brief && is {
		read = r.glance(ctx, &ep, c, query, r.now())
	}
	if err := r.count(c, read); err != nil {
		return Plan{}, err
	}
	c.sum(&ep)
	if err := r.overtaken(ctx, &ep, c); err != nil {
		return Plan{}, err
	}
	err = r.waiting(ctx, &ep, c)
	return c.Plan, err
}

// waiting counts the pending deliveries that a selection would mean if they were finished.
func (r *Runner) waiting(ctx context.Context, ep *grapnel.Endpoint, c *counting) error {
	s := c.selection
	q := store.DeliveryQuery{Endpoint: ep.ID, Status: []grapnel.Status{grapnel.Pending, grapnel.Held}, From: s.From, To: s.To, Limit: c.atOnce}
	for len(s.Deliveries) == 0 && c.Waiting < r.bounds.Waiting {
		q.Within = c.left(r.now())
		list, resume, err := r.store.DeliverySearch(ctx, store.Of(ep.Tenant), q, "")
		if err != nil {
			return err
		}
		for i := range list {
			if c.Waiting < r.bounds.Waiting && s.Of(list[i].Type, list[i].Key) {
				c.Waiting++
			}
		}
		if resume == 0 || !r.now().Before(c.end) {
			return nil
		}
		q.Before = resume
	}
	return nil
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
	end       time.Time          // of counting
	brief     bool               // no single read may take long either
}

func counted(s *grapnel.Selection, atOnce int, end time.Time) *counting {
	return &counting{Plan: Plan{By: map[grapnel.Status]int{}}, selection: s, events: map[string][]int64{}, atOnce: atOnce, end: end}
}

// reading reads the next deliveries of a plan, after the row id at which the last reading ended; 0:
// it is the first. resume is where to go on; 0: these are the last.
type reading func(from int64) (list []grapnel.Delivery, resume int64, err error)

// count counts the deliveries of a reading until the time is up.
func (r *Runner) count(c *counting, read reading) error {
	for from := int64(0); ; {
		list, resume, err := read(from)
		if err != nil {
			return err
		}
		for i := range list {
			c.count(&list[i])
		}
		if resume == 0 {
			return nil
		}
		if from = resume; !r.now().Before(c.end) {
			c.Partial = true
			return nil
		}
	}
}

// candidates reads the deliveries that a selection means, in the order of their acceptance.
func (r *Runner) candidates(ctx context.Context, ep *grapnel.Endpoint, c *counting, overBy time.Time) reading {
	find := store.CandidateQuery{Endpoint: ep.ID, Selection: *c.selection, OverBy: overBy, Limit: c.atOnce}
	return func(from int64) ([]grapnel.Delivery, int64, error) {
		find.After = from
		return r.store.Candidates(ctx, store.Of(ep.Tenant), find)
	}
}

// searchable returns the search that finds what a selection means, if one search does.
func searchable(ep *grapnel.Endpoint, s *grapnel.Selection) (store.DeliveryQuery, bool) {
	q := store.DeliveryQuery{Endpoint: ep.ID, Status: s.Status, From: s.From, To: s.To, Class: s.Class, StatusCode: s.StatusCode}
	if len(s.Types) > 0 {
		q.Type = s.Types[0]
	}
	if len(s.Keys) > 0 {
		q.Key = s.Keys[0]
	}
	one := len(s.Types) <= 1 && len(s.Keys) <= 1 && (len(s.Keys) == 0 || q.Key != "")
	return q, len(s.Deliveries) == 0 && one
}

// glance reads the same, the newest first. It uses a search of the store, which stops when the time
// is up, whatever it has found until then.
func (r *Runner) glance(ctx context.Context, ep *grapnel.Endpoint, c *counting, q store.DeliveryQuery, overBy time.Time) reading {
	q.Limit = c.atOnce
	return func(from int64) ([]grapnel.Delivery, int64, error) {
		q.Before, q.Within = from, c.left(r.now())
		list, resume, err := r.store.DeliverySearch(ctx, store.Of(ep.Tenant), q, "")
		return slices.DeleteFunc(list, func(d grapnel.Delivery) bool { return d.FinishedAt.After(overBy) }), resume, err
	}
}

// left is the time left for a read: above 0, which would be no limit.
func (c *counting) left(now time.Time) time.Duration { return max(c.end.Sub(now), time.Microsecond) }

// sum fills in the fields that concern all counted deliveries.
func (c *counting) sum(ep *grapnel.Endpoint) {
	c.Keys, c.LongestChain = len(c.events), min(c.Total, 1)
	if ep.Ordered() {
		for _, events := range c.events {
			c.LongestChain = max(c.LongestChain, len(events))
		}
	}
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
	case trial:
		c.Tests++
	case meant:
		c.Total++
		c.By[d.Status]++
		if d.Key != "" {
			c.events[d.Key] = append(c.events[d.Key], d.EventSeq)
		}
	}
}

// overtaken counts the selected events that are older than the newest delivered one of their key.
func (r *Runner) overtaken(ctx context.Context, ep *grapnel.Endpoint, c *counting) error {
	for key, events := range c.events {
		if !r.now().Before(c.end) {
			c.Partial = true
			return nil
		}
		newest, complete, err := r.newest(ctx, ep, key, c)
		if err != nil {
			return err
		}
		c.Partial = c.Partial || !complete
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
// far apart. It is not complete if the time of a brief count is up before.
func (r *Runner) newest(ctx context.Context, ep *grapnel.Endpoint, key string, c *counting) (event int64, complete bool, err error) {
	q := store.DeliveryQuery{Endpoint: ep.ID, Key: key, Status: []grapnel.Status{grapnel.Delivered}, Limit: 1}
	for {
		list, resume, err := r.deliveries(ctx, ep, q, c)
		if err != nil {
			return 0, false, err
		}
		for i := range list {
			if event = max(event, list[i].EventSeq); list[i].ReplayOf == 0 {
				return event, true, nil
			}
		}
		if resume == 0 {
			return event, true, nil
		}
		if c.brief && !r.now().Before(c.end) {
			return event, false, nil
		}
		q.Before = resume
		q.Limit = min(2*q.Limit, r.bounds.Plan)
	}
}

// deliveries are the next of a list, and where it goes on; 0: these are the last. For a brief count
// there may be fewer than its limit although it goes on.
func (r *Runner) deliveries(ctx context.Context, ep *grapnel.Endpoint, q store.DeliveryQuery,
	c *counting) (list []grapnel.Delivery, resume int64, err error) {
	if c.brief {
		q.Within = c.left(r.now())
		return r.store.DeliverySearch(ctx, store.Of(ep.Tenant), q, "")
	}
	if list, err = r.store.DeliveryList(ctx, store.Of(ep.Tenant), q); len(list) == q.Limit {
		resume = list[len(list)-1].Seq
	}
	return list, resume, err
}
