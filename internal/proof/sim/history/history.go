// Package history compares a history with the promises. It takes one whole history of a system
// (publishers' calls and their results, receivers' requests, operators' actions, injected faults,
// the system's final state) and returns every violation. The seeded simulation and the kill loop on
// the real binary use the same rules.
//
// It relies on these inputs:
//
//   - All times are durations since the start of the history on one clock, the harness's. No rule
//     trusts a clock of the system under test, except Final.Finished of deliveries that no receiver
//     ever saw.
//   - Receipts are complete: a receiver notes a request before it answers. A receipt ends when the
//     receiver answers or sees its peer disconnect, whichever is first.
//   - Finals are complete and were read when no delivery was changing any more.
//   - The system's own statements (delivery ids, positions, attempt numbers) are used to find
//     contradictions, never to excuse anything: a repetition under a new delivery id is caught by
//     counting deliveries.
//
// Two publishes are ordered only if one had returned before the other was called. Concurrent
// publishes may be ordered either way, but then the positions that the system gave must agree with
// the receipts. Events without a key, and endpoints without ordering, have no order rules. Checking
// takes O(R log R) in the number of receipts.
//
// It does not see requests that reached no receiver (a refused connection leaves no receipt), nor
// effects inside a receiver. It does not judge lateness; liveness is the harness's deadline plus
// the rule STUCK.
package history

import (
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
)

// History is the checker's whole input.
type History struct {
	Endpoints []Endpoint
	Publishes []Publish
	Receipts  []Receipt
	Actions   []Action
	Faults    []Fault
	Finals    []Final
	Samples   []Sample
	Terms     []Term
	Limits    Limits
}

// Term is the time at which an endpoint got an owner, if several nodes share a store. It ended
// every earlier epoch.
type Term struct {
	Endpoint string
	Epoch    int64
	Start    time.Duration
}

// Limits say how exact the harness's view is. The zero Limits suit a simulation in which everything
// is instantaneous.
type Limits struct {
	// Commit is how long after a receiver's answer the outcome may still not be durable: a fault in
	// that time may repeat it.
	Commit time.Duration
	// Transit is the longest that a request, or the end of a connection, takes between sender and
	// receiver.
	Transit time.Duration
}

// Endpoint is the configuration of one receiver. Zero values check nothing.
type Endpoint struct {
	ID          string
	Unordered   bool
	Timeout     time.Duration // the answer of a longer request may not have been received; 0: all were
	MaxAttempts int           // 0: no limit
	MaxAge      time.Duration // 0: no limit
	Permanent   []int         // statuses that end a delivery at once
	Discards    bool          // exhausted deliveries end as discarded
	Blocks      bool          // an exhausted delivery holds its lane
	// Delays are the configured waits: Delays[n] is the least time between attempts n+1 and n+2,
	// from the end of the former or, with SinceFirst, from the start of the first attempt. The last
	// one repeats. Empty: not checked.
	Delays     []time.Duration
	SinceFirst bool
	// Breaker says that attempts which failed because of the endpoint are repeated as soon as the
	// endpoint has answered again, or an operator has enabled it.
	Breaker bool
}

// Result is a caller's knowledge of a call.
type Result int

// The results. Unknown is a timeout, a lost connection or a 5xx: it may have happened.
const (
	OK Result = iota
	Failed
	Unknown
)

// Publish is one call that publishes an event. Several calls may carry the same ID, if the
// publisher repeated the call.
type Publish struct {
	ID     string
	Key    string
	Hash   string        // fingerprint of the body for the receiver
	Invoke time.Duration // just before the request was written
	Return time.Duration // just after the answer was read; meaningless for Unknown
	Result Result
	// NotBefore is the time that the publisher asked for: no delivery is attempted before, unless an
	// operator asks for the attempt, or for a replay.
	NotBefore time.Duration
	// Endpoints surely wanted the event when it was committed; each must have a delivery. Perhaps
	// lists those that were created, changed or removed meanwhile. Any other endpoint must never
	// see it.
	Endpoints []string
	Perhaps   []string
}

// Receipt is one request that a receiver saw.
type Receipt struct {
	Event    string
	Endpoint string
	Delivery string
	Position int64  // in its lane, as the request said; 0: none
	Hash     string // fingerprint of the event's data as received
	Body     string // fingerprint of the whole body: the same on every attempt; empty: not checked
	Start    time.Duration
	End      time.Duration // when the answer was written, or the peer was seen to have disconnected
	Status   int           // the answer; 0: none
	// AnswerLost says that the sender may not have received the answer: the connection was cut after
	// it or while it was written.
	AnswerLost   bool
	Events       int         // in the request, if there were several
	Wish         policy.Wish // of the answer, which the policy grants
	BadSignature bool
	Attempt      int // 1, 2, …; 0: unknown
	Trigger      grapnel.Trigger
	Node         string // the sending node; empty if there is only one
	Epoch        int64  // in which the attempt was decided; 0: unknown
	// Remembered says that the store did not have the delivery as the sender remembered it. It may
	// be set only by a run that sees both. A Rewind that the sender did not notice excuses it.
	Remembered bool
}

// automatic says whether the system sent the request without an operator's order.
func (r *Receipt) automatic() bool {
	return r.Trigger == "" || r.Trigger == grapnel.TriggerSchedule || r.Trigger == grapnel.TriggerProbe
}

// lined says whether the request had to wait for its turn in its lane. Only an attempt that an
// operator asked for need not.
func (r *Receipt) lined() bool {
	return r.Trigger != grapnel.TriggerManual && r.Trigger != grapnel.TriggerTest
}

func (r *Receipt) success() bool { return r.Status >= 200 && r.Status <= 299 }

// ends says whether no attempt may follow: the receiver took the event or asked for an end.
func (r *Receipt) ends() bool { return r.success() || r.Wish != policy.WishNone }

// Kind is the kind of an operator's action.
type Kind string

// The kinds of Action. Delete, Disable, Pause and Enable apply to an endpoint, Skip and Retry to a
// delivery. The system's own disabling is a Disable too.
const (
	Delete  Kind = "delete"
	Disable Kind = "disable"
	Pause   Kind = "pause"
	Enable  Kind = "enable"
	Skip    Kind = "skip"
	Retry   Kind = "retry"
)

// Action is one call of an operator.
type Action struct {
	Kind     Kind
	Endpoint string
	Delivery string // of Skip and Retry
	Invoke   time.Duration
	Return   time.Duration // meaningless for Unknown
	Result   Result
	Made     string // the delivery that a Retry of a final one created
}

// FaultKind is the kind of an injected fault.
type FaultKind string

// The kinds of Fault. CleanStop and ClockJump never excuse a repetition; only ClockJump excuses an
// early attempt; only Standstill excuses a request that comes after another node took the endpoint;
// only Rewind excuses a lost event.
const (
	Crash         FaultKind = "crash"          // the process died without warning
	CommitUnknown FaultKind = "commit unknown" // the store did not say whether it committed
	Takeover      FaultKind = "takeover"       // another node took the endpoint
	Standstill    FaultKind = "standstill"     // the node was frozen for longer than its leases may have lasted
	CleanStop     FaultKind = "clean stop"
	ClockJump     FaultKind = "clock jump"
	Rewind        FaultKind = "rewind" // the store went back: commits from Start to End are lost
)

// Fault is one injected fault, from its start to its end.
type Fault struct {
	Kind       FaultKind
	Node       string // empty: it concerns every node
	Start, End time.Duration
}

func (f *Fault) repeats() bool {
	return f.Kind == Crash || f.Kind == CommitUnknown || f.Kind == Takeover || f.Kind == Standstill
}

func (f *Fault) overlaps(from, to time.Duration) bool { return f.Start <= to && from <= f.End }

// Final is the system's final record of one delivery.
type Final struct {
	Delivery   string
	Event      string
	Endpoint   string
	Position   int64  // 0: none
	ReplayOf   string // the delivery that this one repeats; empty: the original
	Status     grapnel.Status
	ReasonCode grapnel.ReasonCode
	Attempts   int
	Finished   time.Duration // by the system's clock, for deliveries that no receiver saw; 0: unknown
	Purged     bool          // since
}

// Sample counts the deliveries of an endpoint in each status at one moment of the run.
type Sample struct {
	At       time.Duration
	Endpoint string
	Counts   map[grapnel.Status]int64
}
