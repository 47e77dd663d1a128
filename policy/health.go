package policy

import "time"

// Disable says when an endpoint is disabled, and whether its pending deliveries are held or
// dropped.
type Disable struct {
	// consecutive deliveries whose first attempt failed with the class Of; 0: never for this reason
	Consecutive int   `json:"consecutive"`
	Of          Class `json:"of"`
	// without any success while attempts fail; 0: never for this reason
	After   Duration `json:"after"`
	Pending Pending  `json:"pending"`
}

// Pending is the treatment of an endpoint's pending deliveries when it is disabled.
type Pending string

// The choices. A dropped delivery stays on record and can be replayed.
const (
	PendingHold Pending = "hold"
	PendingDrop Pending = "drop"
)

// Breaker says when the circuit of a failing endpoint opens, and how it is probed.
type Breaker struct {
	Off      bool     `json:"-"`        // no breaker; the other fields have no effect
	Failures int      `json:"failures"` // consecutive ones that open it
	Ratio    float64  `json:"ratio"`    // of failures within Window that opens it
	Window   Duration `json:"window"`   // over which Ratio is measured
	// pause before the first probe; later pauses are longer, see Breaker.wait
	Probe    Duration `json:"probe"`
	ProbeMax Duration `json:"probe_max"` // longest pause, without the random part
}

// DefaultBreaker is the breaker of a policy without one. Its probes begin early, because the held
// deliveries of a recovered endpoint wait for the next probe.
func DefaultBreaker() Breaker {
	return Breaker{
		Failures: 5, Ratio: 0.5, Window: Duration(30 * time.Second),
		Probe: Duration(5 * time.Second), ProbeMax: Duration(5 * time.Minute),
	}
}

// RetryAfterRule is the effect of a receiver's Retry-After.
type RetryAfterRule string

// The rules.
const (
	RetryAfterExtend RetryAfterRule = "extend" // it may lengthen a pause, never shorten it
	RetryAfterIgnore RetryAfterRule = "ignore"
)

// Exhaustion is the result of a delivery whose attempts are used up.
type Exhaustion string

// The choices. A discarded delivery stays on record but is no dead letter.
const (
	DeadLetter Exhaustion = "dead_letter"
	Discard    Exhaustion = "discard"
)

// Then is the effect of an exhausted delivery on its lane.
type Then string

// The choices.
const (
	Advance Then = "advance" // the next event of the key is attempted
	Block   Then = "block"   // the lane is blocked until an operator acts
)
