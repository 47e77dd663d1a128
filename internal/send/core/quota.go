package core

import (
	"slices"
	"time"
)

// join counts an endpoint as its tenant's.
func (q *quotas) join(ep *endpoint, name string) {
	if q.tenants[name] == nil {
		q.tenants[name] = &tenant{}
	}
	ep.tenant = q.tenants[name]
	ep.tenant.endpoints++
}

// several says whether tenants need protection from each other.
func (q *quotas) several() bool { return len(q.tenants) > 1 }

// unproven says whether no attempt of the endpoint has finished since the core has it, so that the
// duration of its attempts is unknown.
func (ep *endpoint) unproven() bool { return ep.share.average == 0 }

// onTrial says whether an unproven endpoint has its allowed attempts in flight. Its first attempt
// is bound by pick alone.
func (c *Core) onTrial(ep *endpoint) bool {
	return ep.unproven() && ep.gate.running > 0 &&
		(ep.gate.running >= c.bounds.Unproven || c.quotas.several() && ep.tenant.unproven.used >= c.part(8))
}

func (q *quotas) host(at destination) *quota {
	h := q.perHost[at]
	if h == nil {
		h = &quota{slow: &quota{}, at: at}
		q.perHost[at] = h
	}
	return h
}

// part is the number of slots divided by of, at least one.
func (c *Core) part(of int) int { return max(1, c.options.Slots/of) }

// halfOfHost is the limit of one endpoint at a host, and of all slow endpoints together there.
func (c *Core) halfOfHost() int { return max(1, c.options.PerHost/2) }

// scarce says whether at most half of the slots are free.
func (c *Core) scarce() bool { return c.options.Slots-c.running <= c.options.Slots/2 }

// pick is the head of an endpoint whose attempt could start now if a slot is free; nil: none.
func (c *Core) pick(now time.Time, ep *endpoint) *head {
	h := ep.window.next(now)
	if h == nil || h.due.After(now) || c.draining {
		return nil
	}
	if !ep.gate.admits(now, h.urgent()) {
		ep.refusedAt = now
		return nil
	}
	q, t := &c.quotas, ep.tenant
	var full *quota
	host := q.host(ep.gate.host)
	switch {
	case ep.gate.running >= c.halfOfHost(), c.onTrial(ep):
		ep.waited = true // until one of its own attempts finishes, so no quota lists it
		ep.refusedAt = now
		return nil
	case host.used >= c.options.PerHost:
		full = host
	case host.slow.used >= c.halfOfHost() && ep.slow(now):
		full = host.slow
	case ep.unproven() && q.several() && t.unproven.used >= c.part(2):
		full = &t.unproven
	case h.urgent():
		return h
	case h.again() && q.again.used >= c.part(2):
		full = &q.again
	case h.again() && q.several() && t.again.used >= c.part(4):
		full = &t.again
	}
	if full == &q.again || full == &t.again {
		if h = ep.window.fresh(now); h != nil {
			full = nil
		}
	}
	switch {
	case full != nil || ep.gate.running == 0 || !c.scarce():
	case ep.gate.running >= c.part(4), ep.unproven():
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
	ep.waited, ep.refusedAt = true, now
	if ep.refusedBy != full {
		ep.refusedBy = full // an earlier quota's list skips it, because refusedBy no longer names that quota
		if full.refused = append(full.refused, ep); len(full.refused) > 2*len(c.endpoints) {
			full.refused = slices.DeleteFunc(full.refused, func(ep *endpoint) bool { return ep.refusedBy != full })
		}
	}
	return nil
}

// occupy counts an attempt that starts.
func (c *Core) occupy(now time.Time, ep *endpoint, h *head) {
	c.running++
	ep.tenant.running++
	if ep.gate.running == 0 {
		ep.heard = now
	}
	switch {
	case ep.isLate(now, h):
		c.late.take(now, h)
		ep.late = now
	case h.urgent(), ep.behind(now), now.Sub(h.due) > c.bounds.Late.After:
		// Neither late nor on time: overdue deliveries of endpoints whose duration is unknown may
		// be many, and do not deserve protection.
	default:
		c.late.meet(now, h)
	}
	h.slow, h.unproven, h.host = ep.slow(now), ep.unproven(), c.quotas.host(ep.gate.host)
	h.host.used++
	if h.again() {
		c.quotas.again.used++
		ep.tenant.again.used++
	}
	if h.unproven {
		ep.tenant.unproven.used++
	}
	if h.slow {
		c.quotas.slow.used++
		h.host.slow.used++
	}
}

// vacate counts a finished attempt.
func (c *Core) vacate(now time.Time, ep *endpoint, h *head) {
	q := &c.quotas
	c.running--
	ep.tenant.running--
	c.met(h)
	ep.heard = now
	h.host.used--
	if h.again() {
		q.again.used--
		ep.tenant.again.used--
	}
	if h.unproven {
		ep.tenant.unproven.used--
	}
	if h.slow {
		q.slow.used--
		h.host.slow.used--
	}
}

// readmit looks again at refused endpoints, for the slots that the finished attempt has freed.
func (c *Core) readmit(now time.Time, ep *endpoint, h *head) {
	q := &c.quotas
	host := h.host
	c.look(now, host, c.options.PerHost)
	if h.slow {
		c.look(now, host.slow, c.halfOfHost())
		c.look(now, &q.slow, c.part(4))
	}
	if host.used == 0 && len(host.refused)+len(host.slow.refused) == 0 {
		delete(q.perHost, host.at)
	}
	if h.again() {
		c.look(now, &ep.tenant.again, c.part(4))
		c.look(now, &q.again, c.part(2))
	}
	if h.unproven {
		c.look(now, &ep.tenant.unproven, c.part(2))
	}
	if !c.scarce() {
		for len(q.greedy.refused)+len(q.slow.refused) > 0 {
			c.look(now, &q.greedy, c.options.Slots)
			c.look(now, &q.slow, c.options.Slots)
		}
	}
}

// look takes endpoints out of a quota's list until one becomes ready per free slot, or one is
// refused again. The attempts that hold the other slots call it when they finish; if none is in
// flight, look goes through the whole list.
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

// refresh updates everything derived from an endpoint's state: the page to load, its entry in the
// fair queue, its alarm. Every function that changes an endpoint calls it last.
func (c *Core) refresh(now time.Time, ep *endpoint) {
	c.confirm(now, ep)
	c.end(now, ep)
	c.hurry(now, ep)
	c.seek(now, ep)
	ep.window.refill(now)
	c.expire(now, ep)
	c.load(now, ep)
	c.settled(now, ep)
	if c.pick(now, ep) != nil {
		c.fair.add(ep, ep.waited)
		ep.waited = false
		if t := ep.tenant; ep.gate.running == 0 && !ep.newcomer {
			ep.newcomer = true
			if len(t.newcomers) == 0 {
				c.newcomers = append(c.newcomers, t)
			}
			t.newcomers = append(t.newcomers, ep)
		}
	} else {
		c.fair.remove(ep)
	}
	c.alarms.set(ep, c.alarm(now, ep))
	c.depart(ep)
}

// passOn gives freed slots to endpoints with late heads.
func (c *Core) passOn(now time.Time) {
	if c.late.freed {
		c.late.freed = false
		c.look(now, &c.late.places, c.late.allowance())
	}
}
