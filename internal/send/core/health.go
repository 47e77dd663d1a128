package core

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
)

// Health is an endpoint's state, the zero Health if this core does not own it.
func (c *Core) Health(now time.Time, id string) grapnel.Health {
	ep := c.endpoints[id]
	if ep == nil {
		return grapnel.Health{}
	}
	g := &ep.gate
	st := &g.standing
	h := grapnel.Health{
		State: grapnel.HealthHealthy, Since: ep.healthySince(),
		InFlight: g.running, Waiting: len(ep.window.waiting) + len(ep.window.reserve.list), PerSecond: g.perSecond(),
		Strikes: st.Strikes, FailingSince: st.FailingSince, FailedAt: g.failed, Disabling: st.Way(ep.config.Policy.Disable, now),
		FirstAttempts: g.firsts.Made, FirstFailed: g.firsts.Failed,
	}
	switch {
	case ep.config.Status == grapnel.EndpointPaused:
		h.State, h.Since = grapnel.HealthPaused, latest(ep.since, ep.config.DisabledAt)
		h.Reason = cmp.Or(ep.config.DisabledReason, "paused by an operator") + "; deliveries are held"
	case ep.config.Status == grapnel.EndpointDisabled:
		h.State, h.Reason, h.Since = grapnel.HealthDisabled, ep.config.DisabledReason, ep.config.DisabledAt
	case g.tripped() && ep.open():
		h.State, h.Since, h.NextProbeAt = grapnel.HealthOpen, st.OpenedAt, latest(st.ProbeAt, st.HoldUntil)
		if h.FailingSince = g.failingSince(); h.FailingSince.IsZero() {
			h.FailingSince = st.OpenedAt
		}
		h.Reason = fmt.Sprintf("the endpoint has failed since %s (%s); only probes are sent", clock(st.OpenedAt), st.Cause)
	case st.HoldUntil.After(now):
		h.State, h.Reason, h.Since = grapnel.HealthThrottled, "the endpoint asked for a pause until "+clock(st.HoldUntil), st.HeldAt
		h.NextAttemptAt = st.HoldUntil
	case g.ramp.Recovering():
		h.State, h.Since = grapnel.HealthRecovering, latest(st.RecoveredAt, ep.since)
		h.Reason = "the endpoint has recovered; its held deliveries are sent at a growing rate"
	case !st.FailingAt.IsZero():
		h.State, h.Since, h.FailingSince = grapnel.HealthFailing, st.FailingAt, g.failingSince()
	case !st.DegradedAt.IsZero() && ep.config.Queue == nil:
		h.State, h.Since, h.Reason = grapnel.HealthDegraded, latest(h.Since, st.DegradedAt), g.degraded(c.bounds.Degraded.Percent)
	}
	if !ep.open() {
		return h
	}
	first := ep.window.next(now)
	switch {
	case first != nil:
		h.NextAttemptAt = latest(latest(first.due, h.NextAttemptAt), h.NextProbeAt)
	case !ep.window.cold.IsZero():
		h.NextAttemptAt = latest(latest(ep.window.cold, h.NextAttemptAt), h.NextProbeAt)
	}
	return h
}

// healthySince is the last end of another state, of a healthy endpoint.
func (ep *endpoint) healthySince() (since time.Time) {
	st := &ep.gate.standing
	for _, at := range []time.Time{ep.config.CreatedAt, ep.since, st.RecoveredAt, st.WorksAt, st.HoldUntil, st.SoundAt} {
		since = latest(since, at)
	}
	return since
}

// perSecond estimates how many deliveries per second the endpoint takes when healthy, from its last
// successes and its limits. 0: it has taken none yet.
func (g *gate) perSecond() float64 {
	if g.took <= 0 {
		return 0
	}
	most := float64(g.limit) / max(g.took, time.Millisecond).Seconds()
	if g.interval > 0 {
		most = min(most, 1/g.interval.Seconds())
	}
	return most
}

// Open lists the endpoints whose circuit is open, sorted by id.
func (c *Core) Open() []string {
	var ids []string
	for id, ep := range c.endpoints {
		if ep.gate.tripped() && ep.open() { // in this order: open reads the settings, which are far in memory
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// States counts endpoints by health state.
func (c *Core) States(now time.Time) map[grapnel.HealthState]int {
	states := map[grapnel.HealthState]int{}
	for id := range c.endpoints {
		states[c.Health(now, id).State]++
	}
	return states
}

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }
