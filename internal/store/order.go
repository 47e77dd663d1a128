package store

import (
	"time"

	"github.com/grapnelhq/grapnel"
)

// Order is an operator's order for one pending delivery; the delivery of a Probe represents its
// endpoint. The node that decides about the endpoint carries it out: the core takes it as its input
// Operated, and the answer has the same Token.
type Order struct {
	Token    int64
	Verb     Verb
	Endpoint string
	Delivery int64
	Event    int64     // its event's row id; with Created it identifies the delivery: see Identity
	Created  time.Time // when the delivery was created
	Reason   string
	Audit    *grapnel.AuditEntry // stored with the order's change
	Answer   *Answered           // likewise
}

// Verb is what an Order does with the delivery.
type Verb string

// The verbs.
const (
	RetryNow Verb = "retry"
	Skip     Verb = "skip"
	Discard  Verb = "discard"
	Probe    Verb = "probe"
	Erase    Verb = "erase" // its event is going to be erased
)

// Ends says whether the verb ends the delivery.
func (v Verb) Ends() bool { return v == Skip || v == Discard || v == Erase }
