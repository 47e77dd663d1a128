package queue

import (
	"context"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/core"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// Verdict is what a consumer says came of a delivery.
type Verdict string

// The verdicts.
const (
	Ack    Verdict = "ack"    // it is dealt with
	Nack   Verdict = "nack"   // it shall come again
	Reject Verdict = "reject" // trying again would not help
)

// Answer is a consumer's answer to a lease.
type Answer struct {
	Verdict  Verdict
	Reason   string
	Delay    time.Duration // of a nack, in place of the policy's; meaningful when HasDelay
	HasDelay bool
}

// Settlement is an answer to the lease that a token names.
type Settlement struct {
	Token string
	Answer
}

// errOver is for leases that are over or settled, were never granted, or are another tenant's.
var errOver = grapnel.Errorf(grapnel.CodeConflict, "the lease is over or settled: somebody else may have the message")

// Settle records what came of a lease; grapnel.CodeConflict when it is over or settled.
func (r *Room) Settle(ctx context.Context, scope store.Scope, token string, a Answer) error {
	return r.SettleAll(ctx, scope, []Settlement{{token, a}})[0]
}

// SettleAll records what came of leases, all of them together, and returns an error or nil for each.
func (r *Room) SettleAll(ctx context.Context, scope store.Scope, list []Settlement) []error {
	errs := make([]error, len(list))
	now := r.now()
	var changes []core.Change
	var leases []grapnel.Lease
	var of []int // the settlement that each change is of
	for i := range list {
		lease, ep, err := r.find(ctx, scope, list[i].Token)
		if err != nil {
			errs[i] = err
			continue
		}
		changes = append(changes, judge(&ep, lease, list[i].Answer, now))
		leases, of = append(leases, lease), append(of, i)
	}
	if len(changes) == 0 {
		return errs
	}
	applied, err := r.record(ctx, changes)
	for n, i := range of {
		switch {
		case err != nil:
			errs[i] = err
			continue // it may be valid still
		case !applied[n]:
			errs[i] = errOver
			r.metrics.stale.Inc()
		default:
			r.metrics.settled.WithLabelValues(string(list[i].Verdict)).Inc()
		}
		r.granted.drop(leases[n].Token)
		r.line(leases[n].Queue).unbar()
	}
	return errs
}

// Extend lets a lease end so long from now, or as long as the queue gives everybody if by is 0; grapnel.CodeConflict when it is over or settled.
func (r *Room) Extend(ctx context.Context, scope store.Scope, token string, by time.Duration) (grapnel.Lease, error) {
	_, ep, err := r.find(ctx, scope, token)
	if err != nil {
		return grapnel.Lease{}, err
	}
	if by == 0 {
		by = ep.Queue.Lease
	}
	lease, err := r.store.Extend(ctx, token, r.now(), by)
	switch code := grapnel.CodeOf(err); {
	case code == grapnel.CodeConflict || code == grapnel.CodeNotFound:
		return grapnel.Lease{}, errOver
	case err != nil:
		return grapnel.Lease{}, err
	}
	r.granted.put([]grapnel.Lease{lease})
	r.line(lease.Queue).expect([]grapnel.Lease{lease})
	return lease, nil
}

// find is a lease and its queue. Whether it is valid is for the store to say.
func (r *Room) find(ctx context.Context, scope store.Scope, token string) (grapnel.Lease, grapnel.Endpoint, error) {
	lease, known := r.granted.get(token)
	if !known {
		var err error
		if lease, err = r.store.Lease(ctx, token); err != nil {
			if grapnel.CodeOf(err) == grapnel.CodeNotFound {
				r.metrics.stale.Inc()
				err = errOver
			}
			return lease, grapnel.Endpoint{}, err
		}
	}
	ep, there := r.street.Endpoint(scope, lease.Queue)
	if !there {
		return lease, ep, errOver
	}
	return lease, ep, nil
}

// judge is what an answer makes of a delivery.
func judge(ep *grapnel.Endpoint, l grapnel.Lease, a Answer, now time.Time) core.Change {
	in := core.Finished{Endpoint: ep.ID, Delivery: l.Delivery, Outcome: policy.Outcome{Class: policy.ClassNone}}
	said := ""
	switch a.Verdict {
	case Nack:
		in.Outcome = policy.Outcome{Class: policy.ClassNack, Delay: a.Delay, HasDelay: a.HasDelay}
		said = "gave it back"
	case Reject:
		in.Outcome.Class, said = policy.ClassReject, "rejected it"
	}
	if said != "" {
		said = l.Consumer + " " + said
		if a.Reason != "" {
			said += ": " + a.Reason
		}
	}
	return settled(ep, l, in, said, false, now)
}

// settled is a change by the core's judgement. How long the attempt took is how long the consumer had it.
func settled(ep *grapnel.Endpoint, l grapnel.Lease, in core.Finished, said string, over bool, now time.Time) core.Change {
	ended := now
	if over {
		ended = l.Until
	}
	in.Attempt = grapnel.Attempt{StartedAt: l.GrantedAt, Duration: max(ended.Sub(l.GrantedAt), 0), Class: in.Outcome.Class, Error: said}
	head := store.Head{Delivery: l.Delivery, Event: l.Event, Endpoint: ep.ID, Attempts: l.Number - 1, Anchor: l.Anchor, Trigger: l.Trigger, CreatedAt: l.CreatedAt}
	return core.Settle(ep, head, in, l, over, now)
}

// record records changes, again if it is unknown whether they are recorded, and says which of them are.
func (r *Room) record(ctx context.Context, changes []core.Change) (applied []bool, err error) {
	applied = make([]bool, len(changes))
	for try := 1; ; try++ {
		var results []store.Changed
		if results, err = r.street.Settle(ctx, changes); err == nil {
			for i := range results {
				applied[i] = results[i].Applied
				if !applied[i] && try > 1 {
					if applied[i], err = r.onRecord(ctx, &changes[i]); err != nil {
						return nil, err
					}
				}
			}
			return applied, nil
		}
		if grapnel.CodeOf(err) != "" || try == r.bounds.Record {
			return nil, err
		}
		rest(ctx, pause(try))
	}
}

// onRecord says whether a change that no longer applies is the reason for that: its answer was lost.
func (r *Room) onRecord(ctx context.Context, ch *core.Change) (bool, error) {
	d, err := r.store.Delivery(ctx, store.Everyone(), ch.Delivery)
	if grapnel.CodeOf(err) == grapnel.CodeNotFound {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for i := range d.Attempts {
		if a := &d.Attempts[i]; a.Number == ch.Attempt.Number {
			return a.Class == ch.Attempt.Class && a.StartedAt.Equal(ch.Attempt.StartedAt.Truncate(time.Microsecond)), nil
		}
	}
	return false, nil
}

// runOut records that leases are over: that was an attempt of each.
func (r *Room) runOut(ep *grapnel.Endpoint, leases []grapnel.Lease) bool {
	now := r.now()
	changes := make([]core.Change, len(leases))
	for i, l := range leases {
		r.granted.drop(l.Token)
		in := core.Finished{Endpoint: ep.ID, Delivery: l.Delivery, Outcome: policy.Outcome{Class: policy.ClassLease}}
		said := l.Consumer + " said nothing until its lease ran out, after " + l.Until.Sub(l.GrantedAt).Round(time.Millisecond).String()
		changes[i] = settled(ep, l, in, said, true, now)
	}
	results, err := r.street.Settle(context.Background(), changes)
	if err != nil {
		r.log.Error("leases that are over could not be recorded; they will be again", "leases", len(leases), "error", err)
		return false
	}
	for i := range results {
		if results[i].Applied {
			r.metrics.over.Inc()
		}
	}
	r.line(ep.ID).unbar()
	return true
}
