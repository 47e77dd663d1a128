package core

import (
	"cmp"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

func newEndpoint(number int, b *Bounds, all *reserved) *endpoint {
	return &endpoint{
		number: number, bounds: b,
		window: window{bounds: b, heads: map[int64]*head{}, touched: map[int64]bool{},
			reserve: reserve{all: all}},
	}
}

// remember applies the stored standing of an endpoint that the core sees for the first time. If the
// endpoint recovered recently, deliveries delayed by the outage may still be in the store.
func (ep *endpoint) remember(now time.Time, st store.Standing) {
	g := &ep.gate
	g.standing, g.number = st.Standing, st.Number
	// A time further away than the longest wait was written before the clock was set back.
	for _, at := range []*time.Time{&g.standing.HoldUntil, &g.standing.ProbeAt} {
		if at.After(now.Add(longestWait)) {
			*at = now
		}
	}
	if back := g.standing.RecoveredAt; !g.tripped() && !back.IsZero() {
		ep.makeDue = true
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
	ep.delay = cfg.Policy.FirstDelay()
	ep.gate.configure(now, cfg)
	if before == nil {
		ep.since, ep.unsure = cfg.UpdatedAt, true
	} else {
		ep.changed(now, before)
	}
	if g := &ep.gate; g.tripped() && g.rules.Off {
		// With the breaker off no outcome would ever close the circuit. It may have been open in
		// the store when this process began.
		g.resume(now)
		ep.makeDue = true
	}
	ep.window.size = max(ep.bounds.Window, 2*ep.gate.limit)
	ep.over = false
}

// changed reacts to a change of the configuration that an operator made.
func (ep *endpoint) changed(now time.Time, before *grapnel.Endpoint) {
	g, cfg := &ep.gate, ep.config
	paused := now.Sub(ep.since)
	if ep.unsure { // an edit during the pause has moved UpdatedAt: the pause may be as old as the first failure
		paused = now.Sub(g.standing.FailingSince)
	}
	if before.Status != cfg.Status {
		ep.since, ep.refusedAt, ep.unsure = now, now, false // it took nothing until now, if it takes something from now on
	}
	switch enabled := cfg.Status == grapnel.EndpointEnabled; {
	case enabled && before.Status == grapnel.EndpointDisabled:
		// Enabling the endpoint clears its failures; its pending deliveries go out on a ramp.
		g.restart(now)
		ep.makeDue = true
	case enabled && before.Status == grapnel.EndpointPaused:
		if st := &g.standing; !st.FailingSince.IsZero() && paused > 0 {
			st.FailingSince, g.dirty = earliest(st.FailingSince.Add(paused), now), true // it could not succeed while paused
		}
		if st := &g.standing; !st.FailingAt.IsZero() {
			st.FailingAt, g.dirty = now, true
		}
		g.ramp.Begin(now)
	}
	moved := before.URL != cfg.URL || before.Channel.Address() != cfg.Channel.Address() || !before.Target.Same(cfg.Target)
	ignores := cfg.Policy.RetryAfter == policy.RetryAfterIgnore && before.Policy.RetryAfter != policy.RetryAfterIgnore
	if (moved || ignores) && g.standing.HoldUntil.After(now) {
		g.standing.HoldUntil, g.dirty = time.Time{}, true // the earlier receiver asked for it, or it counts no more
	}
	switch most := now.Add(g.rules.ProbeMax.Std()); {
	case !g.tripped():
	case moved:
		g.standing.ProbeAt = now // the new URL may be the repair
	case g.standing.ProbeAt.After(most):
		g.standing.ProbeAt = most // the wait followed the earlier rules
	}
}

// open says whether deliveries of this endpoint are attempted. It is false while pending deliveries
// are being ended, even if the endpoint has been enabled since.
func (ep *endpoint) open() bool {
	return ep.config.Queue == nil && ep.active()
}

// handsOut says whether consumers lease the deliveries of this endpoint. The core attempts nothing
// of a queue. It ends a queue's pending deliveries and carries out operators' orders.
func (ep *endpoint) handsOut() bool { return ep.config.Queue != nil && ep.active() }

func (ep *endpoint) active() bool {
	return ep.config.Status == grapnel.EndpointEnabled && ep.config.DeletedAt.IsZero() && ep.unended == nil && !ep.leaving
}

// opened has the store read again: the window did not follow it while the endpoint was closed or
// another node's. floor rejects hints about deliveries that were ended meanwhile.
func (ep *endpoint) opened(now time.Time) {
	ep.window.chill(now)
	ep.floor = ep.newest
}

// ends says how the pending deliveries of a closed endpoint are finished; false: they are held.
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

// end finishes the pending deliveries of an endpoint that is deleted, or disabled under a policy
// that drops. It starts only when nothing of the endpoint is in flight or being recorded, so that
// no attempt's outcome is lost. Deliveries accepted after the endpoint was closed have a higher row
// id and stay pending: the endpoint may be open again by then.
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

// set gives an endpoint its alarm; the zero time removes it.
func (a *alarms) set(ep *endpoint, at time.Time) {
	if at.IsZero() {
		a.line.leave(&ep.alarm)
	} else if ep.alarm.pos == 0 || !at.Equal(ep.alarm.at) {
		ep.alarm.ep, ep.alarm.at = ep, at
		a.line.put(&ep.alarm)
	}
}

// confirm asks for the core's own disabling to be stored, again after a failure.
func (c *Core) confirm(now time.Time, ep *endpoint) {
	if ep.confirmed || ep.confirming || ep.leaving || ep.endAt.After(now) || c.draining || ep.recording > 0 {
		return // the outcomes that led here, with their notifications, are recorded first
	}
	ep.confirming = true
	c.emit(Disable{Endpoint: ep.config.ID, Reason: ep.config.DisabledReason, ByAnswer: ep.config.DisabledByAnswer})
}

// standing returns the endpoint's standing if it has to be recorded, and marks it as recorded.
func (ep *endpoint) standing() *store.Standing {
	if !ep.gate.dirty {
		return nil
	}
	ep.gate.dirty = false
	ep.gate.number++
	return &store.Standing{Endpoint: ep.config.ID, Number: ep.gate.number, Standing: ep.gate.standing}
}

func (c *Core) emit(e Effect) { c.out = append(c.out, e) }

// earliest is the earlier of two times; a zero time counts as absent.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// leave undoes join.
func (q *quotas) leave(ep *endpoint) {
	if ep.tenant.endpoints--; ep.tenant.endpoints == 0 {
		delete(q.tenants, ep.config.Tenant)
	}
}

func (ep *endpoint) slow(now time.Time) bool {
	return ep.share.average > ep.bounds.Slow || ep.gate.running > 0 && now.Sub(ep.heard) > ep.bounds.Slow
}

// chill notes that a head with this due time is only in the store.
func (w *window) chill(due time.Time) { w.cold = earliest(w.cold, due) }
