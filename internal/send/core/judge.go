package core

import (
	"fmt"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// judge applies an attempt's outcome to its endpoint: circuit, ramp, progress towards being
// disabled. It appends the operational events, and says whether the endpoint's standing has a new
// sentence. A failed test says nothing about its endpoint; one that succeeds closes the circuit
// like any other attempt.
func (c *Core) judge(now time.Time, ep *endpoint, h *head, v *verdict, news *[]News) (sentenced bool) {
	in, step := v.in, &v.step
	if v.test && step.Decision != policy.Deliver {
		return false
	}
	took := min(max(now.Sub(h.started), 0), maxCharge) // the clock may have jumped meanwhile
	s := policy.Sighting{
		Outcome: in.Outcome, Decision: step.Decision, Disables: step.Disables && !v.test, Hold: step.Hold, Cause: whatHappened(*in), Started: h.started, Ended: now,
		Probe: h.trigger() == grapnel.TriggerProbe, First: h.Attempts == 0, Took: took, Seed: v.progress.Seed,
		Counts: h.Trigger.Counts() && h.Trigger != grapnel.TriggerManual && h.Trigger != grapnel.TriggerReplay && !in.News,
	}
	refusals := ep.gate.refusals
	shift, changed := ep.gate.observe(s, h.shifts)
	delivered := s.Decision == policy.Deliver
	ep.repair.concluded(h, delivered, ep.gate.limit)
	if delivered && ep.repaired(h, refusals) {
		ep.repair.begin()
	}
	if shift == policy.Closed {
		ep.makeDue = true
		h.returns = ep.gate.returns // this success did not fail before the recovery
	}
	var verdict policy.Verdict
	if ep.config.Status != grapnel.EndpointDisabled { // a disabled endpoint is judged already
		verdict = ep.gate.standing.Strike(ep.config.Policy.Disable, s)
	}
	ep.gate.dirty = ep.gate.dirty || changed || verdict.Changed
	switch {
	case verdict.Recovered:
		*news = append(*news, News{Type: grapnel.EventEndpointRecovered, Reason: "an attempt has succeeded again"})
	case verdict.Warning > 0:
		*news = append(*news, News{Type: grapnel.EventEndpointFailing, Percent: verdict.Warning,
			Reason: fmt.Sprintf("%d %% of the way to being disabled; last: %s", verdict.Warning, s.Cause)})
	}
	return verdict.Disable != ""
}

// hurry has deliveries made due that the endpoint's outage delayed: their next times were set for
// an endpoint that did not answer. The number grows with the endpoint's recent successes
// (policy.Trust).
func (c *Core) hurry(now time.Time, ep *endpoint) {
	if !ep.makeDue || ep.makingDue || ep.makeDueAt.After(now) || !ep.open() || ep.gate.tripped() || c.draining {
		return
	}
	most := min(ep.gate.trust.MakeDue(now, ep.quiet(now)), c.bounds.MakeDue)
	if most == 0 {
		return
	}
	ep.makeDue, ep.makingDue, ep.madeDue = false, true, most
	back := ep.gate.standing.RecoveredAt
	c.emit(MakeDue{Endpoint: ep.config.ID, MakingDue: store.MakingDue{Before: back, At: back}, Limit: most})
}

// quiet says whether nothing of an endpoint is due or in flight.
func (ep *endpoint) quiet(now time.Time) bool {
	w := &ep.window
	if ep.makingDue || w.loading || len(w.heads) > len(w.waiting) || !w.cold.IsZero() && !w.cold.After(now) {
		return false
	}
	h := w.next(now)
	return h == nil || h.due.After(now)
}

// settled ends an endpoint's recovery once it has no due delivery left.
func (c *Core) settled(now time.Time, ep *endpoint) {
	if ep.gate.ramp.Recovering() && ep.open() && !ep.makeDue && ep.quiet(now) {
		ep.gate.ramp.End()
		ep.gate.standing.WorksAt, ep.gate.dirty = now, true
	}
}

// belated says whether a head's outcome, known or durable only now, belongs to an outage that has
// ended. It compares counts of recoveries and not times, because after a clock set back every
// outcome would look belated.
func (ep *endpoint) belated(h *head) bool {
	was := h.returns
	h.returns = ep.gate.returns
	return h.returns > was && !ep.gate.tripped()
}

// expire ends deliveries that their endpoint has held for longer than the policy's max_age. An
// attempt would notice by itself, but a held delivery has none.
func (c *Core) expire(now time.Time, ep *endpoint) {
	longest := ep.config.Policy.MaxAge.Std()
	w := &ep.window
	if longest == 0 || !ep.open() || !ep.gate.barred(now) || c.draining || w.oldest.IsZero() || !now.After(w.oldest.Add(longest)) {
		return
	}
	w.oldest = time.Time{}
	var over []*head
	for _, h := range w.waiting {
		if began := ep.began(h); !h.urgent() && now.After(began.Add(longest)) {
			over = append(over, h)
		} else {
			w.oldest = earliest(w.oldest, began)
		}
	}
	for _, h := range over {
		w.unline(h)
		ch, news := spent(ep.config, grapnel.ReasonExpired, reasonExpired(ep, h), now)
		c.record(ep, h, ch, news, Named{})
	}
}
