package core

import (
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// verdict applies an endpoint's policy to an attempt's outcome. It reads nothing else, so requests
// and leases are judged by the same code.
type verdict struct {
	endpoint *grapnel.Endpoint
	now      time.Time
	in       *Finished
	progress policy.Progress // this attempt included
	step     policy.Step
	test     bool // it is attempted once, and its failure is no dead letter
}

// newVerdict takes the seed of the delivery's jitter, which is that of its row id (grapnel.IDs).
func newVerdict(ep *grapnel.Endpoint, h *store.Head, in *Finished, seed uint64, now time.Time) verdict {
	v := verdict{endpoint: ep, now: now, in: in, test: !h.Trigger.Counts(),
		progress: policy.Progress{Attempts: h.Attempts + 1, Anchor: h.Anchor, Seed: seed}}
	if h.Attempts == 0 {
		v.progress.Anchor = in.Attempt.StartedAt
	}
	if v.progress.Anchor.After(now) { // by a clock that was ahead
		v.progress.Anchor = now
	}
	in.Outcome = ep.Policy.Heed(in.Outcome) // health sees the wish only as far as the policy grants it
	v.step = ep.Policy.After(v.progress, in.Outcome, now)
	return v
}

// again says whether there is a next attempt.
func (v *verdict) again() bool {
	return (v.step.Decision == policy.Retry || v.step.Decision == policy.Throttle) && !v.step.Exhausted && !v.test
}

// change is the change to record, without its attempt, and the operational events to publish.
func (v *verdict) change() (ch store.Change, news []News) {
	switch {
	case v.step.Decision == policy.Deliver:
		ch = store.Change{Status: grapnel.Delivered, Reason: reasonDelivered(v.progress.Attempts), At: v.now, Trigger: grapnel.TriggerSchedule}
	case v.test:
		ch = store.Change{Status: grapnel.Discarded, Reason: "the test failed: " + whatHappened(*v.in), At: v.now}
	case v.again():
		ch = store.Change{Status: grapnel.Pending, Due: v.step.Next, At: v.now, Trigger: grapnel.TriggerSchedule,
			Reason: reasonRetry(v.progress.Attempts, *v.in)}
		ch.EndpointWide = v.in.Outcome.EndpointWide() || v.step.Decision == policy.Throttle
	case v.step.Exhausted:
		code := grapnel.ReasonExhausted
		if v.step.Expired {
			code = grapnel.ReasonExpired
		}
		ch, news = spent(v.endpoint, code, reasonExhausted(v.progress, v.step, *v.in, v.now), v.now)
	case v.in.Outcome.Class == policy.ClassReject, v.step.Decision == policy.Fail && v.in.Outcome.Wish == policy.WishStop:
		ch, news = dead(v.endpoint, grapnel.ReasonRejected, "failed: "+whatHappened(*v.in), v.now)
	default:
		ch, news = dead(v.endpoint, grapnel.ReasonPermanent, reasonPermanent(v.progress, *v.in), v.now)
	}
	ch.Anchor = v.progress.Anchor
	return ch, news
}

// attempt completes the attempt, which the change records.
func (v *verdict) attempt(trigger grapnel.Trigger, scheduled time.Time) *grapnel.Attempt {
	a := &v.in.Attempt
	a.Number, a.Trigger, a.ScheduledFor, a.PolicyRevision = v.progress.Attempts, trigger, scheduled, v.endpoint.Revision
	switch a.Decision = v.step.Decision; {
	case a.Decision == policy.Deliver:
	case v.again():
		a.NextAttemptAt = v.step.Next
	case v.step.Exhausted, v.test:
		a.Decision = policy.Fail // a retry would have been right, but there is no further attempt
	}
	return a
}

// Settle turns a lease's outcome into its delivery's change. in.Attempt has the time of the lease
// and the consumer's answer.
func Settle(ep *grapnel.Endpoint, in Finished, l grapnel.Lease, over bool, seed uint64, now time.Time) Change {
	h := leased(ep, l)
	v := newVerdict(ep, &h, &in, seed, now)
	ch, news := v.change()
	ch.Attempt = v.attempt(l.Trigger, l.Scheduled)
	ch.Lease = &store.Settlement{Token: l.Token, Over: over}
	return changed(ep, &h, ch, news, in.Event)
}

// changed is the change of a queue's delivery.
func changed(ep *grapnel.Endpoint, h *store.Head, ch store.Change, news []News, event Named) Change {
	ch.Delivery, ch.Identity, ch.Tenant = h.Delivery, h.Identity(), ep.Tenant
	ch.Expect, ch.NextDelay = h.Attempts, ep.Policy.FirstDelay()
	return Change{Endpoint: ep.ID, Change: ch, News: news,
		Subject: Subject{Event: h.Event, CreatedAt: h.CreatedAt, Attempts: h.Attempts, Named: event}}
}

// spent ends a delivery whose attempts or time are used up.
func spent(ep *grapnel.Endpoint, code grapnel.ReasonCode, reason string, now time.Time) (store.Change, []News) {
	if ep.Policy.OnExhausted == policy.Discard {
		// A discarded delivery blocks no key, whatever the policy says: no operator will act on it.
		return store.Change{Status: grapnel.Discarded, Reason: "discarded, because the policy stores no dead letters: " + reason, At: now}, nil
	}
	return dead(ep, code, "failed: "+reason, now)
}

// dead ends a delivery that has failed for good: it becomes a dead letter, or blocks its key until
// an operator acts.
func dead(ep *grapnel.Endpoint, code grapnel.ReasonCode, reason string, now time.Time) (store.Change, []News) {
	ch := store.Change{Status: grapnel.Failed, ReasonCode: code, Reason: reason, At: now, Trigger: grapnel.TriggerSchedule}
	if ep.Policy.Then == policy.Block {
		ch.Status, ch.Blocked = grapnel.Pending, true
	}
	return ch, []News{{Type: grapnel.EventDeliveryFailed, Reason: ch.Reason, Blocked: ch.Blocked}}
}

// leased is the delivery of a lease as it was before.
func leased(ep *grapnel.Endpoint, l grapnel.Lease) store.Head {
	return store.Head{Delivery: l.Delivery, Event: l.Event, Endpoint: ep.ID, Attempts: l.Number - 1, Anchor: l.Anchor,
		Trigger: l.Trigger, CreatedAt: l.CreatedAt}
}
