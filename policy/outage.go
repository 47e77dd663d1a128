package policy

import "time"

// Outage is what is wrong with the endpoint, and when. Outside of it every attempt is delivered at once.
type Outage struct {
	Kind      OutageKind `json:"kind"`
	After     Duration   `json:"after"` // from the first event
	Duration  Duration   `json:"duration"`
	ErrorRate float64    `json:"error_rate,omitempty"` // OutageFlaky: the part of the attempts that get a 500
	Latency   Duration   `json:"latency,omitempty"`    // OutageSlow: how long every answer takes; beyond the timeout there is none
}

// OutageKind is a kind of outage.
type OutageKind string

// The kinds.
const (
	OutageDown  OutageKind = "down"  // connections are refused
	OutageFlaky OutageKind = "flaky" // some attempts fail
	OutageSlow  OutageKind = "slow"  // answers take long
)

// on says whether it is that time.
func (o *Outage) on(at time.Duration) bool {
	return at >= o.After.Std() && at < o.end()
}

func (o *Outage) end() time.Duration { return o.After.Std() + o.Duration.Std() }

// meet says what an attempt comes to and how long it takes. luck is in [0, 1).
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
	case OutageSlow:
		if o.Latency > timeout {
			return Outcome{Class: ClassTimeout}, timeout.Std()
		}
		return fine, o.Latency.Std()
	default:
		return Outcome{Class: ClassConnect}, 0
	}
}
