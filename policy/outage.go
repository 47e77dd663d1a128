package policy

import "time"

// Outage is a fault of the endpoint and its time. Outside that time every attempt succeeds at once.
type Outage struct {
	Kind     OutageKind `json:"kind"`
	After    Duration   `json:"after"` // from the first event
	Duration Duration   `json:"duration"`
	// OutageFlaky: the share of attempts that get a 500
	ErrorRate float64 `json:"error_rate,omitempty"`
	// OutageStatus: the status of every answer
	Status int `json:"status,omitempty"`
	// OutageSlow: duration of every answer; beyond the timeout the attempt fails
	Latency Duration `json:"latency,omitempty"`
}

// OutageKind is a kind of outage.
type OutageKind string

// The kinds.
const (
	OutageDown  OutageKind = "down"  // connections are refused
	OutageFlaky OutageKind = "flaky" // some attempts fail
	OutageSlow  OutageKind = "slow"  // answers take long
	// every answer has one status
	OutageStatus OutageKind = "status"
)

// on says whether the outage lasts at this time.
func (o *Outage) on(at time.Duration) bool {
	return at >= o.After.Std() && at < o.end()
}

func (o *Outage) end() time.Duration { return o.After.Std() + o.Duration.Std() }

// meet returns the outcome and the duration of an attempt. luck is in [0, 1).
func (o *Outage) meet(at time.Duration, timeout Duration, luck float64) (Outcome, time.Duration) {
	fine := Outcome{Status: 200, Class: ClassNone}
	if !o.on(at) {
		return fine, 0
	}
	switch o.Kind {
	case OutageFlaky:
		if luck < o.ErrorRate {
			return Outcome{Status: 500, Class: ClassStatus5xx}, 0
		}
		return fine, 0
	case OutageStatus:
		return Outcome{Status: o.Status, Class: ClassOf(o.Status)}, 0
	case OutageSlow:
		if o.Latency > timeout {
			return Outcome{Class: ClassTimeout}, timeout.Std()
		}
		return fine, o.Latency.Std()
	default:
		return Outcome{Class: ClassConnect}, 0
	}
}
