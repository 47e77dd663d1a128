package core

import (
	"errors"
	"fmt"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// judge takes an attempt's outcome in for its endpoint: breaker, ramp, the way to being disabled. It adds to the change what is to be
// told, and returns why the endpoint is to be disabled, if it is.
func (c *Core) judge(now time.Time, ep *endpoint, h *head, in Finished, step policy.Step, news *[]News) (disable string) {
	s := policy.Sighting{
		Outcome: in.Outcome, Decision: step.Decision, Hold: step.Hold, Cause: whatHappened(in), Started: h.started, Ended: now,
		Probe: h.trigger() == grapnel.TriggerProbe, First: h.Attempts == 0, Took: now.Sub(h.started), Seed: uint64(h.Delivery),
		Counts: h.Trigger != grapnel.TriggerManual && h.Trigger != grapnel.TriggerTest && h.Trigger != grapnel.TriggerReplay && !in.News,
	}
	shift, changed := ep.gate.observe(s, h.shifts)
	if shift == policy.Closed {
		ep.hasten = true
		h.returns = ep.gate.returns // what showed that the endpoint is back did not fail before
	}
	var verdict policy.Verdict
	if ep.config.Status != grapnel.EndpointDisabled { // then it is decided already
		verdict = ep.gate.standing.Strike(ep.config.Policy.Disable, s)
	}
	ep.gate.dirty = ep.gate.dirty || changed || verdict.Changed
	switch {
	case verdict.Recovered:
		*news = append(*news, News{Type: grapnel.EventEndpointRecovered, Reason: "an attempt has succeeded again"})
	case verdict.Warning > 0:
		*news = append(*news, News{Type: grapnel.EventEndpointFailing, Percent: verdict.Warning,
			Reason: fmt.Sprintf("it is %d %% of the way to being disabled; last: %s", verdict.Warning, s.Cause)})
	}
	return verdict.Disable
}

// hurry has made due what waited because of an endpoint that is back: its next times were made for one that was away. How much of it
// depends on how much the endpoint can be trusted.
func (c *Core) hurry(now time.Time, ep *endpoint) {
	if !ep.hasten || ep.hastening || ep.hastenAt.After(now) || !ep.open() || ep.gate.tripped() || c.draining {
		return
	}
	most := min(ep.gate.trust.Hasten(now, ep.quiet(now)), c.bounds.Hasten)
	if most == 0 {
		return
	}
	ep.hasten, ep.hastening, ep.hastened = false, true, most
	back := ep.gate.standing.RecoveredAt
	c.emit(Hasten{Endpoint: ep.config.ID, Hastening: store.Hastening{Before: back, At: back}, Limit: most})
}

// quiet says whether nothing of an endpoint is due or under way.
func (ep *endpoint) quiet(now time.Time) bool {
	w := &ep.window
	if ep.hastening || w.loading || len(w.heads) > len(w.waiting) || !w.cold.IsZero() && !w.cold.After(now) {
		return false
	}
	h := w.next(now)
	return h == nil || h.due.After(now)
}

// hastened has the new times read.
func (c *Core) hastened(now time.Time, in Hastened) {
	ep := c.endpoints[in.Endpoint]
	if ep == nil {
		return
	}
	ep.hastening = false
	c.fenced(ep, errors.Is(in.Err, store.ErrFenced))
	switch {
	case in.Err != nil:
		// It may have happened all the same; then the next one finds nothing to do, and what is in the store is due.
		ep.hasten, ep.hastenAt, ep.replanned = true, now.Add(c.bounds.Retry), true
	case in.Count > 0 || ep.replanned:
		ep.hasten, ep.replanned = ep.hasten || in.Count >= ep.hastened, false
		if ep.open() {
			ep.window.forgetPlans(now)
		}
	}
	c.refresh(now, ep)
}

// settled ends an endpoint's recovery once nothing waits for it any more.
func (c *Core) settled(now time.Time, ep *endpoint) {
	if ep.gate.ramp.Recovering() && ep.open() && !ep.hasten && ep.quiet(now) {
		ep.gate.ramp.End()
	}
}

// belated says whether what happens to a head only now (its outcome becomes known, or durable) belongs to an outage that is over. It
// is counted and not timed: a clock that is set back must not make everything look like that.
func (ep *endpoint) belated(h *head) bool {
	was := h.returns
	h.returns = ep.gate.returns
	return h.returns > was && !ep.gate.tripped()
}

// expire ends what waits because of its endpoint for longer than its policy allows. An attempt would find that out by itself, but there
// is none.
func (c *Core) expire(now time.Time, ep *endpoint) {
	longest := ep.config.Policy.MaxAge.Std()
	w := &ep.window
	if longest == 0 || !ep.open() || !ep.gate.barred(now) || c.draining || w.oldest.IsZero() || !now.After(w.oldest.Add(longest)) {
		return
	}
	w.oldest = time.Time{}
	var over []*head
	for _, h := range w.waiting {
		if !h.urgent() && now.After(h.Anchor.Add(longest)) {
			over = append(over, h)
		} else {
			w.oldest = earliest(w.oldest, h.Anchor)
		}
	}
	for _, h := range over {
		w.unline(h)
		ch, news := spent(ep.config, grapnel.ReasonExpired, reasonExpired(ep, h), now)
		c.record(ep, h, ch, news, Named{})
	}
}
