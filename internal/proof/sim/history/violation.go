package history

import (
	"fmt"
	"time"
)

// Rule is the name of a violated rule.
type Rule string

// The rules.
const (
	Phantom      Rule = "PHANTOM"       // a receiver got a request for an event that was never published, was refused, or is not for it
	Corrupt      Rule = "CORRUPT"       // the bytes are not those that were published, or change between attempts
	Signature    Rule = "SIGNATURE"     // the signature does not verify
	Lost         Rule = "LOST"          // an accepted event has no delivery, or its delivery ended without a cause
	Stuck        Rule = "STUCK"         // a delivery is not final although nothing holds it
	FalseSuccess Rule = "FALSE_SUCCESS" // delivered, but no receiver answered 2xx
	EarlyDead    Rule = "EARLY_DEAD"    // given up before its policy allows it
	FIFO         Rule = "FIFO"          // started before an earlier delivery of its lane had finished
	Regress      Rule = "REGRESS"       // sent after a later delivery of its lane had been sent
	Dup          Rule = "DUP"           // repeated after a 2xx without a fault that explains it
	Overlap      Rule = "OVERLAP"       // two requests of one lane in flight
	AfterDelete  Rule = "AFTER_DELETE"  // sent after the operator's stop was acknowledged
	Schedule     Rule = "SCHEDULE"      // tried again earlier than configured
	Stale        Rule = "STALE"         // sent by a node after another one took the endpoint
	Conserve     Rule = "CONSERVE"      // the books do not balance: deliveries, positions or attempts
)

// Violation is one broken promise.
type Violation struct {
	Rule     Rule
	Event    string
	Endpoint string
	Delivery string
	At       time.Duration
	Detail   string
}

func (v Violation) String() string {
	return fmt.Sprintf("%s at %v: %s (event %s, endpoint %s, delivery %s)", v.Rule, v.At, v.Detail, v.Event, v.Endpoint, v.Delivery)
}
