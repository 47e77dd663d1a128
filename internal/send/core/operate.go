package core

import (
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// operate carries out an operator's order for a pending delivery. Every verb is a durable change:
// the delivery enters the window as recording, so nothing can attempt it until the store has
// answered.
func (c *Core) operate(now time.Time, o Operated) {
	ep := c.endpoints[o.Endpoint]
	if ep == nil {
		c.reply(&o, grapnel.Errorf(grapnel.CodeConflict, "the delivery's endpoint was deleted"))
		return
	}
	if ep.leaving {
		c.reply(&o, errElsewhere)
		return
	}
	if !o.Verb.Ends() && !ep.open() && !ep.handsOut() {
		c.reply(&o, grapnel.Errorf(grapnel.CodeConflict, "the endpoint is closed (%s), or its pending deliveries are being ended",
			ep.config.Status))
		return
	}
	if o.Verb == store.Probe && !ep.gate.barred(now) {
		c.reply(&o, grapnel.Errorf(grapnel.CodeConflict, "no probe is needed: the endpoint is attempted as usual"))
		return
	}
	if c.draining {
		c.reply(&o, grapnel.Errorf(grapnel.CodeUnavailable, "the server is shutting down"))
		return
	}
	c.seen.add(o.Delivery) // a hint that is still on its way is outdated from now on
	h := ep.window.heads[o.Delivery]
	switch {
	case h == nil:
		// It is pending behind its key, or due far in the future. An entry in the window keeps
		// pages and hints from starting it.
		ep.window.reserve.remove(o.Delivery)
		h = &head{Head: store.Head{Delivery: o.Delivery, Event: o.Event, Endpoint: o.Endpoint, CreatedAt: o.Created}}
		ep.window.heads[o.Delivery] = h
	case h.phase == idle:
		ep.window.unline(h)
	case h.phase == running && !o.Verb.Ends():
		c.reply(&o, nil) // the attempt is in flight
		return
	default:
		h.orders = append(h.orders, o)
		return
	}
	h.order = &o
	ch := store.Change{At: now, Audit: o.Audit, Answer: o.Answer}
	if !o.Verb.Ends() {
		ch.Expect = store.OfHead
	}
	switch o.Verb {
	case store.Skip:
		ch.Status, ch.Reason = grapnel.Skipped, o.Reason
	case store.Discard:
		ch.Status, ch.Reason = grapnel.Discarded, "discarded: "+o.Reason
	case store.Erase:
		ch = erased(now, ch)
	case store.RetryNow:
		ch.Status, ch.Due, ch.Trigger = grapnel.Pending, now, grapnel.TriggerManual
		ch.Reason = "an operator asked for an attempt now"
	case store.Probe:
		ch.Status, ch.Due, ch.Trigger = grapnel.Pending, now, grapnel.TriggerProbe
		ch.Reason = "an operator asked for a probe of its endpoint"
	}
	c.record(ep, h, ch, nil, Named{})
	c.refresh(now, ep)
}

// erased makes a change end a delivery whose event is erased, or is going to be.
func erased(now time.Time, ch store.Change) store.Change {
	ch.Status, ch.ReasonCode, ch.Reason, ch.At = grapnel.Discarded, grapnel.ReasonErased, ReasonErased, now
	return ch
}

// upshot is the result of an order, given the state of its delivery afterwards.
func (c *Core) upshot(o *Operated, is store.Changed) error {
	switch {
	case is.Fenced:
		return errElsewhere
	case is.Status == "":
		return errNoDelivery
	case o.Verb == store.Skip && is.Status == grapnel.Skipped, (o.Verb == store.Discard || o.Verb == store.Erase) && is.Status == grapnel.Discarded:
		return nil
	case is.Status.Final():
		return grapnel.Errorf(grapnel.CodeConflict, "the delivery is already %s", is.Status)
	case !is.Applied && is.Next != nil && is.Next.Delivery == o.Delivery:
		return grapnel.Errorf(grapnel.CodeConflict, "a consumer holds a lease on the delivery")
	case is.Next != nil && is.Next.Delivery != o.Delivery:
		return grapnel.Errorf(grapnel.CodeConflict, "the delivery is held behind an earlier one of its key (%s)",
			c.nameOf(is.Next))
	}
	return nil
}

var errNoDelivery = grapnel.Errorf(grapnel.CodeNotFound, "delivery not found")

func (c *Core) reply(o *Operated, err error) { c.emit(Reply{Token: o.Token, Err: err}) }

// nameOf is the id of a head's delivery.
func (c *Core) nameOf(h *store.Head) string {
	if c.options.IDs == nil {
		return grapnel.PlainDeliveryID(h.CreatedAt, h.Delivery)
	}
	return c.options.IDs.Delivery(h.CreatedAt, h.Delivery)
}
