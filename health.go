package grapnel

import "time"

// Health is how an endpoint is doing right now.
type Health struct {
	State         HealthState // empty: unknown
	Reason        string      // one sentence; may be empty
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
	HealthHealthy HealthState = "healthy"
	// no attempt has succeeded since FailingSince; attempts are made as they come due
	HealthFailing HealthState = "failing"
	HealthOpen    HealthState = "open" // the breaker is open: only probes are sent
	// it works again, and held deliveries are released gradually
	HealthRecovering HealthState = "recovering"
	HealthThrottled  HealthState = "throttled" // it asked to be spared for a while
	HealthPaused     HealthState = "paused"
	HealthDisabled   HealthState = "disabled"
)

// HealthStates lists all states.
func HealthStates() []HealthState {
	return []HealthState{HealthHealthy, HealthFailing, HealthOpen, HealthRecovering, HealthThrottled, HealthPaused, HealthDisabled}
}
