package grapnel

import (
	"strconv"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel/policy"
)

// Delivery is one event for one endpoint.
type Delivery struct {
	Seq           int64
	EventSeq      int64
	EventID       string
	EndpointID    string
	Tenant        string
	Type          string
	Key           string
	Position      int64 // in its lane: 1, 2, …; 0 when it has no lane
	Status        Status
	ReasonCode    ReasonCode
	Reason        string
	Waiting       Waiting // while it is not final
	AttemptsMade  int
	CreatedAt     time.Time // when its event was accepted
	FinishedAt    time.Time
	ReplayOf      int64 // the delivery that this one repeats; 0: none
	Attempts      []Attempt
	NextAttemptAt time.Time // zero: none is planned
	Last          Last      // its last attempt, in lists too
	Mark          Mark      // on a finished delivery
}

// Last is a delivery's last attempt as lists show it; zero: none.
type Last struct {
	StatusCode int
	Class      policy.Class
	Duration   time.Duration
}

// Mark holds notes on a finished delivery. They do not change its outcome.
type Mark struct {
	Note          string
	DiscardedAt   time.Time // an operator has dismissed it; it is no dead letter any more
	DiscardReason string
	ReplayedAt    time.Time // when it was last delivered again
	ReplayedBy    string    // the replay's id; empty: a manual retry
	ReplayedAs    int64     // the new delivery, or the later one by which its event was delivered
	ReplayResult  Status    // outcome of the redelivery; Pending until it is finished
}

// Waiting has the fields of a delivery that is not final: its position in its lane and its
// schedule.
type Waiting struct {
	Head    bool      // first in its lane; only heads are attempted
	Due     time.Time // of the next attempt, when Head
	Blocked bool      // exhausted under a policy that blocks: an operator has to act
	Anchor  time.Time // start of the first attempt; before that, when it became a head
}

// The statuses. The store writes Pending for both Pending and Held; the lane and the endpoint
// distinguish them.
const (
	Pending   Status = "pending"
	Held      Status = "held"
	Delivered Status = "delivered"
	Failed    Status = "failed"
	Dropped   Status = "dropped"
	Discarded Status = "discarded"
	Skipped   Status = "skipped"
)

// Final says whether a delivery in this status is finished.
func (s Status) Final() bool { return s != Pending && s != Held }

// Statuses lists all statuses.
func Statuses() []Status {
	return []Status{Pending, Held, Delivered, Failed, Dropped, Discarded, Skipped}
}

// Test says whether the delivery is of a test event.
func (d *Delivery) Test() bool { return d.ReasonCode == ReasonTest }

// ReasonCode says why a delivery failed, or that it was a test, or is for a later time.
type ReasonCode string

// The reason codes. ReasonNone belongs to deliveries that did not fail.
const (
	ReasonNone         ReasonCode = ""
	ReasonExhausted    ReasonCode = "exhausted"
	ReasonPermanent    ReasonCode = "permanent"
	ReasonRejected     ReasonCode = "rejected"
	ReasonExpired      ReasonCode = "expired"
	ReasonEndpointGone ReasonCode = "endpoint_gone"
	ReasonDamaged      ReasonCode = "damaged" // the store refused the record of its last outcome
	ReasonErased       ReasonCode = "erased"  // its event was erased before it could be delivered
	ReasonTest         ReasonCode = "test"    // of a test, whatever its status
	ReasonLater        ReasonCode = "later"   // of a pending delivery that was not attempted, whose publisher has asked for a later time
)

// The triggers.
const (
	TriggerSchedule Trigger = "schedule"
	TriggerManual   Trigger = "manual"
	TriggerReplay   Trigger = "replay"
	TriggerProbe    Trigger = "probe"
	TriggerTest     Trigger = "test"
)

// Counts says whether attempts of this trigger count: in statistics, promises, health, issues and
// alerts. Tests do not.
func (t Trigger) Counts() bool { return t != TriggerTest }

// Attempt is one try of a delivery, stored with its plan and its outcome. It never changes
// afterwards.
type Attempt struct {
	Number       int
	Trigger      Trigger
	ScheduledFor time.Time
	StartedAt    time.Time
	Duration     time.Duration
	Phases       Phases
	Peer         Peer
	StatusCode   int // 0: no response
	Class        policy.Class
	Error        string
	// by name; without those that Sent derives. Nil: nothing was sent
	RequestHeaders  []Header
	ResponseHeaders map[string]string
	ResponseBody    []byte
	Decision        policy.Decision
	NextAttemptAt   time.Time // zero: no further attempt
	PolicyRevision  int64     // of the endpoint whose policy applied
	Erased          bool      // error, headers, body and peer were erased, with the data key that had sealed them
}

// Last summarizes the attempt for lists.
func (a *Attempt) Last() Last { return Last{a.StatusCode, a.Class, a.Duration} }

// Derived are the headers that an attempt does not store: they follow from the delivery and the
// other fields.
func Derived() []string {
	return []string{"Webhook-Id", "Webhook-Timestamp", "Grapnel-Attempt", "Grapnel-Delivery", "Grapnel-Trigger", "Grapnel-Sequence"}
}

// Sent returns the headers of an attempt's request, id being the delivery's; nil: nothing was sent.
func (d *Delivery) Sent(a *Attempt, id string) map[string]string {
	if a.RequestHeaders == nil {
		return nil
	}
	if strings.HasPrefix(d.EndpointID, ChannelPrefix+"_") { // it gets only what its service knows, all of it recorded
		sent := map[string]string{}
		for _, h := range a.RequestHeaders {
			sent[h.Name] = h.Value
		}
		return sent
	}
	sent := map[string]string{"Content-Type": JSONType}
	for i, value := range []string{d.EventID, strconv.FormatInt(a.StartedAt.Unix(), 10), strconv.Itoa(a.Number), id, string(a.Trigger),
		strconv.FormatInt(d.Position, 10)} {
		sent[Derived()[i]] = value
	}
	if d.Position == 0 {
		delete(sent, "Grapnel-Sequence")
	}
	for _, h := range a.RequestHeaders {
		if h.Name == "Webhook-Id" { // a batch's, which has no delivery and no position
			delete(sent, "Grapnel-Delivery")
			delete(sent, "Grapnel-Sequence")
		}
		sent[h.Name] = h.Value
	}
	return sent
}

// Phases are the parts of a request's time. Zero: the phase did not happen (a kept-alive connection
// has no dns or connect).
type Phases struct {
	DNS       time.Duration
	Connect   time.Duration
	TLS       time.Duration
	FirstByte time.Duration // from the request written to the first byte of the response
	Body      time.Duration
	Reused    bool
}

// Peer is the receiver's end of the connection; its fields are zero if no connection was made, or
// none with TLS.
type Peer struct {
	Address          string    // IP address, without a port
	Certificate      string    // the first 8 bytes of its SHA-256, in hexadecimal
	CertificateUntil time.Time // end of its validity
}

// Lane is the sequence of one key's deliveries at one endpoint, as of now.
type Lane struct {
	Endpoint string
	Key      string
	Head     Delivery // without its attempts
	Waiting  int      // deliveries behind the head
}
