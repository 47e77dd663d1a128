package policy

import "time"

// Disable says when an endpoint is switched off, and what becomes of what waits for it.
type Disable struct {
	Consecutive int      `json:"consecutive"` // deliveries in a row whose first attempt failed with the class Of; 0: never for this reason
	Of          Class    `json:"of"`
	After       Duration `json:"after"` // without any success while attempts fail; 0: never for this reason
	Pending     Pending  `json:"pending"`
}

// Pending says what becomes of the deliveries that wait for an endpoint when it is disabled.
type Pending string

// The choices. A dropped delivery stays on record and can be replayed.
const (
	PendingHold Pending = "hold"
	PendingDrop Pending = "drop"
)

// Breaker says when an endpoint that fails is left alone for a while, and how it is probed.
type Breaker struct {
	Off      bool     `json:"-"`         // no breaker; the other fields mean nothing
	Failures int      `json:"failures"`  // in a row that open it
	Ratio    float64  `json:"ratio"`     // of failures within Window that opens it
	Window   Duration `json:"window"`    // over which Ratio is measured
	Probe    Duration `json:"probe"`     // the wait before the first probe; later ones are longer, see Breaker.wait
	ProbeMax Duration `json:"probe_max"` // no wait is longer, but for a little at random
}

// DefaultBreaker is the breaker of a policy that says nothing about it. Its probes begin early, because what waits for an endpoint
// that is back waits for the next probe.
func DefaultBreaker() Breaker {
	return Breaker{
		Failures: 5, Ratio: 0.5, Window: Duration(30 * time.Second),
		Probe: Duration(5 * time.Second), ProbeMax: Duration(5 * time.Minute),
	}
}

// BreakerRules is the breaker in force. Its Off says whether there is one.
func (p *Policy) BreakerRules() Breaker {
	if p.Breaker == nil {
		return DefaultBreaker()
	}
	return *p.Breaker
}

// RetryAfterRule says what a receiver's Retry-After does.
type RetryAfterRule string

// The rules.
const (
	RetryAfterExtend RetryAfterRule = "extend" // it may lengthen a wait, never shorten it
	RetryAfterIgnore RetryAfterRule = "ignore"
)

// Exhaustion says what becomes of a delivery whose attempts are used up.
type Exhaustion string

// The choices. A discarded delivery stays on record but is no dead letter.
const (
	DeadLetter Exhaustion = "dead_letter"
	Discard    Exhaustion = "discard"
)

// Then says what becomes of the lane behind an exhausted delivery.
type Then string

// The choices.
const (
	Advance Then = "advance" // the next event of the key is attempted
	Block   Then = "block"   // the lane waits for a person
)
