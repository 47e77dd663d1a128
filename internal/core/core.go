// Package core decides: which delivery is attempted when, what its outcome makes of it, what has to be recorded and loaded.
// It is a deterministic state machine. Step takes the time and one input and returns effects; there are no goroutines, no
// clock and no I/O here, and nothing depends on the order of a map. The shell (package engine) carries the effects out and
// brings their results back as inputs; package sim does the same with a simulated world.
//
// What the core keeps, for every endpoint that this node owns:
//
//   - A window: the heads of lanes that are due soon, at most Bounds.Window of them. A delivery that waits behind its lane's
//     head, or whose time is far, is in the store and costs nothing here.
//   - cold: the earliest due time among heads that it knows to be in the store but not in the window. Reaching it loads a page.
//   - A gate: whether the endpoint may be attempted now, and how often at once: its limits, its breaker, its ramp.
//
// And for all of them together: the slots, with what keeps some attempts from taking the slots of others (quota.go, fair.go).
//
// Invariants, each guarded by the simulation:
//
//   - A delivery is attempted only while it is in the window as idle; from the attempt's start until its outcome is durable it
//     is running or recording and cannot start again.
//   - A lane's next delivery enters the window only as the answer to a durable change (Recorded) or from a page read after it.
//   - A page that was read before a change came back cannot bring the old state in (window.touched), and one that was read before
//     its endpoint closed is thrown away (window.stale).
//   - A hint is trusted only if it is about a delivery that was certainly never seen before (seen) and is younger than the
//     endpoint's last opening (endpoint.floor); any other one, late or doubled, only causes a page to be read.
//   - While what waited for an endpoint is being ended nothing of it starts, and only what was there when it closed is ended.
//   - While an endpoint's breaker is open nothing of it starts but one probe at a time, and what people ask for.
//   - An endpoint's standing is recorded with the outcome that changed it, so a restart finds what the outcomes on record have led to.
package core

import (
	"cmp"
	"time"

	"github.com/grapnelhq/grapnel/internal/bounds"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Options are the core's limits. Zero values mean the defaults.
type Options struct {
	Bounds  Bounds // inside this room; zero: their defaults
	Slots   int    // attempts in flight on this node at once; 512
	PerHost int    // attempts in flight of one tenant at one host and port; half of the slots
	Shared  bool   // other nodes use the store as well, so how long it takes varies by itself
}

// Core is the state machine. It is not safe for concurrent use: one goroutine owns it.
type Core struct {
	options   Options
	bounds    *Bounds
	endpoints map[string]*endpoint
	count     int // endpoints ever seen; numbers them, which makes ties deterministic
	fair      fairness
	alarms    alarms
	seen      seen
	quotas    quotas
	late      late
	newcomers []*tenant // with endpoints that could be attempted and had nothing in flight, each in turn
	running   int
	recording int
	draining  bool
	last      time.Time // of the last Step
	out       []Effect
}

// New makes a core that owns nothing yet.
func New(o Options) *Core {
	o.Slots = cmp.Or(o.Slots, 512)
	o.Bounds = bounds.Fill(o.Bounds)
	o.PerHost = cmp.Or(o.PerHost, max(o.Slots/2, 1))
	return &Core{
		options: o, bounds: &o.Bounds, endpoints: map[string]*endpoint{}, seen: newSeen(o.Bounds.Seen), fair: newFairness(),
		quotas: quotas{perHost: map[destination]*quota{}, tenants: map[string]*tenant{}}, late: newLate(o.Shared, o.Bounds),
	}
}

// Step takes one input in at the given time and returns what has to be done. The slice is valid until the next Step.
func (c *Core) Step(now time.Time, in Input) []Effect {
	clear(c.out)
	c.out = c.out[:0]
	if c.last.Sub(now) > setBack {
		c.rewind(now, c.last.Sub(now))
	}
	c.last = now
	switch in := in.(type) {
	case Configured:
		c.configure(now, in)
	case Leave:
		c.leave(now, in.Endpoint)
	case Arrived:
		c.arrive(now, in.Heads)
	case Loaded:
		c.loaded(now, in)
	case Finished:
		c.finished(now, in)
	case Recorded:
		c.recorded(now, in)
	case Ended:
		c.ended(now, in)
	case Disabled:
		c.disabled(now, in)
	case Hastened:
		c.hastened(now, in)
	case Operated:
		c.operate(now, in)
	case Drain:
		c.draining = true
	case Tick:
	}
	for {
		ep := c.alarms.due(now)
		if ep == nil {
			break
		}
		c.refresh(now, ep)
	}
	c.hung(now)
	c.dispatch(now)
	return c.out
}

// Wake is when the next Tick is needed if no other input comes first; zero: none is.
func (c *Core) Wake() time.Time { return earliest(c.alarms.next(), c.late.wake()) }

// Busy is how many attempts are in flight and how many changes are not yet durable. A drained core with neither is done.
func (c *Core) Busy() (running, recording int) { return c.running, c.recording }

// Slots is how many attempts may be in flight at once.
func (c *Core) Slots() int { return c.options.Slots }

func (c *Core) emit(e Effect) { c.out = append(c.out, e) }

// configure takes in an endpoint that is new or has changed.
func (c *Core) configure(now time.Time, in Configured) {
	own := *in.Endpoint // the pointer may be into a list of all endpoints, which would stay in memory with it
	cfg := &own
	ep := c.endpoints[cfg.ID]
	var opens, fresh, stands bool
	switch {
	case ep == nil:
		ep = newEndpoint(c.count, c.bounds)
		c.count++
		c.endpoints[cfg.ID] = ep
		c.quotas.join(ep, cfg.Tenant)
		// Spread the polls, so that many endpoints that start together are not read together for ever.
		ep.pollAt = now.Add(c.bounds.Poll + c.bounds.Poll*time.Duration(ep.number%16)/16)
		ep.remember(now, in.Standing)
		opens, fresh = true, true
	case cfg.Revision < ep.config.Revision:
		return // a late copy of an older revision
	case cfg.Revision == ep.config.Revision && !ep.confirmed:
		// Nobody has changed the endpoint since the core disabled it: its policy is another one, or everything was read again.
		cfg, stands = closed(cfg, ep.config.DisabledReason, ep.config.DisabledAt), true
	default:
		opens = !ep.open()
	}
	ep.configure(now, cfg, in.Newest)
	ep.confirmed = !stands
	if fresh {
		c.carryOut(now, ep)
	}
	c.keep(now, ep)
	if !ep.open() {
		ep.window.park() // and nothing is admitted until it opens
	} else if opens {
		ep.opened(now)
	}
	c.refresh(now, ep)
}

// refresh brings everything that is derived from an endpoint's state up to date: a page to load, its place in
// the fair queue, its alarm. Whoever changes an endpoint calls it last.
func (c *Core) refresh(now time.Time, ep *endpoint) {
	c.confirm(now, ep)
	c.end(now, ep)
	c.hurry(now, ep)
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

// alarm is when an endpoint has to be refreshed though nothing happens; zero: never. What refresh could have done at once is
// not waited for, so the alarm is always in the future.
func (c *Core) alarm(now time.Time, ep *endpoint) time.Time {
	var at time.Time
	soonest := func(t time.Time) {
		if t.After(now) {
			at = earliest(at, t)
		}
	}
	switch {
	case c.draining:
	case !ep.open():
		soonest(ep.endAt)
	default:
		ep.gate.opensAt(now, soonest)
		soonest(ep.hastenAt)
		if ep.hasten && !ep.gate.tripped() {
			soonest(ep.gate.trust.Next(now))
		}
		if longest := ep.config.Policy.MaxAge.Std(); longest > 0 && !ep.window.oldest.IsZero() && ep.gate.barred(now) {
			soonest(ep.window.oldest.Add(longest + time.Nanosecond))
		}
		for _, h := range ep.window.waiting {
			if soonest(h.due); !h.urgent() {
				break // the others are due later
			}
		}
		if !ep.window.loading {
			soonest(ep.pollAt)
			soonest(ep.window.retryAt)
		}
		if ep.window.wantsPage() {
			soonest(ep.window.pageAt())
		}
	}
	return at
}

// dispatch starts attempts while slots are free, each for the endpoint that has had the least of the slots' time.
func (c *Core) dispatch(now time.Time) {
	for c.running < c.options.Slots && !c.draining {
		ep := c.fair.next()
		if c.options.Slots-c.running <= c.options.Slots/8 {
			ep = c.newcomer()
		}
		if ep == nil {
			return
		}
		if h := c.pick(now, ep); h != nil {
			ep.window.unline(h)
			c.attempt(now, ep, h)
		}
		c.refresh(now, ep) // without a head: others have taken the places that it was to share
	}
}

// newcomer is the next endpoint that could be attempted and has nothing in flight, of each tenant in
// turn. The last sixteenth of the slots is for tenants that have no more in flight than are free, so a
// tenant with one hanging attempt at each of very many endpoints does not get these.
func (c *Core) newcomer() *endpoint {
	free := c.options.Slots - c.running
	for range len(c.newcomers) {
		t := c.newcomers[0]
		c.newcomers = c.newcomers[1:]
		if c.quotas.several() && free <= c.options.Slots/16 && t.running > free {
			c.newcomers = append(c.newcomers, t)
			continue
		}
		for len(t.newcomers) > 0 {
			ep := t.newcomers[0]
			t.newcomers = t.newcomers[1:]
			ep.newcomer = false
			if ep.share.pos != 0 && ep.gate.running == 0 {
				if len(t.newcomers) > 0 {
					c.newcomers = append(c.newcomers, t)
				}
				return ep
			}
		}
	}
	return nil
}

// arrive takes in hints: deliveries that became heads when an event was accepted.
func (c *Core) arrive(now time.Time, heads []store.Head) {
	for i := range heads {
		ep := c.endpoints[heads[i].Endpoint]
		if ep == nil || !ep.open() {
			continue // not ours, or closed: when it opens a page is read
		}
		if heads[i].Delivery > ep.floor && !c.seen.maybe(heads[i].Delivery) {
			c.admit(now, ep, heads[i])
		} else if h := ep.window.heads[heads[i].Delivery]; h == nil || !h.Same(&heads[i]) {
			ep.window.chill(heads[i].Due)
		}
		c.refresh(now, ep)
	}
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// earliest of two times, of which zero means none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
