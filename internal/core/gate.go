package core

import (
	"net/url"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
)

// gate says whether and how often an endpoint may be attempted right now: what its configuration allows, what it asked for, and what
// its answers have taught. The rules themselves are in package policy, where the simulator uses them too.
type gate struct {
	limit   int // attempts at once that the configuration allows
	running int
	host    destination

	// The rate limit is a token bucket, kept as a time: every attempt pays for one interval, and paid may run ahead of now by
	// slack, which is what a burst is.
	interval time.Duration // between attempts at the allowed rate; 0: no limit
	slack    time.Duration // one interval less than the burst takes at the allowed rate
	paid     time.Time

	rules    policy.Breaker
	circuit  policy.Circuit
	ramp     policy.Ramp
	trust    policy.Trust
	standing policy.Standing
	number   int64     // of the standing that was recorded last
	dirty    bool      // the standing has changed since
	probing  bool      // a probe is in flight
	failing  time.Time // the first failure since the last success, as far as this process knows; zero: none
	failures int       // in a row, since then
	accepted bool      // an attempt has succeeded since this process began
	shifts   int       // how often the breaker was opened or closed
	returns  int       // how often the endpoint has come back

	heldSince time.Time     // when the endpoint asked to be spared
	took      time.Duration // a delivery that went well, lately
}

// configure takes an endpoint's limits over. A rate limit starts with one attempt to spend and not with a whole burst: the
// endpoint may have had that just before this process began.
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

// destinationOf spells a host in one way: lower case, without the last dot, with its port.
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

// tripped says whether the breaker is open: nothing is sent but probes.
func (g *gate) tripped() bool { return g.standing.Open() }

// barred says whether what waits does so because of the endpoint, and not because it is not its turn.
func (g *gate) barred(now time.Time) bool { return g.tripped() || g.standing.HoldUntil.After(now) }

// admits says whether one more attempt may start. What a person asks for does not wait until the endpoint is well or wants to be
// asked, but it keeps to the limits.
func (g *gate) admits(now time.Time, urgent bool) bool {
	switch {
	case g.running >= g.limit || g.affordable(now).After(now):
		return false
	case urgent:
		return true
	case g.standing.HoldUntil.After(now):
		return false
	case g.tripped():
		return !g.probing && !g.standing.ProbeAt.After(now) // whatever is still in flight from before
	}
	return g.running < g.ramp.Limit() && !g.ramp.Next(now).After(now)
}

// affordable is when the rate limit allows the next attempt.
func (g *gate) affordable(now time.Time) time.Time {
	if most := now.Add(g.slack + g.interval); g.paid.After(most) {
		g.paid = most // the clock has been set back
	}
	return g.paid.Add(-g.slack)
}

// opensAt tells soonest when time alone may let the next attempt pass.
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

// end counts an attempt that is over.
func (g *gate) end(probe bool) {
	g.running--
	if probe {
		g.probing = false
	}
}

// observe learns from the outcome of an attempt that began when there had been so many shifts. changed says that the standing is another
// one now.
func (g *gate) observe(s policy.Sighting, shifts int) (shift policy.Shift, changed bool) {
	g.ramp.Observe(s)
	switch {
	case s.Decision == policy.Deliver:
		g.took += (s.Ended.Sub(s.Started) - g.took) / 8
		g.failing, g.failures, g.accepted = time.Time{}, 0, true
	case s.Decision != policy.Throttle && s.Outcome.Class != policy.ClassInternal:
		if g.failures++; g.failing.IsZero() {
			g.failing = s.Ended
		}
	}
	if s.Decision == policy.Throttle && s.Hold.After(g.standing.HoldUntil) {
		if !g.standing.HoldUntil.After(s.Ended) {
			g.heldSince = s.Ended
		}
		g.standing.HoldUntil, changed = s.Hold, true
	}
	if shifts < g.shifts {
		return policy.NoShift, changed // counted, because by the clock, which may have been set back, it could seem to have begun since
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

// restart forgets what the endpoint's answers have taught, because a person says that it is well.
func (g *gate) restart(now time.Time) {
	g.resume(now)
	g.standing.Pardon()
	g.failing, g.failures = time.Time{}, 0
	g.standing.HoldUntil = time.Time{}
}

// resume closes the breaker though no answer has shown that the endpoint is back. What waited is let go bit by bit.
func (g *gate) resume(now time.Time) {
	g.circuit.Close(&g.standing, now)
	g.shifts++
	g.returns++
	g.trust.Return()
	g.ramp.Begin(now)
	g.dirty = true
}
