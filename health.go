package grapnel

import "time"

// Health is how an endpoint is doing right now.
type Health struct {
	State         string    // "healthy", "paused", "disabled" or "throttled"
	Reason        string    // one sentence; empty when there is nothing to say
	Since         time.Time // zero: unknown
	InFlight      int       // requests on their way
	Waiting       int       // heads of lanes in memory: due, or scheduled soon
	NextAttemptAt time.Time // zero: none is planned
}
