package grapnel

import "time"

// Health is how an endpoint is doing right now.
type Health struct {
	State         HealthState // empty: unknown
	Reason        string      // one sentence; empty when there is nothing to say
	Since         time.Time   // when it came into this state; zero: unknown
	InFlight      int         // requests on their way
	Waiting       int         // heads of lanes in memory: due, or scheduled soon
	NextAttemptAt time.Time   // zero: none is planned
	NextProbeAt   time.Time   // while HealthOpen: not before this
	PerSecond     float64     // deliveries it is expected to take once it works; 0: unknown
	Strikes       int         // deliveries in a row that count towards disabling
	FailingSince  time.Time   // no attempt has succeeded since; zero: the last one has
}

// HealthState says in one word how an endpoint is doing.
type HealthState string

// The states.
const (
	HealthHealthy    HealthState = "healthy"
	HealthFailing    HealthState = "failing"    // no attempt has succeeded since FailingSince; attempts are made as they come due
	HealthOpen       HealthState = "open"       // the breaker is open: only probes are sent
	HealthRecovering HealthState = "recovering" // it is back, and what waited is let go bit by bit
	HealthThrottled  HealthState = "throttled"  // it asked to be spared for a while
	HealthPaused     HealthState = "paused"
	HealthDisabled   HealthState = "disabled"
)

// HealthStates lists all of them.
func HealthStates() []HealthState {
	return []HealthState{HealthHealthy, HealthFailing, HealthOpen, HealthRecovering, HealthThrottled, HealthPaused, HealthDisabled}
}
