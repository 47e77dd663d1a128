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
	h.started, h.shifts, h.returns = now, ep.gate.shifts, ep.gate.returns
	h.probe = ep.gate.tripped() && !h.urgent()
	h.charged = c.fair.start(ep)
	c.occupy(now, ep, h)
	ep.gate.begin(now, h.probe)
	c.emit(Attempt{Config: ep.config, Head: h.Head, Number: h.Attempts + 1, Trigger: h.trigger(), ScheduledFor: h.due})
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
	ep.gate.end(h.probe)
	c.vacate(now, ep, h)
	c.fair.finish(ep, h.charged, now.Sub(h.started))
	switch {
	case in.Foreign:
		c.disown(now, ep, h)
	case in.Damaged:
		ch := store.Change{Status: grapnel.Failed, ReasonCode: grapnel.ReasonPermanent, Reason: reasonDamaged, At: now}
		c.record(ep, h, ch, []News{{Type: grapnel.EventDeliveryFailed, Reason: reasonDamaged}}, in.Event)
	case in.Outcome.Class == policy.ClassInternal:
		// Our own fault is no attempt: nothing is recorded, the same attempt is tried again soon.
		h.misfires++
		h.due, h.probe = now.Add(misfireDelay(h.misfires)), false
		c.release(now, h)
		c.settle(now, ep, h)
	default:
		c.conclude(now, ep, h, in)
	}
	c.readmit(now, ep, h)
	c.refresh(now, ep)
}

// disown drops a head whose row id, or whose event's, the store has given to another one, and has the
// heads of its endpoint read anew.
func (c *Core) disown(now time.Time, ep *endpoint, h *head) {
	c.release(now, h)
	ep.window.remove(h)
	ep.window.doubt(now)
	for i := range h.orders {
		c.reply(&h.orders[i], errNoDelivery)
	}
}

// misfireDelay grows from one second to a minute.
func misfireDelay(n int) time.Duration {
	return min(time.Second<<min(n-1, 6), time.Minute)
}

// conclude applies the policy to an attempt that reached its endpoint or failed to.
func (c *Core) conclude(now time.Time, ep *endpoint, h *head, in Finished) {
	v := newVerdict(ep.config, h.Head, in, h.trigger(), h.due, now)
	var news []News
	disable := c.judge(now, ep, h, in, v.step, &news)
	ch, told := v.change()
	if v.again() && ep.belated(h) && ch.EndpointWide {
		ch.Due, ch.Attempt.NextAttemptAt = now, now // the outage that it met is over
	}
	c.record(ep, h, ch, append(news, told...), in.Event)
	if disable != "" && ep.config.Status == grapnel.EndpointEnabled {
		c.disable(now, ep, disable)
	}
}

// disable closes an endpoint at once and has that made durable, which comes back as Configured.
func (c *Core) disable(now time.Time, ep *endpoint, reason string) {
	ep.config, ep.confirmed = closed(ep.config, reason, now), false
	ep.window.park()
	c.confirm(now, ep)
}

// closed is an endpoint as it is once it has been disabled.
func closed(cfg *grapnel.Endpoint, reason string, at time.Time) *grapnel.Endpoint {
	is := *cfg
	is.Status, is.DisabledReason, is.DisabledAt = grapnel.EndpointDisabled, reason, at
	return &is
}

// carryOut disables an endpoint that the outcomes on record have sentenced, if the process died before that was done. Whoever has
// changed the endpoint since has seen it enabled and left it so.
func (c *Core) carryOut(now time.Time, ep *endpoint) {
	st := &ep.gate.standing
	if st.SentencedAt.IsZero() || ep.config.Status != grapnel.EndpointEnabled || !ep.config.DeletedAt.IsZero() {
		return
	}
	if ep.config.UpdatedAt.After(st.SentencedAt) {
		ep.gate.dirty = st.Pardon()
		return
	}
	c.disable(now, ep, st.Sentence)
}

// confirm asks for the core's own disabling to be made durable, again if that has failed.
func (c *Core) confirm(now time.Time, ep *endpoint) {
	if ep.confirmed || ep.confirming || ep.leaving || ep.endAt.After(now) || c.draining || ep.recording > 0 {
		return // what led here, and what it tells, comes first
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
		ep.endAt = now.Add(c.bounds.Retry)
	} else {
		ep.confirmed = true
	}
	c.refresh(now, ep)
}

// release gives a late attempt's place to the next.
func (c *Core) release(now time.Time, h *head) {
	if !h.late {
		return
	}
	h.late = false
	c.late.places.used--
	c.look(now, &c.late.places, c.late.room())
}

// record has a change made durable, with the endpoint's standing if that has changed. Until it is, the head can't be attempted.
// event names the delivery's event if it is known.
func (c *Core) record(ep *endpoint, h *head, ch store.Change, news []News, event Named) {
	ch.Delivery, ch.Identity = h.Delivery, h.Identity()
	ch.Standing = ep.standing()
	if ch.Attempt != nil {
		ch.Expect = h.Attempts
	} else {
		ch.Expect = store.AnyAttempts
	}
	ch.NextDelay = ep.delay
	h.phase = recording
	ep.recording++
	h.recorded = ch.At
	h.change = &Change{Endpoint: ep.config.ID, Change: ch, News: news,
		Subject: Subject{Event: h.Event, CreatedAt: h.CreatedAt, Attempts: h.Attempts, Named: event}}
	c.recording++
	c.emit(Record{Change: *h.change})
}

// standing is the endpoint's standing if it has to be recorded, and counts it as recorded.
func (ep *endpoint) standing() *store.Standing {
	if !ep.gate.dirty {
		return nil
	}
	ep.gate.dirty = false
	ep.gate.number++
	return &store.Standing{Endpoint: ep.config.ID, Number: ep.gate.number, Standing: ep.gate.standing}
}

// keep has a standing recorded that no outcome led to but a person. It goes as a change of no delivery.
func (c *Core) keep(now time.Time, ep *endpoint) {
	if c.draining || ep.leaving {
		return
	}
	if st := ep.standing(); st != nil {
		c.recording++
		ep.recording++
		c.emit(Record{Change: Change{Endpoint: ep.config.ID, Change: store.Change{Expect: store.AnyAttempts, At: now, Standing: st}}})
	}
}

// recorded goes on after changes became durable, or repeats those whose fate is unknown.
func (c *Core) recorded(now time.Time, in Recorded) {
	for i := range in.Changes {
		ch := &in.Changes[i]
		ep := c.endpoints[ch.Endpoint]
		if ch.Delivery == 0 {
			c.kept(now, ep, in, i)
			continue
		}
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
		ep.recording--
		c.late.took(now, max(now.Sub(h.recorded), 0), c.options.Slots/2)
		c.durable(now, ep, h, in.Results[i])
		c.release(now, h)
		c.refresh(now, ep)
	}
}

// kept goes on after the standing of an endpoint alone became durable.
func (c *Core) kept(now time.Time, ep *endpoint, in Recorded, i int) {
	if in.Err != nil {
		c.emit(Record{Change: in.Changes[i]})
		return
	}
	c.recording--
	if ep != nil {
		ep.recording--
		c.fenced(ep, in.Results[i].Fenced)
		c.refresh(now, ep)
	}
}

// durable takes the answer to a change in: this head leaves the window, the head that its lane has now enters it.
func (c *Core) durable(now time.Time, ep *endpoint, h *head, is store.Changed) {
	ep.window.remove(h)
	c.fenced(ep, is.Fenced)
	if ep.belated(h) && h.change.EndpointWide {
		ep.hasten = true // it was on its way to the store while what is there was made due
	}
	if is.Next != nil && ep.open() {
		c.admit(now, ep, *is.Next)
	}
	if is.Status == "" && !is.Fenced {
		ep.window.doubt(now)
	}
	if h.order != nil {
		c.reply(h.order, upshot(h.order, is))
	}
	for i := range h.orders {
		if o := h.orders[i]; is.Status.Final() || is.Status == "" {
			c.reply(&o, upshot(&o, is))
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
