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
	slow    *quota      // a host's: of them, those of endpoints whose attempts take long
	at      destination // a host's
}

// quotas keep what hangs, what comes back and what is popular from taking the slots of all others. Each is a share of all slots.
//
// An endpoint that has nothing in flight is only bound by the limit of its host, by the half that is
// kept for first attempts, and by the share of its tenant's unproven endpoints. The last eighth of
// the slots is for such endpoints (Core.dispatch). Of a host's places one endpoint gets at most a
// half, and so do all slow ones together.
//
// An attempt cannot be taken back, and its policy may let it hang for ten minutes. So one tenant can
// fill whatever tenants share. Therefore each tenant has places of its own at a host, and a host has
// no limit over all tenants: only the slots bound their sum. The slots themselves and the places for
// retries are shared; one tenant among several must leave a part of each to the others.
type quotas struct {
	again   quota                  // attempts that are not the first, and what a replay has made: at most a half
	slow    quota                  // of endpoints whose attempts take long: a quarter, when slots are scarce
	greedy  quota                  // of an endpoint that holds a quarter already, or of which nobody knows how long it takes: none, when slots are scarce
	perHost map[destination]*quota // of one tenant at one destination
	tenants map[string]*tenant     // that have endpoints here
}

// destination is what a tenant's requests go to.
type destination struct{ tenant, host string }

// tenant is what one tenant uses. Its quotas count only while other tenants have endpoints here.
type tenant struct {
	endpoints int
	running   int
	again     quota       // of quotas.again: at most a half
	unproven  quota       // attempts of endpoints of which none has come back yet: at most half of the slots
	newcomers []*endpoint // that could be attempted and had nothing in flight; some have by now
}

// join counts an endpoint as one of its tenant's.
func (q *quotas) join(ep *endpoint, name string) {
	if q.tenants[name] == nil {
		q.tenants[name] = &tenant{}
	}
	ep.tenant = q.tenants[name]
	ep.tenant.endpoints++
}

// leave undoes join.
func (q *quotas) leave(ep *endpoint) {
	if ep.tenant.endpoints--; ep.tenant.endpoints == 0 {
		delete(q.tenants, ep.config.Tenant)
	}
}

// several says whether there are tenants that need protection from each other.
func (q *quotas) several() bool { return len(q.tenants) > 1 }

// unproven says whether no attempt of the endpoint has come back since the core knows it. So nobody
// knows how long its attempts take.
func (ep *endpoint) unproven() bool { return ep.share.average == 0 }

// onTrial says whether an unproven endpoint has in flight what it may have. Its first attempt is
// bound by pick alone.
func (c *Core) onTrial(ep *endpoint) bool {
	return ep.unproven() && ep.gate.running > 0 &&
		(ep.gate.running >= c.bounds.Unproven || c.quotas.several() && ep.tenant.unproven.used >= c.part(8))
}

func (ep *endpoint) slow(now time.Time) bool {
	return ep.share.average > ep.bounds.Slow || ep.gate.running > 0 && now.Sub(ep.heard) > ep.bounds.Slow
}

func (q *quotas) host(at destination) *quota {
	h := q.perHost[at]
	if h == nil {
		h = &quota{slow: &quota{}, at: at}
		q.perHost[at] = h
	}
	return h
}

// part is at least one of the slots, else one of so many.
func (c *Core) part(of int) int { return max(1, c.options.Slots/of) }

// halfOfHost is how many of its tenant's places at a host one endpoint may have, and all that are slow together.
func (c *Core) halfOfHost() int { return max(1, c.options.PerHost/2) }

// scarce says whether fewer than half of the slots are free.
func (c *Core) scarce() bool { return c.options.Slots-c.running <= c.options.Slots/2 }

// pick is the head of an endpoint whose attempt could start now if a slot is free; nil: none.
func (c *Core) pick(now time.Time, ep *endpoint) *head {
	h := ep.window.next(now)
	if h == nil || h.due.After(now) || c.draining || !ep.gate.admits(now, h.urgent()) {
		return nil
	}
	q, t := &c.quotas, ep.tenant
	var full *quota
	host := q.host(ep.gate.host)
	switch {
	case ep.gate.running >= c.halfOfHost(), c.onTrial(ep):
		ep.waited = true // until one of its own comes back, so it stands in no line
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
	ep.tenant.running++
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

// vacate counts an attempt that is over.
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

// readmit gives endpoints that were refused another look, as far as the attempt that is over has made room for them.
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
