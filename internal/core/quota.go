package core

import (
	"slices"
	"time"
)

// quota is a number of slots that some of the attempts have to share. An endpoint that is refused waits in its line, and gets another look
// when a place becomes free.
type quota struct {
	used    int
	refused []*endpoint
	slow    *quota // a host's: of them, those of endpoints whose attempts take long
}

// quotas keep what hangs, what comes back and what is popular from taking the slots of all others. Each is a share of all slots.
//
// An endpoint that has nothing in flight is only bound by the limit of its host and by the half that is kept for what is new, and
// the last eighth of the slots is for such endpoints (Core.dispatch). So whatever the others do, it gets on. Of a host's places one endpoint gets at most a half, and so do all that are slow.
type quotas struct {
	again   quota             // attempts that are not the first, and what a replay has made: at most a half
	slow    quota             // of endpoints whose attempts take long: a quarter, when slots are scarce
	greedy  quota             // of an endpoint that holds a quarter already, or of which nobody knows how long it takes: none, when slots are scarce
	perHost map[string]*quota // of one destination, whoever's endpoint it is
}

func (ep *endpoint) slow(now time.Time) bool {
	return ep.share.average > ep.bounds.Slow || ep.gate.running > 0 && now.Sub(ep.heard) > ep.bounds.Slow
}

func (q *quotas) host(name string) *quota {
	h := q.perHost[name]
	if h == nil {
		h = &quota{slow: &quota{}}
		q.perHost[name] = h
	}
	return h
}

// part is at least one of the slots, else one of so many.
func (c *Core) part(of int) int { return max(1, c.options.Slots/of) }

// halfOfHost is how many places of a host one endpoint may have, and all that are slow together.
func (c *Core) halfOfHost() int { return max(1, c.options.PerHost/2) }

// scarce says whether fewer than half of the slots are free.
func (c *Core) scarce() bool { return c.options.Slots-c.running <= c.options.Slots/2 }

// pick is the head of an endpoint whose attempt could start now if a slot is free; nil: none.
func (c *Core) pick(now time.Time, ep *endpoint) *head {
	h := ep.window.next(now)
	if h == nil || h.due.After(now) || c.draining || !ep.gate.admits(now, h.urgent()) {
		return nil
	}
	q := &c.quotas
	var full *quota
	host := q.host(ep.gate.host)
	switch {
	case ep.gate.running >= c.halfOfHost():
		ep.waited = true // until one of its own comes back, so it stands in no line
		return nil
	case host.used >= c.options.PerHost:
		full = host
	case host.slow.used >= c.halfOfHost() && ep.slow(now):
		full = host.slow
	case h.urgent():
		return h
	case h.again() && q.again.used >= c.part(2):
		if h = ep.window.fresh(now); h == nil {
			full = &q.again
		}
	}
	switch {
	case full != nil || ep.gate.running == 0 || !c.scarce():
	case ep.gate.running >= c.part(4), ep.share.average == 0:
		full = &q.greedy
	case ep.slow(now) && q.slow.used >= c.part(4):
		full = &q.slow
	}
	if full == nil && h != nil && ep.isLate(now, h) && c.late.full(now) {
		full = &c.late.places
	}
	if full == nil {
		return h
	}
	ep.waited = true
	if ep.refusedBy != full {
		ep.refusedBy = full // the line that it stood in before, if any, will find it gone
		if full.refused = append(full.refused, ep); len(full.refused) > 2*len(c.endpoints) {
			full.refused = slices.DeleteFunc(full.refused, func(ep *endpoint) bool { return ep.refusedBy != full })
		}
	}
	return nil
}

// occupy counts an attempt that starts.
func (c *Core) occupy(now time.Time, ep *endpoint, h *head) {
	c.running++
	if ep.gate.running == 0 {
		ep.heard = now
	}
	switch {
	case ep.isLate(now, h):
		c.late.take(now, h)
		ep.late = now
	case h.urgent(), ep.behind(now), now.Sub(h.due) > c.bounds.Late.After:
		// Neither late nor on time: of what is overdue there may be much, too, where nobody knows yet how long it takes.
	default:
		c.late.meet(now, h)
	}
	h.slow, h.host = ep.slow(now), ep.gate.host
	c.quotas.host(h.host).used++
	if h.again() {
		c.quotas.again.used++
	}
	if h.slow {
		c.quotas.slow.used++
		c.quotas.host(h.host).slow.used++
	}
}

// vacate counts an attempt that is over.
func (c *Core) vacate(now time.Time, ep *endpoint, h *head) {
	q := &c.quotas
	c.running--
	c.met(h)
	ep.heard = now
	host := q.host(h.host)
	host.used--
	if h.again() {
		q.again.used--
	}
	if h.slow {
		q.slow.used--
		host.slow.used--
	}
}

// readmit gives endpoints that were refused another look, as far as the attempt that is over has made room for them.
func (c *Core) readmit(now time.Time, h *head) {
	q := &c.quotas
	host := q.host(h.host)
	c.look(now, host, c.options.PerHost)
	if h.slow {
		c.look(now, host.slow, c.halfOfHost())
		c.look(now, &q.slow, c.part(4))
	}
	if host.used == 0 && len(host.refused)+len(host.slow.refused) == 0 {
		delete(q.perHost, h.host)
	}
	if h.again() {
		c.look(now, &q.again, c.part(2))
	}
	if !c.scarce() {
		for len(q.greedy.refused)+len(q.slow.refused) > 0 {
			c.look(now, &q.greedy, c.options.Slots)
			c.look(now, &q.slow, c.options.Slots)
		}
	}
}

// look takes endpoints out of a quota's line until as many of them can be attempted that could not be before as there are places, or one is
// refused again. Whoever has the other places wakes the next; when nobody has any, all get a look.
func (c *Core) look(now time.Time, q *quota, places int) {
	for woken := 0; len(q.refused) > 0 && (q.used == 0 || woken < places-q.used); {
		ep := q.refused[0]
		q.refused = q.refused[1:]
		if ep.refusedBy != q || c.endpoints[ep.config.ID] != ep {
			continue
		}
		ep.refusedBy = nil
		ready, left := ep.share.pos != 0, len(q.refused)
		c.refresh(now, ep)
		if len(q.refused) > left {
			return
		}
		if !ready && ep.share.pos != 0 {
			woken++
		}
	}
}
