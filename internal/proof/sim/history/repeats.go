package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
)

// repeats checks that a receiver which accepted an event, or asked for an end of its delivery, gets
// it again only if a fault explains it, and that one fault explains one repetition per lane: a lane has one request in flight, so a crash
// can lose one outcome of it.
//
// A receipt is a repetition if the one before it was such an answer, and the sender must have
// received it.
// A receipt after a failed repetition is an ordinary retry.
func (c *checker) repeats(l *lane) {
	type twice struct {
		before, again *Receipt
		d             *delivery
	}
	var all []twice
	for _, d := range l.deliveries {
		for i := 1; i < len(d.receipts); i++ {
			before, again := d.receipts[i-1], d.receipts[i]
			asked := again.Trigger == grapnel.TriggerManual && c.did(d.id, Retry)
			if before.ends() && !c.unheard(before, d.endpoint) && !asked {
				all = append(all, twice{before, again, d})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b twice) int { return cmp.Compare(a.before.End, b.before.End) })
	spent := map[int]bool{}
	for _, t := range all {
		explained := -1
		for i := range c.Faults { // sorted by end: take the one that is least useful for later repetitions
			if !spent[i] && c.explains(&c.Faults[i], t.before) {
				explained = i
				break
			}
		}
		if explained < 0 {
			c.report(Dup, t.d, t.again.Start, "repeated although answered with %d at %v and no fault explains it; %s", t.before.Status, t.before.End,
				c.nextFault(t.before.End))
			continue
		}
		spent[explained] = true
	}
}

// nextFault returns the first fault after a moment. A fault that came a little too late to explain
// a repetition shows that outcomes take longer to become durable than the limits say.
func (c *checker) nextFault(at time.Duration) string {
	next := -1
	for i, f := range c.Faults {
		if f.repeats() && f.End >= at && (next < 0 || f.Start < c.Faults[next].Start) {
			next = i
		}
	}
	if next < 0 {
		return "no fault came after that"
	}
	f := c.Faults[next]
	return fmt.Sprintf("the next fault is a %s from %v to %v", f.Kind, f.Start, f.End)
}

// schedule checks that no attempt came earlier than configured. An attempt that reached no receiver
// leaves a gap in the numbers; then the waits of all attempts in the gap must have passed.
func (c *checker) schedule(d *delivery) {
	delays := d.endpoint.Delays
	if len(delays) == 0 {
		return
	}
	forward := 0 // attempts that a repair may have brought forward
	for i := 1; i < len(d.receipts); i++ {
		before, r := d.receipts[i-1], d.receipts[i]
		if !r.automatic() || before.Attempt < 1 || r.Attempt <= before.Attempt {
			continue // an operator's order, or the same attempt again after a crash
		}
		since, wait := c.quit(before, d.endpoint), time.Duration(0)
		if d.endpoint.SinceFirst {
			since, wait = d.receipts[0].Start, delays[min(r.Attempt-2, len(delays)-1)]
			if d.receipts[0].Attempt != 1 {
				continue
			}
		} else {
			for n := before.Attempt; n < r.Attempt; n++ {
				wait += delays[min(n-1, len(delays)-1)]
			}
		}
		if slices.ContainsFunc(c.actions[d.id], func(a *Action) bool { return a.Kind == Retry && a.Invoke > since && a.Invoke < r.Start }) {
			continue // an attempt that an operator asked for may lie in between without having reached a receiver
		}
		if c.madeDue(d.endpoint, before, r) {
			continue
		}
		jumped := slices.ContainsFunc(c.Faults, func(f Fault) bool { return f.Kind == ClockJump && f.overlaps(since-c.Limits.Transit, r.Start) })
		early := r.Start-since+c.Limits.Transit < wait && !jumped
		if early && c.repaired(d.endpoint, before, r) {
			if forward++; forward <= 1+c.restarts(d.endpoint, r.Start) {
				continue
			}
		}
		if early {
			c.report(Schedule, d, r.Start, "attempt %d after %v, not before %v was configured", r.Attempt, r.Start-since, wait)
		}
	}
}

// repaired says whether an attempt may come early because its endpoint has taken an event since the
// attempt before. A process brings each delivery forward once at most.
func (c *checker) repaired(ep *Endpoint, before, r *Receipt) bool {
	took := c.took[ep]
	at, _ := slices.BinarySearchFunc(took, before.Start-c.Limits.Transit, func(end, from time.Duration) int { return cmp.Compare(end, from) })
	return at < len(took) && took[at] <= r.Start
}

// restarts is the number of processes that have begun to decide about an endpoint up to a time.
func (c *checker) restarts(ep *Endpoint, until time.Duration) (n int) {
	for _, f := range c.Faults {
		if f.Kind != CommitUnknown && f.Kind != ClockJump && f.Start <= until {
			n++
		}
	}
	for _, t := range c.Terms {
		if t.Endpoint == ep.ID && t.Start <= until {
			n++
		}
	}
	return n
}

// madeDue says whether an attempt may come early because its endpoint has recovered: the attempt
// before failed because of the endpoint, or reached no receiver, and since then the endpoint has
// answered some request without such a failure, or an operator has enabled it.
func (c *checker) madeDue(ep *Endpoint, before, r *Receipt) bool {
	refused := before.Status > 0 && before.Status < 500 && before.Status != 429 && !c.unheard(before, ep)
	if refused && r.Attempt == before.Attempt+1 && !c.excused(before) { // else the attempt was repeated, and may have reached no receiver
		return false
	}
	if slices.ContainsFunc(c.stopping[ep.ID], func(a *Action) bool {
		return a.Kind == Enable && a.Invoke > before.Start && a.Invoke < r.Start
	}) {
		return true
	}
	lived := c.lived[ep] // empty without a breaker
	// The attempt before may have been on its way when the endpoint answered: then it belongs to
	// the outage.
	at, _ := slices.BinarySearchFunc(lived, before.Start-c.Limits.Transit, func(end, from time.Duration) int { return cmp.Compare(end, from) })
	return at < len(lived) && lived[at] <= r.Start
}
