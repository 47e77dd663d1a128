package core

import (
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// operate does what a person asks of a delivery that waits. All verbs are durable changes like any other: the delivery
// enters the window as recording, so that nothing can attempt it until the store has answered.
func (c *Core) operate(now time.Time, o Operated) {
	ep := c.endpoints[o.Endpoint]
	if ep == nil {
		c.reply(&o, grapnel.Errorf(grapnel.CodeConflict, "the delivery's endpoint is gone"))
		return
	}
	if ep.leaving {
		c.reply(&o, errElsewhere)
		return
	}
	if !o.Verb.gives() && !ep.open() && !ep.handsOut() {
		c.reply(&o, grapnel.Errorf(grapnel.CodeConflict, "the endpoint is closed (%s), or what waited for it is being ended", ep.config.Status))
		return
	}
	if o.Verb == Probe && !ep.gate.barred(now) {
		c.reply(&o, grapnel.Errorf(grapnel.CodeConflict, "there is nothing to find out: the endpoint is attempted as it is"))
		return
	}
	if c.draining {
		c.reply(&o, grapnel.Errorf(grapnel.CodeUnavailable, "the server is shutting down"))
		return
	}
	c.seen.add(o.Delivery) // a hint that is still on its way is old news from now on
	h := ep.window.heads[o.Delivery]
	switch {
	case h == nil:
		// Waiting behind its key, or far in the future. A place in the window keeps pages and hints from starting it.
		h = &head{Head: store.Head{Delivery: o.Delivery, Event: o.Event, Endpoint: o.Endpoint, CreatedAt: o.Created}}
		ep.window.heads[o.Delivery] = h
	case h.phase == idle:
		ep.window.unline(h)
	case h.phase == running && !o.Verb.gives():
		c.reply(&o, nil) // it is being tried right now
		return
	default:
		h.orders = append(h.orders, o)
		return
	}
	h.order = &o
	ch := store.Change{At: now, Audit: o.Audit}
	switch o.Verb {
	case Skip:
		ch.Status, ch.Reason = grapnel.Skipped, o.Reason
	case Discard:
		ch.Status, ch.Reason = grapnel.Discarded, "discarded: "+o.Reason
	case RetryNow:
		ch.Status, ch.Due, ch.Trigger = grapnel.Pending, now, grapnel.TriggerManual
		ch.Reason = "a person asked for it to be tried now"
	case Probe:
		ch.Status, ch.Due, ch.Trigger = grapnel.Pending, now, grapnel.TriggerProbe
		ch.Reason = "a person asked whether its endpoint is back"
	}
	c.record(ep, h, ch, nil, Named{})
	c.refresh(now, ep)
}

// upshot is how an order ended, given the state of its delivery afterwards.
func upshot(o *Operated, is store.Changed) error {
	switch {
	case is.Fenced:
		return errElsewhere
	case is.Status == "":
		return errNoDelivery
	case o.Verb == Skip && is.Status == grapnel.Skipped, o.Verb == Discard && is.Status == grapnel.Discarded:
		return nil
	case is.Status.Final():
		return grapnel.Errorf(grapnel.CodeConflict, "the delivery is over: it is %s", is.Status)
	case !is.Applied && is.Next != nil && is.Next.Delivery == o.Delivery:
		return grapnel.Errorf(grapnel.CodeConflict, "a consumer has the delivery")
	case is.Next != nil && is.Next.Delivery != o.Delivery:
		return grapnel.Errorf(grapnel.CodeConflict, "the delivery waits behind an earlier one of its key (%s)",
			grapnel.DeliveryID(is.Next.CreatedAt, is.Next.Delivery))
	}
	return nil
}

var errNoDelivery = grapnel.Errorf(grapnel.CodeNotFound, "there is no such delivery")

func (c *Core) reply(o *Operated, err error) { c.emit(Reply{Token: o.Token, Err: err}) }
