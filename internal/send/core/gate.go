package core

import (
	"net/url"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
)

// configure applies an endpoint's limits. A new rate limit starts with one token and not with a
// whole burst: the endpoint may have taken a burst just before this process began.
func (g *gate) configure(now time.Time, cfg *grapnel.Endpoint) {
	g.limit = max(1, cfg.MaxConcurrency)
	g.ramp.Allow(g.limit)
	g.rules = cfg.Policy.BreakerRules()
	g.host = destinationOf(cfg)
	interval, burst := cfg.RateLimit.Pace()
	slack := burst - interval
	if interval != g.interval || slack != g.slack {
		g.interval, g.slack, g.paid = interval, slack, now.Add(slack)
	}
}

// destinationOf normalizes a host: lower case, without the last dot, with its port.
func destinationOf(cfg *grapnel.Endpoint) destination {
	at, err := url.Parse(cfg.URL)
	if err != nil {
		return destination{tenant: cfg.Tenant}
	}
	port := at.Port()
	switch {
	case port != "":
	case at.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	return destination{cfg.Tenant, strings.TrimSuffix(strings.ToLower(at.Hostname()), ".") + ":" + port}
}

// absent follows a time in which this process made no attempt: it did not run, or stood still.
func (g *gate) absent(now time.Time, cfg *grapnel.Endpoint) {
	g.dirty = g.standing.Absent(cfg.Policy.Disable, now) || g.dirty
}

// tripped says whether the circuit is open: only probes are sent.
func (g *gate) tripped() bool { return g.standing.Open() }

// barred says whether the endpoint itself holds its deliveries: its circuit is open, or it asked
// for a pause.
func (g *gate) barred(now time.Time) bool { return g.tripped() || g.standing.HoldUntil.After(now) }

// admits says whether one more attempt may start. An urgent attempt ignores the circuit and the
// pause, but keeps to the limits.
func (g *gate) admits(now time.Time, urgent bool) bool {
	switch {
	case g.running >= g.limit || g.affordable(now).After(now):
		return false
	case urgent:
		return true
	case g.standing.HoldUntil.After(now):
		return false
	case g.tripped():
		return !g.probing && !g.standing.ProbeAt.After(now) // attempts of before the circuit opened may still be in flight
	}
	return g.running < g.ramp.Limit() && !g.ramp.Next(now).After(now)
}

// affordable is the earliest time at which the rate limit allows the next attempt.
func (g *gate) affordable(now time.Time) time.Time {
	if most := now.Add(g.slack + g.interval); g.paid.After(most) {
		g.paid = most // the clock has been set back
	}
	return g.paid.Add(-g.slack)
}

// opensAt passes to soonest each time at which the next attempt may start without another input.
func (g *gate) opensAt(now time.Time, soonest func(time.Time)) {
	soonest(g.affordable(now))
	soonest(g.standing.HoldUntil)
	if g.tripped() {
		soonest(g.standing.ProbeAt)
	} else {
		soonest(g.ramp.Next(now))
	}
}

// begin counts an attempt that starts.
func (g *gate) begin(now time.Time, probe bool) {
	g.running++
	g.probing = g.probing || probe
	if g.interval > 0 {
		g.paid = latest(g.paid, now).Add(g.interval)
	}
	if !g.tripped() {
		g.ramp.Start(now)
	}
}

// end counts a finished attempt.
func (g *gate) end(probe bool) {
	g.running--
	if probe {
		g.probing = false
	}
}

// observe learns from an attempt's outcome. shifts is the gate's count of shifts when the attempt
// began. changed says that the standing has changed.
func (g *gate) observe(s policy.Sighting, shifts int) (shift policy.Shift, changed bool) {
	st, ramped := &g.standing, g.ramp.Recovering()
	if g.ramp.Observe(s); ramped && !g.ramp.Recovering() {
		st.WorksAt, changed = s.Ended, true
	}
	switch {
	case s.Decision == policy.Deliver:
		if !st.FailingAt.IsZero() {
			st.FailingAt, st.WorksAt, changed = time.Time{}, s.Ended, true
		}
		g.took += (s.Took - g.took) / 8
		g.failing, g.failed, g.failures, g.refusals, g.accepted = time.Time{}, time.Time{}, 0, 0, true
	case s.Decision != policy.Throttle && !s.Outcome.Elsewhere() && s.Outcome.Wish != policy.WishStop:
		if g.failures++; g.failing.IsZero() {
			g.failing = s.Ended
		}
		g.failed = s.Ended
		if g.refusals++; s.Outcome.EndpointWide() {
			g.refusals = 0
		}
		if st.FailingAt.IsZero() && (!g.accepted || g.failures >= failuresInARow) {
			st.FailingAt, changed = g.failingSince(), true
		}
	}
	if s.Hold.After(st.HoldUntil) {
		if !st.HoldUntil.After(s.Ended) {
			st.HeldAt = s.Ended
		}
		st.HoldUntil, changed = s.Hold, true
	}
	if shifts < g.shifts {
		return policy.NoShift, changed // compared by count: a clock that was set back would make old attempts look new
	}
	g.trust.Observe(s.Outcome, s.Ended)
	s.Started = s.Ended
	shift = g.circuit.Observe(&g.standing, g.rules, s)
	if shift == policy.Opened || shift == policy.Closed {
		g.shifts++
	}
	if shift == policy.Closed {
		g.returns++
		g.trust.Return()
		g.ramp.Begin(s.Ended)
	}
	return shift, changed || shift != policy.NoShift
}

// restart clears the endpoint's failures, because an operator has enabled it.
func (g *gate) restart(now time.Time) {
	g.resume(now)
	g.standing.Pardon()
	g.failing, g.failed, g.failures, g.refusals = time.Time{}, time.Time{}, 0, 0
	g.standing.HoldUntil, g.standing.FailingAt = time.Time{}, time.Time{}
}

// resume closes the circuit without a successful probe. The ramp lets the pending deliveries go
// step by step.
func (g *gate) resume(now time.Time) {
	g.circuit.Close(&g.standing, now)
	g.shifts++
	g.returns++
	g.trust.Return()
	g.ramp.Begin(now)
	g.dirty = true
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// failuresInARow is how many consecutive failures make an endpoint failing that has had successes
// since this process began; of others, the first does. One failing key among healthy ones does not
// reach it.
const failuresInARow = 3

// failingSince is the first failure since the last success; zero: the last attempt succeeded, or
// none was made. The standing stores it from before this process began, if the policy asks for it
// or the endpoint was failing.
func (g *gate) failingSince() time.Time {
	for _, since := range []time.Time{g.standing.FailingSince, g.standing.FailingAt} {
		if !since.IsZero() {
			return since
		}
	}
	return g.failing
}
