package core

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel/internal/base/bounds"
)

// met says whether counts reach the limits, less slack percent of each.
func (d *Degraded) met(f Firsts, slack int) bool {
	part := 100 - slack
	return 100*f.Failed >= part*d.Failed && 100*f.Made >= part*d.Firsts && 100*100*f.Failed >= part*d.Percent*f.Made
}

// Degraded says whether counts reach the usual limits.
func (f Firsts) Degraded() bool {
	limits := bounds.Fill(Degraded{})
	return limits.met(f, 0)
}

// countFirsts judges the endpoints by their first attempts. It looks at endpoints where one failed,
// at those where one had failed at the last count, and at degraded ones.
func (c *Core) countFirsts(now time.Time, in Counted) {
	for id := range in.Failed {
		c.judged[id] = true
	}
	for _, id := range slices.Sorted(maps.Keys(c.judged)) {
		ep := c.endpoints[id]
		if ep == nil { // another node's, or deleted
			delete(c.judged, id)
			continue
		}
		ep.gate.judge(now, in.Failed[id], &c.bounds.Degraded)
		c.keep(now, ep)
		if _, failed := in.Failed[id]; !failed && ep.gate.standing.DegradedAt.IsZero() {
			delete(c.judged, id)
		}
	}
}

// judge begins or ends the degraded state. The standing stores it, so that a restart or another
// owner does not change since when.
func (g *gate) judge(now time.Time, f Firsts, limits *Degraded) {
	st := &g.standing
	g.firsts, g.counted = f, true
	switch degraded := !st.DegradedAt.IsZero(); {
	case !degraded && limits.met(f, 0):
		st.DegradedAt, g.dirty = now, true
	case degraded && !limits.met(f, limits.Slack):
		st.DegradedAt, st.SoundAt, g.dirty = time.Time{}, now, true
	}
}

// degraded says why the endpoint is degraded. Nothing was counted yet shortly after a restart.
func (g *gate) degraded(percent int) string {
	if !g.counted {
		return fmt.Sprintf("%d %% of the first attempts in the last hour failed, or more", percent)
	}
	return fmt.Sprintf("%d of %d first attempts failed in the last hour", g.firsts.Failed, g.firsts.Made)
}
