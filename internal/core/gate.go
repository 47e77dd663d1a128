package core

import (
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
)

// gate says whether and how often an endpoint may be attempted right now. It is the place for everything that an endpoint wants
// or its behaviour teaches: today its limits and the pauses it asks for; breaker, probe and ramp belong here too.
type gate struct {
	limit     int // attempts at once
	running   int
	holdUntil time.Time // the endpoint asked to be spared until then

	// The rate limit is a token bucket, kept as a time: every attempt pays for one interval, and paid may run ahead of now by
	// slack, which is what a burst is.
	interval time.Duration // between attempts at the allowed rate; 0: no limit
	slack    time.Duration // one interval less than the burst takes at the allowed rate
	paid     time.Time
}

// configure takes an endpoint's limits over. A rate limit starts with one attempt to spend and not with a whole burst: the
// endpoint may have had that just before this process began.
func (g *gate) configure(now time.Time, cfg *grapnel.Endpoint) {
	g.limit = max(1, cfg.MaxConcurrency)
	interval, slack := time.Duration(0), time.Duration(0)
	if r := cfg.RateLimit; r != nil && r.PerSecond > 0 {
		interval = time.Duration(float64(time.Second) / r.PerSecond)
		slack = time.Duration(max(r.Burst, 1)-1) * interval
	}
	if interval != g.interval || slack != g.slack {
		g.interval, g.slack, g.paid = interval, slack, now.Add(slack)
	}
}

// admits says whether one more attempt may start. What a person asks for does not wait until the endpoint wants to be asked,
// but it keeps to the limits.
func (g *gate) admits(now time.Time, urgent bool) bool {
	return g.running < g.limit && (urgent || !g.holdUntil.After(now)) && !g.affordable(now).After(now)
}

// affordable is when the rate limit allows the next attempt.
func (g *gate) affordable(now time.Time) time.Time {
	if most := now.Add(g.slack + g.interval); g.paid.After(most) {
		g.paid = most // the clock has been set back
	}
	return g.paid.Add(-g.slack)
}

// begin counts an attempt that starts.
func (g *gate) begin(now time.Time) {
	g.running++
	if g.interval > 0 {
		g.paid = latest(g.paid, now).Add(g.interval)
	}
}

// end counts an attempt that is over.
func (g *gate) end() { g.running-- }

// observe learns from what the policy made of an attempt.
func (g *gate) observe(s policy.Step) {
	if s.Decision == policy.Throttle && s.Hold.After(g.holdUntil) {
		g.holdUntil = s.Hold
	}
}
