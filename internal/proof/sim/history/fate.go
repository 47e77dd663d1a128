package history

import (
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
)

// accepted checks that an event that exists has exactly one delivery for each endpoint that wanted
// it.
func (c *checker) accepted(e *event) {
	if !e.ok && !(e.possible && e.seen) || c.forgotten(e) {
		return
	}
	for _, name := range e.surely {
		if len(c.originals[pair{e.id, name}]) == 0 {
			c.found = append(c.found, Violation{Rule: Lost, Event: e.id, Endpoint: name, At: e.returned,
				Detail: "the event was accepted but has no delivery"})
		}
	}
	for _, name := range e.perhaps {
		if all := c.originals[pair{e.id, name}]; len(all) > 1 {
			c.report(Conserve, all[1], e.invoke, "the event has %d original deliveries for one endpoint", len(all))
		}
	}
}

// received compares a delivery's receipts with the published event.
func (c *checker) received(d *delivery) {
	first := time.Duration(0)
	all := d.all()
	if len(all) > 0 {
		first = all[0].Start
	}
	e := d.event
	switch {
	case e == nil:
		c.report(Phantom, d, first, "no publisher published this event")
		return
	case !e.possible:
		c.report(Phantom, d, first, "publishing this event was refused")
		return
	case !slices.Contains(e.perhaps, d.endpoint.ID):
		c.report(Phantom, d, first, "the event was not for this endpoint")
	case d.final == nil && len(d.receipts) > 0:
		c.report(Lost, d, d.receipts[0].Start, "the delivery was sent but is not there at the end")
	}
	body := ""
	for _, r := range all {
		if r.Start < e.invoke {
			c.report(Phantom, d, r.Start, "received before it was published (%v)", e.invoke)
		}
		if early := r.Start+c.Limits.Transit < e.later; early && r.lined() && !c.did(d.id, Retry) && d.final != nil && d.final.ReplayOf == "" &&
			!slices.ContainsFunc(c.Faults, func(f Fault) bool { return f.Kind == ClockJump }) {
			c.report(Schedule, d, r.Start, "received before %v, the time that its publisher asked for", e.later)
		}
		if r.Event != d.eventID || r.Endpoint != d.endpoint.ID {
			c.report(Corrupt, d, r.Start, "the delivery's id came with event %s at endpoint %s", r.Event, r.Endpoint)
		}
		if r.Hash != e.hash {
			c.report(Corrupt, d, r.Start, "the data differ from what was published")
		}
		if body != "" && r.Body != "" && r.Body != body {
			c.report(Corrupt, d, r.Start, "the body differs from the previous attempt's")
		}
		if r.Body != "" {
			body = r.Body
		}
		if r.BadSignature {
			c.report(Signature, d, r.Start, "the signature does not verify")
		}
	}
}

// ended checks that the final status of a delivery has its cause.
func (c *checker) ended(d *delivery) {
	f := d.final
	if f == nil {
		return
	}
	at := f.Finished
	if n := len(d.receipts); n > 0 {
		at = d.receipts[n-1].End
	}
	switch f.Status {
	case grapnel.Delivered:
		if !slices.ContainsFunc(d.all(), (*Receipt).success) {
			c.report(FalseSuccess, d, at, "delivered, but no receiver answered 2xx")
		}
		return
	case grapnel.Failed, grapnel.Discarded:
		c.dead(d, at)
	case grapnel.Dropped:
		if !c.stopped(d.endpoint.ID) {
			c.report(Lost, d, at, "dropped, but no operator deleted or disabled the endpoint")
		}
	case grapnel.Skipped:
		if !c.did(d.id, Skip) {
			c.report(Lost, d, at, "skipped without an operator")
		}
	case grapnel.Pending, grapnel.Held:
		if !c.mayWait(d) {
			c.report(Stuck, d, at, "still %s after %d attempts", f.Status, f.Attempts)
		}
	default:
		c.report(Stuck, d, at, "status %q is none", f.Status)
	}
	if n := len(d.receipts); n > 0 && f.Status != grapnel.Skipped && f.Status != grapnel.Dropped {
		last := d.receipts[n-1]
		if last.success() && !c.unheard(last, d.endpoint) && !c.excused(last) {
			c.report(EarlyDead, d, at, "the receiver took it, but the delivery is %s", f.Status)
		}
	}
}

// dead checks that the policy allowed the failure.
func (c *checker) dead(d *delivery, at time.Duration) {
	f, ep := d.final, d.endpoint
	reason := f.ReasonCode
	if f.Status == grapnel.Discarded {
		if !ep.Discards {
			c.report(Lost, d, at, "discarded although exhausted deliveries are kept")
		}
		if reason == grapnel.ReasonNone {
			reason = grapnel.ReasonExhausted
			if ep.MaxAge > 0 {
				reason = grapnel.ReasonExpired
			}
		}
	}
	switch reason {
	case grapnel.ReasonExhausted:
		if f.Attempts < ep.MaxAttempts || ep.MaxAttempts == 0 {
			c.report(EarlyDead, d, at, "exhausted after %d of %d attempts", f.Attempts, ep.MaxAttempts)
		}
	case grapnel.ReasonExpired:
		jumped := slices.ContainsFunc(c.Faults, func(f Fault) bool { return f.Kind == ClockJump })
		switch {
		case ep.MaxAge == 0:
			c.report(EarlyDead, d, at, "expired without a greatest age")
		case f.Attempts == 0 && f.Finished > 0 && d.event != nil && f.Finished+c.Limits.Transit < d.event.invoke+ep.MaxAge && !jumped:
			c.report(EarlyDead, d, at, "expired without an attempt before it was %v old", ep.MaxAge)
		}
	case grapnel.ReasonPermanent:
		says := func(r *Receipt) bool {
			return slices.Contains(ep.Permanent, r.Status) || r.Wish == policy.WishDisable && !r.success()
		}
		if !slices.ContainsFunc(d.all(), says) && !c.broughtBack(d.event) {
			c.report(EarlyDead, d, at, "failed as permanent without an answer that says so")
		}
	case grapnel.ReasonRejected:
		if !slices.ContainsFunc(d.all(), func(r *Receipt) bool { return r.Wish == policy.WishStop && !r.success() }) {
			c.report(EarlyDead, d, at, "rejected without an answer that asks to stop")
		}
	case grapnel.ReasonEndpointGone:
		if !c.stopped(ep.ID) {
			c.report(EarlyDead, d, at, "the reason is a deleted endpoint, but no operator deleted it")
		}
	default:
		c.report(EarlyDead, d, at, "failed for the reason %q", reason)
	}
}

// attempts checks that every request was recorded, and that no more attempts were recorded than are
// allowed.
func (c *checker) attempts(d *delivery) {
	f := d.final
	if f == nil {
		return
	}
	most := d.endpoint.MaxAttempts
	for _, fault := range c.Faults {
		// An exhausted head holds its lane. If the store goes back to a time before it was the head, the
		// lane forgets that, and the delivery is attempted when it becomes the head again.
		if most > 0 && d.endpoint.Blocks && fault.Kind == Rewind && fault.End <= f.Finished {
			most++
		}
	}
	if most > 0 && f.Attempts > most && !c.did(d.id, Retry) {
		c.report(Conserve, d, f.Finished, "%d attempts recorded, %d allowed", f.Attempts, most)
	}
	n := 0
	for _, r := range d.receipts {
		if r.Events < 2 || r.success() && !c.unheard(r, d.endpoint) { // else it was sent again alone, in the same attempt
			n++
		}
	}
	if n <= f.Attempts {
		return
	}
	forgotten := 0
	for i := range c.Faults {
		if slices.ContainsFunc(d.receipts, func(r *Receipt) bool { return c.explains(&c.Faults[i], r) }) {
			forgotten++
		}
	}
	if n > f.Attempts+forgotten {
		c.report(Conserve, d, d.receipts[len(d.receipts)-1].Start, "%d requests received, %d attempts recorded, %d faults to explain the rest",
			n, f.Attempts, forgotten)
	}
}

// mayWait says whether a delivery may still be pending at the end: its endpoint is stopped, or the
// head of its lane is exhausted under a policy that blocks.
func (c *checker) mayWait(d *delivery) bool {
	ep := d.endpoint
	if c.heldAtEnd(ep.ID) {
		return true
	}
	if !ep.Blocks || d.event == nil || d.event.key == "" {
		return false
	}
	if ep.MaxAttempts > 0 && d.final.Attempts >= ep.MaxAttempts {
		return true
	}
	return slices.ContainsFunc(c.deliveries, func(o *delivery) bool {
		return o.endpoint == ep && o.event != nil && o.event.key == d.event.key && o.position < d.position && o.final != nil &&
			!o.final.Status.Final() && ep.MaxAttempts > 0 && o.final.Attempts >= ep.MaxAttempts
	})
}

// did says whether an operator may have done this to a delivery.
func (c *checker) did(delivery string, kind Kind) bool {
	return slices.ContainsFunc(c.actions[delivery], func(a *Action) bool { return a.Kind == kind })
}
