// Package core decides which delivery is attempted when, what its outcome makes of it, and which
// changes and reads the store gets. It is a deterministic state machine. Step takes the time and
// one input and returns effects; there are no goroutines, no clock and no I/O here, and nothing
// depends on the order of a map. The shell (package engine) carries the effects out and brings
// their results back as inputs; package sim does the same with a simulated world.
//
// The core has this state for every endpoint that this node owns:
//
//   - A window: the heads of lanes that are due soon, at most Bounds.Window of them. A delivery
//     that is behind its lane's head, or due far in the future, is only in the store.
//   - A reserve: further heads that are due soon, at most Bounds.Reserve for all endpoints. They
//     enter the window as it empties.
//   - cold: the earliest due time among heads known to be in the store and neither in the window
//     nor in the reserve. A page is loaded when it is reached.
//   - A gate: whether the endpoint may be attempted now, and how often at once: its limits, its
//     circuit, its ramp.
//
// And for all endpoints together: the slots, with the quotas that keep some attempts from taking
// the slots of others (quota.go, fair.go).
//
// Invariants, each guarded by the simulation:
//
//   - A delivery is attempted only while it is in the window as idle; from the attempt's start
//     until its outcome is durable it is running or recording and cannot start again.
//   - A lane's next delivery enters the window only as the answer to a durable change (Recorded) or
//     from a page read after it.
//   - A page that was read before a change came back cannot bring the old state in
//     (window.touched), and a page that was read before its endpoint closed is discarded
//     (window.stale).
//   - A hint is trusted only if it is about a delivery that was certainly never seen before (seen)
//     and is younger than the endpoint's last opening (endpoint.floor); any other hint, late or
//     doubled, only causes a page to be read.
//   - While the pending deliveries of an endpoint are being ended nothing of it starts, and only
//     the deliveries that were pending when it closed are ended.
//   - While an endpoint's circuit is open nothing of it starts but one probe at a time, and the
//     attempts that operators ask for.
//   - An endpoint's standing is recorded with the outcome that changed it, so a restart finds the
//     standing that the recorded outcomes have led to.
package core

import (
	"cmp"
	"errors"
	"time"

	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/store"
)

// New returns a core that owns no endpoint yet.
func New(o Options) *Core {
	o.Slots = cmp.Or(o.Slots, 512)
	o.Bounds = bounds.Fill(o.Bounds)
	o.PerHost = cmp.Or(o.PerHost, max(o.Slots/2, 1))
	return &Core{
		options: o, bounds: &o.Bounds, endpoints: map[string]*endpoint{}, judged: map[string]bool{}, seen: newSeen(o.Bounds.Seen), fair: newFairness(),
		quotas: quotas{perHost: map[destination]*quota{}, tenants: map[string]*tenant{}}, late: newLate(o.Shared, o.Bounds),
		reserved: reserved{most: o.Bounds.Reserve},
	}
}

// Step applies one input at the given time and returns the effects to carry out. The slice is valid
// until the next Step.
func (c *Core) Step(now time.Time, in Input) []Effect {
	clear(c.out)
	c.out = c.out[:0]
	switch {
	case c.last.Sub(now) > setBack:
		c.rewind(now, c.last.Sub(now))
	case !c.last.IsZero() && now.Sub(c.last) > c.bounds.Absent:
		for _, ep := range c.endpoints {
			ep.gate.absent(now, ep.config)
		}
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
	case *Finished:
		c.finished(now, in)
	case Recorded:
		c.recorded(now, in)
	case Ended:
		c.ended(now, in)
	case Disabled:
		c.disabled(now, in)
	case MadeDue:
		c.madeDue(now, in)
	case Operated:
		c.operate(now, in)
	case Counted:
		c.countFirsts(now, in)
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
	c.passOn(now)
	c.dispatch(now)
	return c.out
}

// Wake is when the next Tick is needed if no other input comes first; zero: no Tick is needed.
func (c *Core) Wake() time.Time { return earliest(c.alarms.next(), c.late.wake()) }

// Busy counts the attempts in flight and the changes that are not yet durable. A drained core with
// neither is done.
func (c *Core) Busy() (running, recording int) { return c.running, c.recording }

// Slots is the number of attempts that may be in flight at once.
func (c *Core) Slots() int { return c.options.Slots }

// configure applies the configuration of a new or changed endpoint.
func (c *Core) configure(now time.Time, in Configured) {
	own := *in.Endpoint // in.Endpoint may point into a list of all endpoints, which would stay in memory with it
	cfg := &own
	ep := c.endpoints[cfg.ID]
	var opens, fresh, stands bool
	switch {
	case ep == nil:
		ep = newEndpoint(c.count, c.bounds, &c.reserved)
		c.count++
		c.endpoints[cfg.ID] = ep
		c.quotas.join(ep, cfg.Tenant)
		// Spread the polls, so that many endpoints that start together are not read together
		// forever.
		ep.pollAt = now.Add(c.bounds.Poll + c.bounds.Poll*time.Duration(ep.number%16)/16)
		ep.remember(now, in.Standing)
		ep.refusedAt = now
		if !ep.gate.standing.DegradedAt.IsZero() {
			c.judged[cfg.ID] = true
		}
		opens, fresh = true, true
	case cfg.Revision < ep.config.Revision:
		return // a late copy of an older revision
	case cfg.Revision == ep.config.Revision && !ep.confirmed:
		// The core's disabling is not stored yet, and this revision is older than it: the policy
		// changed, or the configuration was read again.
		cfg, stands = closed(cfg, ep.config.DisabledReason, ep.config.DisabledAt, ep.config.DisabledByAnswer), true
	default:
		opens = !ep.open()
	}
	ep.configure(now, cfg, in.Newest)
	ep.confirmed = !stands
	if fresh {
		ep.gate.absent(now, cfg)
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

// dispatch starts attempts while slots are free, each for the endpoint that has used the least slot
// time.
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
		c.refresh(now, ep) // even without a head: the endpoint's quotas may have filled up since it became ready
	}
}

// newcomer is the next endpoint that is ready and has nothing in flight, of each tenant in turn.
// The last sixteenth of the slots is for tenants that have no more in flight than are free. So a
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

// arrive applies hints: deliveries that became heads when an event was accepted.
func (c *Core) arrive(now time.Time, heads []store.Head) {
	for i := range heads {
		ep := c.endpoints[heads[i].Endpoint]
		if ep == nil || !ep.open() {
			continue // another node's, or closed: a page is read when it opens
		}
		if heads[i].Delivery > ep.floor && !c.seen.maybe(heads[i].Delivery) {
			c.admit(now, ep, heads[i])
		} else if h := ep.window.known(heads[i].Delivery); h == nil || !h.Same(&heads[i]) {
			ep.window.chill(heads[i].Due)
		}
		c.refresh(now, ep)
	}
}

// ended repeats the End until no delivery is left.
func (c *Core) ended(now time.Time, in Ended) {
	ep := c.endpoints[in.Endpoint]
	if ep == nil {
		return
	}
	ep.ending, ep.endAt = false, time.Time{}
	c.fenced(ep, errors.Is(in.Err, store.ErrFenced))
	if in.Err == nil && in.Count < c.bounds.End && len(ep.window.heads) == 0 {
		ep.unended = nil
	}
	_, ends := ep.ends(now)
	switch {
	case ep.open():
		ep.opened(now)
	case in.Err != nil:
		ep.endAt = now.Add(c.bounds.Retry)
	case ends && ep.unended == nil:
		ep.over = true
		if !ep.config.DeletedAt.IsZero() {
			c.emit(Forget{Endpoint: ep.config.ID})
			c.remove(ep)
			return
		}
	}
	c.refresh(now, ep)
}

// madeDue has the new due times read.
func (c *Core) madeDue(now time.Time, in MadeDue) {
	ep := c.endpoints[in.Endpoint]
	if ep == nil {
		return
	}
	ep.makingDue = false
	c.fenced(ep, errors.Is(in.Err, store.ErrFenced))
	switch {
	case in.Err != nil:
		// The call may have succeeded although it failed here; then the next one changes nothing,
		// and the store has the new times.
		ep.makeDue, ep.makeDueAt, ep.replanned = true, now.Add(c.bounds.Retry), true
	case in.Count > 0 || ep.replanned:
		ep.makeDue, ep.replanned = ep.makeDue || in.Count >= ep.madeDue, false
		if ep.open() {
			ep.window.forgetPlans(now)
		}
	}
	c.refresh(now, ep)
}

// leave begins to forget an endpoint.
func (c *Core) leave(now time.Time, id string) {
	ep := c.endpoints[id]
	if ep == nil {
		c.emit(Left{Endpoint: id})
		return
	}
	ep.leave()
	c.refresh(now, ep)
}

// loaded applies a page.
func (c *Core) loaded(now time.Time, in Loaded) {
	ep := c.endpoints[in.Endpoint]
	if ep == nil {
		return
	}
	w := &ep.window
	stale := w.stale
	w.loading, w.stale = false, false
	switch {
	case in.Err != nil:
		w.chill(now)
		w.retryAt = now.Add(w.bounds.Retry)
	case stale || !ep.open():
		w.chill(now)
	default:
		complete := true // all heads of the page were in memory
		for _, h := range in.Heads {
			w.supplant(&h)
			if w.known(h.Delivery) != nil || w.touched[h.Delivery] {
				continue
			}
			complete = false
			if h.Due.After(now.Add(w.bounds.Horizon)) && !ahead(now, &h) {
				w.chill(h.Due)
				continue
			}
			c.admit(now, ep, h)
		}
		c.forward(now, ep, in.Heads)
		if n := len(in.Heads); n >= in.Limit && n > 0 {
			w.chillBehind(in.Heads[n-1].Due, complete)
		}
	}
	c.refresh(now, ep)
}
