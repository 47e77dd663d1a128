package grapnel

import "time"

// Health is the current state of an endpoint's deliveries.
type Health struct {
	State         HealthState // empty: unknown
	Reason        string      // one sentence; may be empty
	Since         time.Time   // start of this state; zero: unknown
	InFlight      int         // attempts in flight
	Waiting       int         // heads of lanes in memory: due, or scheduled soon
	NextAttemptAt time.Time   // zero: none is planned
	NextProbeAt   time.Time   // while HealthOpen: not before this
	PerSecond     float64     // the rate it is expected to accept once it works; 0: unknown
	Strikes       int         // consecutive deliveries that count towards disabling
	FailingSince  time.Time   // no attempt has succeeded since; zero: the last one has
	FailedAt      time.Time   // of the last failed attempt since then; zero: none, or before this process began
	FirstAttempts int         // of the last hour, if one of them failed; else 0
	FirstFailed   int         // of them: those that failed
	Disabling     int         // percent of the way to being disabled; not every failure counts
}

// HealthState names the state of an endpoint.
type HealthState string

// The states.
const (
	HealthHealthy HealthState = "healthy"
	// attempts succeed, but too large a part of the first attempts in the last hour failed
	HealthDegraded HealthState = "degraded"
	// no attempt has succeeded since FailingSince; attempts continue as they become due
	HealthFailing HealthState = "failing"
	HealthOpen    HealthState = "open" // the circuit is open: only probes are sent
	// it works again, and held deliveries are released gradually
	HealthRecovering HealthState = "recovering"
	HealthThrottled  HealthState = "throttled" // it asked for a pause
	HealthPaused     HealthState = "paused"
	HealthDisabled   HealthState = "disabled"
)

// HealthStates lists all states.
func HealthStates() []HealthState {
	return []HealthState{HealthHealthy, HealthDegraded, HealthFailing, HealthOpen, HealthRecovering, HealthThrottled, HealthPaused, HealthDisabled}
}
