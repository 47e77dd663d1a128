// Package store is the contract of the durable state: its records and its transactions. The
// implementations (memory, the model; sqlite, one machine; postgres, many) all pass the suite in
// storetest.
//
// Every implementation promises:
//
//   - Append commits events, all their deliveries and their positions in their lanes together, or
//     nothing. When it returns without error everything is durable.
//   - Positions in a lane are 1, 2, 3 … in commit order, without gaps. A purge that removes the
//     delivery with a lane's last position forgets the lane, if nothing waits in it: then the next
//     lane that begins at the endpoint, of that key or another, goes on above the highest forgotten
//     position. So the positions of a key never go back.
//   - Record applies each Change only to a delivery in the state that the change expects. So
//     repeating a Record whose answer was lost changes nothing: its operational events have their
//     ids already, and no audit entry is stored twice.
//   - Record applies no Change to a delivery that only has the same row id as the one that is meant
//     (Identity).
//   - A delivery that is final never changes again.
//   - A lane has at most one head: the pending delivery with the lowest position. Only Append,
//     Again, Record, End and the events of PutEndpoint (With.Operational) make heads, and all but
//     End report every head they make.
//   - A read that starts after a write has returned sees that write.
//   - Every method needs a Scope, an id or a shard that limits the data it may touch.
//   - Timestamps are always arguments; a store has no clock. They are stored in microseconds.
//
// It does not promise that a write whose call returned an error did not happen. Unless the error
// has one of the codes of package grapnel (which mean that nothing was written), the outcome is
// unknown and the caller repeats the call.
package store

import (
	"context"
	"errors"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
)

// ErrUnknown is in the chain of a write's error if the answer to the commit was lost: the write may
// have happened, and its caller repeats it.
var ErrUnknown = errors.New("store: the answer to the commit was lost")

// ErrWentBack is in the chain of every error of a store whose database has lost commits that this
// process saw, or was replaced: a standby was promoted, or a backup was restored. Such a store
// refuses every further call, because its users' memory may contradict it. Nothing was written.
var ErrWentBack = errors.New("store: the database is not the one that it was")

// Deliveries is the hot path: the calls of the engine for every event and every attempt.
type Deliveries interface {
	// Append commits a batch of events with their deliveries.
	Append(ctx context.Context, b Batch) (Accepted, error)
	// Record commits changes of deliveries, all in one transaction, and reports the state after
	// each.
	Record(ctx context.Context, changes []Change) ([]Changed, error)
	// Heads returns an endpoint's heads that have a due time, the earliest first (by Due, then
	// Delivery), at most limit of them.
	Heads(ctx context.Context, endpoint string, limit int) ([]Head, error)
	// Head returns one pending delivery as a Head, or nil if it is final or absent. The second
	// result is false if the delivery is pending but not the head of its lane; then Due is not set,
	// and Anchor is the event's Incoming.NotBefore.
	Head(ctx context.Context, delivery int64) (*Head, bool, error)
	// MakeDue makes heads due at h.At that have no lease, are due later because of their endpoint
	// (Change.EndpointWide), and were recorded so before h.Before: their schedules were made during
	// the endpoint's outage. At most limit, the earliest first; fewer than that means that none is
	// left.
	MakeDue(ctx context.Context, endpoint string, h MakingDue, limit int) (int, error)
	// Standings returns the recorded standing of every endpoint that has one, sorted by endpoint.
	Standings(ctx context.Context) ([]Standing, error)
	// Events returns events by their row ids, in the order asked for, and verifies the checksum of
	// each; an absent or corrupt event is nil.
	Events(ctx context.Context, seqs []int64) ([]*grapnel.Event, error)
	// End finishes at most limit pending deliveries of an endpoint with the given final status and
	// reason, heads and others alike, the oldest first, and returns how many. The caller guarantees
	// that none of them is being attempted.
	End(ctx context.Context, endpoint string, e Ending, limit int) (int, error)
	// Again commits a new delivery of the same event to the same endpoint, at the tail of its lane.
	// It fails with grapnel.CodeNotFound if the delivery is not in scope, or if the endpoint is
	// absent or marked as deleted: a delivery created there would stay pending for ever.
	Again(ctx context.Context, scope Scope, r Redelivery) (Redelivered, error)
}

// Batch is the input of Append.
type Batch struct {
	Config int64      // version of the configuration that Targets were matched against; if it has changed: ErrStale
	Events []Incoming // in the order of acceptance
	Once   *Once      // nil: the call carries no idempotency key
}

// Incoming is one event with the endpoints that want it.
type Incoming struct {
	Event   *grapnel.Event // Seq is ignored
	Targets []Target
	Known   *Known // nil: only the event's id makes it a duplicate
	// NotBefore is the earliest beginning of its deliveries' schedules; zero: at once. In a lane a
	// delivery waits for it as the head, so those behind it wait as well.
	NotBefore time.Time
	// Minted says that the server has just made the event's id. A store need not look for an event
	// with this id that was accepted on an earlier day.
	Minted bool
}

// Target is one delivery to create.
type Target struct {
	Endpoint string
	Ordered  bool            // the delivery joins the lane of its event's key, if it has one
	Trigger  grapnel.Trigger // of its first attempt
	Delay    time.Duration   // of its first attempt, if it is a head at once: its Due is AcceptedAt, or NotBefore if that is later, plus Delay
	Drop     string          // not empty: the delivery is recorded as dropped at once, for this reason, without a position

	Uncounted bool // the drop is left out of the totals
}

// Accepted is the result of Append.
type Accepted struct {
	Events []Placed // parallel to Batch.Events
	Heads  []Head   // deliveries that became heads, by row id
	Answer *Answer  // not nil: the idempotency key was used before; nothing was written, and this is the answer of that call
}

// Placed is the result for one event.
type Placed struct {
	Seq        int64
	ID         string    // of the stored event; for a Known duplicate, also if that event has been purged
	AcceptedAt time.Time // of the stored event, which for a duplicate is the first one
	Deliveries int       // created by its acceptance; redeliveries are not counted
	Duplicate  bool      // it was Known, or the tenant has the id with the same type, key and data: nothing was written
	Conflict   bool      // the tenant has the id with other content: nothing was written, and no other field describes the stored event
	Differs    bool      // with Duplicate: the first request had another body
}

// Head is the first delivery of its lane, with the fields that scheduling needs.
type Head struct {
	Delivery  int64
	Event     int64
	Endpoint  string
	Lane      string // its key; empty: no lane
	Position  int64
	Due       time.Time // zero when Blocked
	Blocked   bool
	Attempts  int
	Anchor    time.Time
	Trigger   grapnel.Trigger // of the next attempt
	CreatedAt time.Time
}

// In place of a number of attempts in Change.Expect: the change applies whatever that number is.
const (
	AnyAttempts = -1
	OfHead      = -3 // but only to a delivery that is the head of its lane, or has none
)

// Change is a delivery's transition to another state.
type Change struct {
	Delivery int64
	Identity Identity         // of the delivery; the change applies to no other one that has its row id now
	Tenant   string           // of the endpoint: its data key seals Attempt and Reason
	Expect   int              // number of attempts before: it applies only to a pending delivery with as many; or AnyAttempts, OfHead
	Attempt  *grapnel.Attempt // nil if no attempt led here but an operator or the clock
	At       time.Time

	Status     grapnel.Status // grapnel.Pending, or a final one
	ReasonCode grapnel.ReasonCode
	Reason     string

	// For grapnel.Pending. If the delivery is not the head of its lane it stays behind the head:
	// only its Trigger and reason change.
	Due     time.Time // not zero, unless Blocked
	Blocked bool
	Trigger grapnel.Trigger // of the next attempt
	Anchor  time.Time       // zero: unchanged

	// EndpointWide says that the delivery is delayed because of its endpoint and not because of its
	// content; see MakeDue. A change without attempt leaves the stored value.
	EndpointWide bool

	// Standing is the endpoint's new standing. It is stored whether the change is applied or not,
	// unless a newer one is stored or the endpoint was removed, which deletes the standing.
	Standing    *Standing
	Operational *Batch              // events accepted with the change if it is applied. If its Config is stale, Record returns ErrStale
	Audit       *grapnel.AuditEntry // stored if the change is applied
	Answer      *Answered           // likewise

	// Lease is the lease that the change settles: it applies only while that is the delivery's
	// lease. Any change that applies ends the delivery's lease. nil: a change to a final status
	// applies with or without a lease; a change to grapnel.Pending applies only without one.
	Lease *Settlement

	// Uncounted leaves the attempt and the end out of the totals. Counts and Imbalance include the
	// delivery as always.
	Uncounted bool

	// Lone says that the delivery has no lane, as far as the caller knows. A store may then read less.
	// A wrong value costs time and changes no result.
	Lone bool

	// Epoch is the epoch of its endpoint's shard in which the change was decided; see Ownership. 0:
	// any epoch.
	Epoch int64

	// NextDelay is the first delay of the delivery that becomes the lane's head by this change: its
	// Due is At, or its event's NotBefore if that is later, plus NextDelay; its Anchor is At. If At is
	// before it was created, both count from
	// its creation.
	NextDelay time.Duration
}

// Changed is the state after a Change, whether it was applied or not.
type Changed struct {
	Applied     bool
	Foreign     bool           // the row id belongs to another delivery (Identity): only Standing was written, and no other field is set
	Fenced      bool           // the Epoch has passed: nothing was written, and no other field is set
	Status      grapnel.Status // of the delivery now; empty if it does not exist
	Next        *Head          // the head of the delivery's lane before Tell; for a pending delivery without lane, itself; else nil
	Operational *Accepted      // result of Tell; nil if the change was not applied
}

// Standing is an endpoint's standing with the number that orders it: only a higher one replaces
// another.
type Standing struct {
	Endpoint string
	Number   int64
	policy.Standing
}

// MakingDue selects the heads that become due, and their new time.
type MakingDue struct {
	Before time.Time // the attempt that delayed them was recorded (Change.At) before this
	At     time.Time // heads that are due later become due at this time
	Epoch  int64     // see Change.Epoch
}

// Ending selects deliveries that End finishes, and their final state.
type Ending struct {
	UpTo       int64 // only row ids up to this one; 0: all
	Status     grapnel.Status
	ReasonCode grapnel.ReasonCode
	Reason     string
	At         time.Time
	Epoch      int64 // see Change.Epoch
	Uncounted  bool  // see Change.Uncounted
}

// Redelivery asks for a new delivery of the same event.
type Redelivery struct {
	Of      int64
	Trigger grapnel.Trigger
	Ordered bool
	Delay   time.Duration // see Target.Delay
	At      time.Time
	Once    *Once
	Audit   *grapnel.AuditEntry // stored with it

	// Seen is the mark of a replay's original when the replay chose it. If the original was
	// redelivered or discarded since, the item creates nothing. nil: that is not checked.
	Seen *grapnel.Mark
}

// Overtaken says whether an original with this mark was redelivered or discarded since it was Seen.
func (r *Redelivery) Overtaken(replayedAs int64, discarded bool) bool {
	return r.Seen != nil && (replayedAs != r.Seen.ReplayedAs || discarded && r.Seen.DiscardedAt.IsZero())
}

// Redelivered is the new delivery.
type Redelivered struct {
	Delivery  int64
	CreatedAt time.Time
	Head      *Head   // if it is the head of its lane
	Answer    *Answer // see Accepted.Answer
}
