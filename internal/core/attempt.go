package core

import (
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// attempt starts the next attempt of a head that was just taken out of line.
func (c *Core) attempt(now time.Time, ep *endpoint, h *head) {
	h.phase = running
	h.started = now
	h.charged = c.fair.start(ep)
	ep.gate.begin(now)
	c.running++
	c.emit(Attempt{Config: ep.config, Head: h.Head, Number: h.Attempts + 1, Trigger: h.Trigger, ScheduledFor: h.due})
}

// finished turns an attempt's outcome into what the delivery becomes, and has that recorded.
func (c *Core) finished(now time.Time, in Finished) {
	ep := c.endpoints[in.Endpoint]
	if ep == nil {
		return
	}
	h := ep.window.heads[in.Delivery]
	if h == nil || h.phase != running {
		return
	}
	ep.gate.end()
	c.running--
	c.fair.finish(ep, h.charged, now.Sub(h.started))
	switch {
	case in.Damaged:
		c.record(ep, h, store.Change{Status: grapnel.Failed, ReasonCode: grapnel.ReasonPermanent, Reason: reasonDamaged, At: now})
	case in.Outcome.Class == policy.ClassInternal:
		// Our own fault is no attempt: nothing is recorded, the same attempt is tried again soon.
		h.misfires++
		h.due = now.Add(misfireDelay(h.misfires))
		c.settle(now, ep, h)
	default:
		c.conclude(now, ep, h, in)
	}
	c.uncrowd(now)
	c.refresh(now, ep)
}

// misfireDelay grows from one second to a minute.
func misfireDelay(n int) time.Duration {
	return min(time.Second<<min(n-1, 6), time.Minute)
}

// conclude applies the policy to an attempt that reached its endpoint or failed to.
func (c *Core) conclude(now time.Time, ep *endpoint, h *head, in Finished) {
	a := in.Attempt
	a.Number, a.Trigger, a.ScheduledFor, a.PolicyRevision = h.Attempts+1, h.Trigger, h.due, ep.config.Revision
	p := progress(h.Head)
	p.Attempts++
	if h.Attempts == 0 {
		p.Anchor = a.StartedAt
	}
	step := ep.config.Policy.After(p, in.Outcome, now)
	ep.gate.observe(step)
	a.Decision = step.Decision
	ch := store.Change{Attempt: &a, At: now, Anchor: p.Anchor, Trigger: grapnel.TriggerSchedule}
	again := (step.Decision == policy.Retry || step.Decision == policy.Throttle) && !step.Exhausted
	switch {
	case step.Decision == policy.Deliver:
		ch.Status, ch.Reason = grapnel.Delivered, reasonDelivered(p.Attempts)
	case again:
		ch.Status, ch.Due = grapnel.Pending, step.Next
		ch.Reason = reasonRetry(p.Attempts, in)
		a.NextAttemptAt = step.Next
	default:
		ch.Status, ch.ReasonCode = grapnel.Failed, failureCode(step)
		ch.Reason = reasonFailed(p, step, in, now)
		if step.Exhausted {
			a.Decision = policy.Fail // retrying would have been right, but there is no further attempt
		}
		switch {
		case step.Exhausted && ep.config.Policy.OnExhausted == policy.Discard:
			// What is discarded blocks nobody, whatever the policy says: there is nothing left to wait for.
			ch.Status, ch.ReasonCode, ch.Reason = grapnel.Discarded, grapnel.ReasonNone, reasonDiscarded(p, in, now)
		case ep.config.Policy.Then == policy.Block:
			ch.Status, ch.Blocked = grapnel.Pending, true
		}
	}
	c.record(ep, h, ch)
	if step.Decision == policy.DisableEndpoint && ep.config.Status == grapnel.EndpointEnabled {
		c.disable(now, ep, reasonDisabled(in))
	}
}

// disable closes an endpoint at once and has that made durable, which comes back as Configured.
func (c *Core) disable(now time.Time, ep *endpoint, reason string) {
	closed := *ep.config
	closed.Status, closed.DisabledReason, closed.DisabledAt = grapnel.EndpointDisabled, reason, now
	ep.config, ep.confirmed = &closed, false
	ep.window.park()
	c.confirm(now, ep)
}

// confirm asks for the core's own disabling to be made durable, again if that has failed.
func (c *Core) confirm(now time.Time, ep *endpoint) {
	if ep.confirmed || ep.confirming || ep.endAt.After(now) || c.draining {
		return
	}
	ep.confirming = true
	c.emit(Disable{Endpoint: ep.config.ID, Reason: ep.config.DisabledReason})
}

// disabled takes in how that went. If it went well, Configured has come or is about to.
func (c *Core) disabled(now time.Time, in Disabled) {
	ep := c.endpoints[in.Endpoint]
	if ep == nil {
		return
	}
	ep.confirming = false
	if in.Err != nil {
		ep.endAt = now.Add(pageRetry)
	} else {
		ep.confirmed = true
	}
	c.refresh(now, ep)
}

func failureCode(s policy.Step) grapnel.ReasonCode {
	switch {
	case s.Expired:
		return grapnel.ReasonExpired
	case s.Exhausted:
		return grapnel.ReasonExhausted
	}
	return grapnel.ReasonPermanent
}

// record has a change made durable. Until it is, the head can't be attempted.
func (c *Core) record(ep *endpoint, h *head, ch store.Change) {
	ch.Delivery = h.Delivery
	if ch.Attempt != nil {
		ch.Expect = h.Attempts
	} else {
		ch.Expect = store.AnyAttempts
	}
	ch.NextDelay = ep.delay
	h.phase = recording
	h.change = &Change{Endpoint: ep.config.ID, Change: ch}
	c.recording++
	c.emit(Record{Change: *h.change})
}

// recorded goes on after changes became durable, or repeats those whose fate is unknown.
func (c *Core) recorded(now time.Time, in Recorded) {
	for i := range in.Changes {
		ch := &in.Changes[i]
		ep := c.endpoints[ch.Endpoint]
		if ep == nil {
			continue
		}
		h := ep.window.heads[ch.Delivery]
		if h == nil || h.phase != recording {
			continue
		}
		if in.Err != nil {
			// Repeating is safe: a change applies only to a delivery that is where the change expects it.
			c.emit(Record{Change: *h.change})
			continue
		}
		c.recording--
		c.durable(now, ep, h, in.Results[i])
		c.refresh(now, ep)
	}
}

// durable takes the answer to a change in: this head leaves the window, the head that its lane has now enters it.
func (c *Core) durable(now time.Time, ep *endpoint, h *head, is store.Changed) {
	ep.window.remove(h)
	if is.Next != nil && ep.open() {
		c.admit(now, ep, *is.Next)
	}
	if h.order != nil {
		c.reply(h.order, verdict(h.order, is))
	}
	for i := range h.orders {
		if o := h.orders[i]; is.Status.Final() || is.Status == "" {
			c.reply(&o, verdict(&o, is))
		} else {
			c.operate(now, o)
		}
	}
}

// settle puts a head back in line, or leaves it to the store if its endpoint has been closed meanwhile.
func (c *Core) settle(now time.Time, ep *endpoint, h *head) {
	orders := h.orders
	h.orders = nil
	if ep.open() {
		ep.window.put(now, h)
	} else {
		ep.window.drop(h)
	}
	for _, o := range orders {
		c.operate(now, o)
	}
}

// progress is a head's progress in the policy's words. Every face that plans attempts uses the same seed.
func progress(h store.Head) policy.Progress {
	return policy.Progress{Attempts: h.Attempts, Anchor: h.Anchor, Seed: uint64(h.Delivery)}
}
