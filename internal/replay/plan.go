package replay

import (
	"context"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Counting a plan reads what the replay would read, a page at a time. planWithin is how long somebody waits for it.
const (
	planPage   = 1000
	planWithin = 10 * time.Second
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
	return r.count(ctx, &ep, &q, r.now())
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

// count looks at all that match, for as long as somebody waits.
func (r *Runner) count(ctx context.Context, ep *grapnel.Endpoint, q *Request, overBy time.Time) (p Plan, err error) {
	chains := map[string]int{}
	find := store.CandidateQuery{Endpoint: ep.ID, Selection: q.Selection, OverBy: overBy, Limit: planPage}
	for end := r.now().Add(planWithin); ; {
		list, resume, err := r.store.Candidates(ctx, store.Of(ep.Tenant), find)
		if err != nil {
			return p, err
		}
		for i := range list {
			p.count(&list[i], &q.Selection, chains)
		}
		if resume == 0 {
			break
		}
		if find.After = resume; !r.now().Before(end) {
			p.Partial = true
			break
		}
	}
	p.Keys = len(chains)
	for _, n := range chains {
		if ep.Ordering != grapnel.OrderByKey {
			n = 1
		}
		p.LongestChain = max(p.LongestChain, n)
	}
	if p.LongestChain == 0 && p.Total > 0 {
		p.LongestChain = 1
	}
	return p, nil
}

// count counts one.
func (p *Plan) count(d *grapnel.Delivery, s *grapnel.Selection, chains map[string]int) {
	switch excluded(d, s) {
	case alreadyReplayed:
		p.AlreadyReplayed++
	case putAway:
		p.Discarded++
	case onItsWay:
		p.OnItsWay++
	case superseded:
		p.Superseded++
	case meant:
		p.Total++
		if d.Key != "" {
			chains[d.Key]++
		}
	}
}
