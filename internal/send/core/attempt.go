package core

import (
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// attempt starts the next attempt of a head that was just removed from waiting. The engine carries
// the effect out (attempts.attempt) and answers with Finished.
func (c *Core) attempt(now time.Time, ep *endpoint, h *head) {
	h.phase = running
	h.started, h.shifts, h.returns = now, ep.gate.shifts, ep.gate.returns
	h.probe = ep.gate.tripped() && !h.urgent()
	h.charged = c.fair.start(ep)
	c.occupy(now, ep, h)
	ep.gate.begin(now, h.probe)
	c.emit(Attempt{Config: ep.config, Head: h.Head, Number: h.Attempts + 1, Trigger: h.trigger(), ScheduledFor: h.due,
		Free: ep.free(h)})
}

// free says whether nothing but this node has held back a head that is attempted now. An endpoint
// that the node has taken over since the delivery was created was refused elsewhere, for all that
// is known.
func (ep *endpoint) free(h *head) bool {
	return h.Attempts == 0 && h.trigger() == grapnel.TriggerSchedule && !h.urgent() && ep.began(h).Equal(h.CreatedAt) &&
		h.CreatedAt.After(ep.refusedAt)
}

// finished applies an attempt's outcome to its delivery and emits the change to record, of which
// the attempt in the outcome becomes a part.
func (c *Core) finished(now time.Time, in *Finished) {
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
	case in.Unsendable == ReasonErased:
		c.record(ep, h, erased(now, store.Change{}), nil, in.Event)
	case in.Unsendable != "":
		why := "failed: " + in.Unsendable
		ch := store.Change{Status: grapnel.Failed, ReasonCode: grapnel.ReasonPermanent, Reason: why, At: now}
		var news []News
		if !h.Trigger.Counts() {
			ch.Status = grapnel.Discarded
		} else if !in.News {
			news = []News{{Type: grapnel.EventDeliveryFailed, Reason: why}}
		}
		c.record(ep, h, ch, news, in.Event)
	case in.Outcome.Class == policy.ClassInternal:
		// A fault of this process is no attempt: nothing is recorded, and the same attempt is
		// repeated soon.
		h.misfires++
		h.due, h.probe = now.Add(misfires.After(h.misfires)), false
		c.release(h)
		c.settle(now, ep, h)
	default:
		c.conclude(now, ep, h, in)
	}
	c.readmit(now, ep, h)
	c.refresh(now, ep)
}

// disown removes a head because the store has given its row id, or its event's, to another row. It
// has the endpoint's heads read again.
func (c *Core) disown(now time.Time, ep *endpoint, h *head) {
	c.release(h)
	ep.window.remove(h)
	ep.window.doubt(now)
	for i := range h.orders {
		c.reply(&h.orders[i], errNoDelivery)
	}
}

// misfires are the pauses before an attempt that could not be made is repeated.
var misfires = backoff.Steps{First: time.Second, Longest: time.Minute}

// conclude applies the policy to an attempt that reached its endpoint or failed to.
func (c *Core) conclude(now time.Time, ep *endpoint, h *head, in *Finished) {
	v := newVerdict(ep.config, &h.Head, in, c.seed(h.Delivery), now)
	var news []News
	sentenced := c.judge(now, ep, h, &v, &news)
	ch, told := v.change()
	ch.Attempt = v.attempt(h.trigger(), h.due)
	if v.again() && ep.belated(h) && ch.EndpointWide {
		ch.Due, ch.Attempt.NextAttemptAt = now, now // the failure belongs to the outage that has ended
	}
	c.record(ep, h, ch, append(news, told...), in.Event)
	if sentenced && ep.config.Status == grapnel.EndpointEnabled {
		c.disable(now, ep)
	}
}

// disable closes a sentenced endpoint in memory at once and asks for the change to be stored. The
// stored change comes back as Configured.
func (c *Core) disable(now time.Time, ep *endpoint) {
	st := &ep.gate.standing
	ep.config, ep.confirmed = closed(ep.config, st.Sentence, now, st.SentencedByAnswer), false
	ep.window.park()
	c.confirm(now, ep)
}

// closed is a copy of the endpoint with status disabled.
func closed(cfg *grapnel.Endpoint, reason string, at time.Time, byAnswer bool) *grapnel.Endpoint {
	is := *cfg
	is.Status, is.DisabledReason, is.DisabledAt, is.DisabledByAnswer = grapnel.EndpointDisabled, reason, at, byAnswer
	return &is
}

// carryOut disables an endpoint that its recorded outcomes have sentenced, if the process stopped
// before the endpoint was disabled. If the endpoint was changed after the sentence, that change
// left it enabled, and the sentence is dropped.
func (c *Core) carryOut(now time.Time, ep *endpoint) {
	st := &ep.gate.standing
	if st.SentencedAt.IsZero() || ep.config.Status != grapnel.EndpointEnabled || !ep.config.DeletedAt.IsZero() {
		return
	}
	if ep.config.UpdatedAt.After(st.SentencedAt) {
		ep.gate.dirty = st.Pardon()
		return
	}
	c.disable(now, ep)
}

// disabled applies the answer to Disable. After a success Configured has come or is about to come.
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

// keep records a standing that an operator's action changed, not an outcome. It is a change without
// a delivery.
func (c *Core) keep(now time.Time, ep *endpoint) {
	if c.draining || ep.leaving {
		return
	}
	if st := ep.standing(); st != nil {
		c.recording++
		ep.recording++
		c.emit(Record{&Change{Endpoint: ep.config.ID, Change: store.Change{Expect: store.AnyAttempts, At: now, Standing: st}}})
	}
}

// recorded continues after changes became durable, and repeats those that may or may not be stored.
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
			// Repeating is safe: a change applies only to a delivery in the state that the change
			// expects.
			c.emit(Record{h.change})
			continue
		}
		c.recording--
		ep.recording--
		if !h.change.Patient { // else its time says little about the store
			c.late.took(now, max(now.Sub(h.recorded), 0), c.options.Slots/2)
		}
		c.durable(now, ep, h, in.Results[i])
		c.release(h)
		c.refresh(now, ep)
	}
}

// kept continues after a standing without a delivery became durable.
func (c *Core) kept(now time.Time, ep *endpoint, in Recorded, i int) {
	if in.Err != nil {
		c.emit(Record{&in.Changes[i]})
		return
	}
	c.recording--
	if ep != nil {
		ep.recording--
		c.fenced(ep, in.Results[i].Fenced)
		c.refresh(now, ep)
	}
}

// durable applies the store's answer to a change: the head leaves the window and its lane's next
// head enters it.
func (c *Core) durable(now time.Time, ep *endpoint, h *head, is store.Changed) {
	ep.window.remove(h)
	c.fenced(ep, is.Fenced)
	if ep.belated(h) && h.change.EndpointWide {
		ep.makeDue = true // this outcome became durable after MakeDue, so MakeDue missed it
	}
	if is.Next != nil && ep.open() {
		c.admit(now, ep, *is.Next)
	}
	if is.Status == "" && !is.Fenced {
		ep.window.doubt(now)
	}
	if h.order != nil {
		c.reply(h.order, c.upshot(h.order, is))
	}
	for i := range h.orders {
		if o := h.orders[i]; is.Status.Final() || is.Status == "" {
			c.reply(&o, c.upshot(&o, is))
		} else {
			c.operate(now, o)
		}
	}
}

// settle makes a head idle again, or leaves it to the store if its endpoint has been closed.
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

// seed is the seed of a delivery's jitter.
func (c *Core) seed(delivery int64) uint64 {
	if c.options.IDs == nil {
		return uint64(delivery)
	}
	return c.options.IDs.Seed(delivery)
}
