package core

import (
	"time"

	"github.com/grapnelhq/grapnel"
)

// Health says how an endpoint is doing; the zero Health if the core does not know it.
func (c *Core) Health(now time.Time, id string) grapnel.Health {
	ep := c.endpoints[id]
	if ep == nil {
		return grapnel.Health{}
	}
	h := grapnel.Health{State: grapnel.HealthHealthy, InFlight: ep.gate.running, Waiting: len(ep.window.waiting)}
	switch {
	case ep.config.Status == grapnel.EndpointPaused:
		h.State, h.Reason = grapnel.HealthPaused, "a person has paused it; deliveries are held"
	case ep.config.Status == grapnel.EndpointDisabled:
		h.State, h.Reason, h.Since = grapnel.HealthDisabled, ep.config.DisabledReason, ep.config.DisabledAt
	case ep.gate.holdUntil.After(now):
		h.State, h.Reason = grapnel.HealthThrottled, "the endpoint asked to be spared until "+ep.gate.holdUntil.UTC().Format(time.RFC3339)
		h.NextAttemptAt = ep.gate.holdUntil
	}
	if first := ep.window.next(now); first != nil && ep.open() {
		h.NextAttemptAt = latest(first.due, h.NextAttemptAt)
	} else if ep.open() && h.NextAttemptAt.IsZero() {
		h.NextAttemptAt = ep.window.cold
	}
	return h
}
