package core

import (
	"cmp"
	"errors"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// endpoint is what the core knows of one endpoint that this node owns.
type endpoint struct {
	number int // in the order of first sight; breaks ties
	bounds *Bounds
	config *grapnel.Endpoint
	window window
	gate   gate
	pollAt time.Time
	floor  int64         // hints about deliveries up to this number are not trusted
	delay  time.Duration // before the first attempt of a delivery that becomes a head

	share     share     // of the slots; see fairness
	refusedBy *quota    // in whose line it stands; nil: none
	waited    bool      // was there, and has not been ready since
	tenant    *tenant   // whose it is
	newcomer  bool      // is in tenant.newcomers
	heard     time.Time // when an attempt came back last, or the first of those in flight began
	alarm     alarm

	since     time.Time // when its status became what it is
	hasten    bool      // what waited because of it is to be made due
	hastening bool      // that is on its way
	hastened  int       // how many of it were asked for at most
	replanned bool      // some of it may have been made due without the core's knowing
	hastenAt  time.Time // neither before this, after one that failed

	newest     int64         // delivery when config was read
	confirmed  bool          // config is what the store has; not so between the core's own disabling and its confirmation
	confirming bool          // a Disable is on its way
	recording  int           // changes of it on their way to the store
	ending     bool          // an End is on its way
	unended    *store.Ending // what was begun to be ended, and is not all ended
	endAt      time.Time     // neither before this, after one that failed
	over       bool          // everything that waited has been ended
	late       time.Time     // when something late of it was attempted last
	leaving    bool          // another node is to decide about it
}

func newEndpoint(number int, b *Bounds) *endpoint {
	return &endpoint{
		number: number, bounds: b,
		window: window{bounds: b, heads: map[int64]*head{}, touched: map[int64]bool{}},
	}
}

// remember takes over what the store has of an endpoint that the core sees for the first time. If it has come back shortly before,
// what waited may still be there.
func (ep *endpoint) remember(now time.Time, st store.Standing) {
	g := &ep.gate
	g.standing, g.number = st.Standing, st.Number
	// What is further away than any wait is long was written by a clock that has been set back since.
	for _, at := range []*time.Time{&g.standing.HoldUntil, &g.standing.ProbeAt} {
		if at.After(now.Add(longestWait)) {
			*at = now
		}
	}
	if g.standing.HoldUntil.After(now) {
		g.heldSince = now // or before: nobody has kept it
	}
	if back := g.standing.RecoveredAt; !g.tripped() && !back.IsZero() {
		ep.hasten = true
		if now.Sub(back) < ep.bounds.Ramps {
			g.trust.Return()
			g.ramp.Begin(now)
		}
	}
}

// longestWait is a little more than any hold and any wait between two probes.
const longestWait = 26 * time.Hour

func (ep *endpoint) configure(now time.Time, cfg *grapnel.Endpoint, newest int64) {
	before := ep.config
	ep.config, ep.newest = cfg, newest
	ep.delay = FirstDelay(&cfg.Policy)
	ep.gate.configure(now, cfg)
	if before == nil {
		ep.since = cfg.UpdatedAt
	} else {
		ep.changed(now, before)
	}
	if g := &ep.gate; g.tripped() && g.rules.Off {
		// Nothing would ever close it: without a breaker no outcome does. It may have been on record when this process began.
		g.resume(now)
		ep.hasten = true
	}
	ep.window.size = max(ep.bounds.Window, 2*ep.gate.limit)
	ep.over = false
}

// changed draws the conclusions from a change that a person made.
func (ep *endpoint) changed(now time.Time, before *grapnel.Endpoint) {
	g, cfg := &ep.gate, ep.config
	paused := now.Sub(ep.since)
	if before.Status != cfg.Status {
		ep.since = now
	}
	switch enabled := cfg.Status == grapnel.EndpointEnabled; {
	case enabled && before.Status == grapnel.EndpointDisabled:
		// Whoever enables it says that it is well: the slate is clean, and what waited for it goes out bit by bit.
		g.restart(now)
		ep.hasten = true
	case enabled && before.Status == grapnel.EndpointPaused:
		if st := &g.standing; !st.FailingSince.IsZero() && paused > 0 {
			st.FailingSince, g.dirty = earliest(st.FailingSince.Add(paused), now), true // meanwhile it could not succeed
		}
		g.ramp.Begin(now)
	}
	switch most := now.Add(g.rules.ProbeMax.Std()); {
	case !g.tripped():
	case before.URL != cfg.URL:
		g.standing.ProbeAt = now // somebody has repaired it, maybe
	case g.standing.ProbeAt.After(most):
		g.standing.ProbeAt = most // the wait was one of the rules before
	}
}

// FirstDelay is how long a delivery waits once it is the head of its lane.
func FirstDelay(p *policy.Policy) time.Duration {
	var start time.Time
	return p.First(policy.Progress{Anchor: start}).At.Sub(start)
}

// open says whether deliveries of this endpoint are attempted at all. While what waited before is being ended they are not,
// even if somebody has enabled the endpoint meanwhile.
func (ep *endpoint) open() bool {
	return ep.config.Queue == nil && ep.active()
}

// handsOut says whether consumers take the deliveries of this endpoint. The core attempts nothing of a queue; it ends what waits for one,
// and carries out what people ask.
func (ep *endpoint) handsOut() bool { return ep.config.Queue != nil && ep.active() }

func (ep *endpoint) active() bool {
	return ep.config.Status == grapnel.EndpointEnabled && ep.config.DeletedAt.IsZero() && ep.unended == nil && !ep.leaving
}

// opened looks at the store anew: what waits was not looked at while the endpoint was closed, or not ours, and what was ended
// meanwhile may still be on its way as a hint.
func (ep *endpoint) opened(now time.Time) {
	ep.window.chill(now)
	ep.floor = ep.newest
}

// ends says how what waits for a closed endpoint is finished; false: it is held.
func (ep *endpoint) ends(now time.Time) (store.Ending, bool) {
	switch {
	case ep.unended != nil && ep.config.DeletedAt.IsZero():
		return *ep.unended, true
	case !ep.config.DeletedAt.IsZero():
		return store.Ending{UpTo: cmp.Or(ep.newest, -1), Status: grapnel.Dropped, ReasonCode: grapnel.ReasonEndpointGone,
			Reason: "dropped: its endpoint was deleted", At: now}, true
	case ep.config.DropReason() != "":
		return store.Ending{UpTo: cmp.Or(ep.newest, -1), Status: grapnel.Dropped, Reason: ep.config.DropReason(), At: now}, true
	}
	return store.Ending{}, false
}

// end finishes what waits for an endpoint that is deleted, or disabled under a policy that drops. It waits until
// nothing of the endpoint is in flight or being recorded, so that no attempt's outcome is lost. What is accepted after the endpoint
// was closed has a higher number and is not its business: the endpoint may be open again by then.
func (c *Core) end(now time.Time, ep *endpoint) {
	if ep.over || ep.ending || ep.leaving || ep.endAt.After(now) || len(ep.window.heads) > 0 || c.draining {
		return
	}
	ending, ends := ep.ends(now)
	if !ends || !ep.confirmed {
		return
	}
	ep.ending, ep.unended = true, &ending
	c.emit(End{Endpoint: ep.config.ID, Ending: ending, Limit: c.bounds.End})
}

// ended goes on until nothing is left.
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
