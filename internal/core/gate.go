package core

import (
	"time"

	"github.com/grapnelhq/grapnel/policy"
)

// gate says whether and how often an endpoint may be attempted right now. It is the place for everything that an endpoint's
// behaviour teaches: today its concurrency limit and the pauses it asks for; breaker, probe and ramp belong here too.
type gate struct {
	limit     int // attempts at once
	running   int
	holdUntil time.Time // the endpoint asked to be spared until then
}

// admits says whether one more attempt may start. What a person asks for does not wait until the endpoint wants to be asked.
func (g *gate) admits(now time.Time, urgent bool) bool {
	return g.running < g.limit && (urgent || !g.holdUntil.After(now))
}

// observe learns from what the policy made of an attempt.
func (g *gate) observe(s policy.Step) {
	if s.Decision == policy.Throttle && s.Hold.After(g.holdUntil) {
		g.holdUntil = s.Hold
	}
}
