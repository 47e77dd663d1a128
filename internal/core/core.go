// Package core decides: which delivery is attempted when, what its outcome makes of it, what has to be recorded and loaded.
// It is a deterministic state machine. Step takes the time and one input and returns effects; there are no goroutines, no
// clock and no I/O here, and nothing depends on the order of a map. The shell (package engine) carries the effects out and
// brings their results back as inputs; package sim does the same with a simulated world.
//
// What the core keeps, for every endpoint that this node owns:
//
//   - A window: the heads of lanes that are due soon, at most Options.Window of them. A delivery that waits behind its lane's
//     head, or whose time is far, is in the store and costs nothing here.
//   - cold: the earliest due time among heads that it knows to be in the store but not in the window. Reaching it loads a page.
//   - A gate: whether the endpoint may be attempted now, and how often at once.
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
package core

import (
	"cmp"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Options are the core's limits. Zero values mean the defaults.
type Options struct {
	Slots   int           // attempts in flight on this node at once; 512
	Window  int           // heads of one endpoint in memory; 256, or twice the endpoint's concurrency if that is more
	Horizon time.Duration // heads due later than this stay in the store; 1 min
	Poll    time.Duration // how often an endpoint's heads are read even though no hint came; 30 s
}

// Core is the state machine. It is not safe for concurrent use: one goroutine owns it.
type Core struct {
	options   Options
	endpoints map[string]*endpoint
	count     int // endpoints ever seen; numbers them, which makes ties deterministic
	fair      fairness
	alarms    alarms
	seen      seen
	crowded   []*endpoint // over their share of the slots; looked at again when slots become free
	running   int
	recording int
	draining  bool
	out       []Effect
}

// New makes a core that owns nothing yet.
func New(o Options) *Core {
	o.Slots = cmp.Or(o.Slots, 512)
	o.Window = cmp.Or(o.Window, 256)
	o.Horizon = cmp.Or(o.Horizon, time.Minute)
	o.Poll = cmp.Or(o.Poll, 30*time.Second)
	return &Core{options: o, endpoints: map[string]*endpoint{}, fair: newFairness()}
}

// Step takes one input in at the given time and returns what has to be done. The slice is valid until the next Step.
func (c *Core) Step(now time.Time, in Input) []Effect {
	clear(c.out)
	c.out = c.out[:0]
	switch in := in.(type) {
	case Configured:
		c.configure(now, in.Endpoint, in.Newest)
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
	c.dispatch(now)
	return c.out
}

// Wake is when the next Tick is needed if no other input comes first; zero: none is.
func (c *Core) Wake() time.Time { return c.alarms.next() }

// Busy is how many attempts are in flight and how many changes are not yet durable. A drained core with neither is done.
func (c *Core) Busy() (running, recording int) { return c.running, c.recording }

// Slots is how many attempts may be in flight at once.
func (c *Core) Slots() int { return c.options.Slots }

func (c *Core) emit(e Effect) { c.out = append(c.out, e) }

// configure takes in an endpoint that is new or has changed.
func (c *Core) configure(now time.Time, cfg *grapnel.Endpoint, newest int64) {
	ep := c.endpoints[cfg.ID]
	var opens bool
	switch {
	case ep == nil:
		ep = newEndpoint(c.count, c.options)
		c.count++
		c.endpoints[cfg.ID] = ep
		// Spread the polls, so that many endpoints that start together are not read together for ever.
		ep.pollAt = now.Add(c.options.Poll + c.options.Poll*time.Duration(ep.number%16)/16)
		opens = true
	case cfg.Revision < ep.config.Revision:
		return // a late copy of an older revision
	default:
		opens = !ep.open()
	}
	ep.configure(now, cfg, newest, c.options)
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
	c.load(now, ep)
	if c.runnable(now, ep) {
		c.fair.add(ep)
	} else {
		c.fair.remove(ep)
	}
	c.alarms.set(ep, c.alarm(now, ep))
}

// runnable says whether an attempt of this endpoint could start now if a slot is free.
func (c *Core) runnable(now time.Time, ep *endpoint) bool {
	h := ep.window.next(now)
	if h == nil || h.due.After(now) || c.draining {
		return false
	}
	if !ep.gate.admits(now, h.urgent()) {
		return false
	}
	if ep.gate.running >= max(1, c.options.Slots/4) && c.options.Slots-c.running <= c.options.Slots/2 {
		// One endpoint may take more than a quarter of the slots only while half of them are free: what hangs cannot
		// take the place of what works.
		if !ep.crowded {
			ep.crowded = true
			c.crowded = append(c.crowded, ep)
		}
		return false
	}
	return true
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
		soonest(ep.gate.holdUntil)
		soonest(ep.gate.affordable(now))
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
		if ep == nil {
			return
		}
		h := ep.window.next(now)
		ep.window.unline(h)
		c.attempt(now, ep, h)
		c.refresh(now, ep)
	}
}

// uncrowd gives endpoints that were over their share another look once half of the slots are free.
func (c *Core) uncrowd(now time.Time) {
	if len(c.crowded) == 0 || c.options.Slots-c.running <= c.options.Slots/2 {
		return
	}
	again := c.crowded
	c.crowded = nil
	for _, ep := range again {
		ep.crowded = false
		if c.endpoints[ep.config.ID] == ep {
			c.refresh(now, ep)
		}
	}
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
		} else if ep.window.heads[heads[i].Delivery] == nil {
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
