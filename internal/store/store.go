// Package store is the contract of what is durable. It says what is kept and what a transaction is; the implementations
// (memory, the model; sqlite, one machine; postgres, many) only say how, and all pass the suite in storetest.
//
// What every implementation promises:
//
//   - Append commits events, all their deliveries and their places in their lanes together, or nothing. When it returns without
//     error everything is durable.
//   - Positions in a lane are 1, 2, 3 … in commit order, without gaps.
//   - Record applies each Change only to a delivery that is still where the change expects it, so repeating a Record whose
//     answer was lost changes nothing: what it tells has its ids already, and no audit entry is kept twice.
//   - Record applies no Change to a delivery that has only the row id in common with the one that is meant (Identity).
//   - A delivery that is final never changes again.
//   - A lane has at most one head: the pending delivery with the lowest position. Only Append, Again, Record, End and what is told
//     with PutEndpoint make heads, and all but End report every head they make.
//   - A read that starts after a write has returned sees that write.
//   - No method can be called without saying whose data it may touch.
//   - Timestamps are always arguments; a store has no clock. They are kept in microseconds.
//
// What it does not promise: that a write whose call returned an error did not happen. Unless the error has one of the
// codes of package grapnel (which mean that nothing was written), the outcome is unknown and the caller repeats the call.
package store

import (
	"context"
	"errors"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
)

// ErrUnknown is in the chain of a write's error when the answer to the commit was lost: the write may have happened, and its caller repeats it.
var ErrUnknown = errors.New("store: the answer to the commit was lost")

// ErrWentBack is in the chain of every error of a store whose database has lost commits that this process saw, or is another database now: a standby
// was promoted, a backup was restored. Such a store answers nothing any more, because what its users remember may be false. Nothing was written.
var ErrWentBack = errors.New("store: the database is not the one that it was")

// Store is everything an implementation provides. Users of a store ask for the part they need.
type Store interface {
	Street
	Configuration
	History
	Journal
	Archive
	Replays
	Leases
	Inbox
	Close() error
}

// Street is the hot path: what the engine calls for every event and every attempt.
type Street interface {
	// Append commits a batch of events with their deliveries.
	Append(ctx context.Context, b Batch) (Accepted, error)
	// Record commits what became of deliveries, all in one transaction, and reports the state after each.
	Record(ctx context.Context, changes []Change) ([]Changed, error)
	// Heads returns an endpoint's heads that have a due time, the earliest first (by Due, then Delivery), at most limit of them.
	Heads(ctx context.Context, endpoint string, limit int) ([]Head, error)
	// Head returns one pending delivery's current place, or nil if it is final or absent. The second result is false
	// when the delivery is pending but not the head of its lane; its place then has neither Due nor Anchor.
	Head(ctx context.Context, delivery int64) (*Head, bool, error)
	// Hasten makes heads without lease due at h.At that wait longer because of their endpoint (Change.EndpointWide) and were recorded so before
	// h.Before: their schedules were made for an endpoint that was away. At most limit, the earliest first; fewer than that means
	// that none is left.
	Hasten(ctx context.Context, endpoint string, h Hastening, limit int) (int, error)
	// Standings returns what is kept of every endpoint of which a Standing was recorded, sorted by endpoint.
	Standings(ctx context.Context) ([]Standing, error)
	// Events returns events by their sequence numbers, in the order asked for, and verifies the checksum of each; the entry of one
	// that is absent or corrupt is nil.
	Events(ctx context.Context, seqs []int64) ([]*grapnel.Event, error)
	// End finishes at most limit pending deliveries of an endpoint with the given final status and reason, heads and waiting
	// ones alike, the oldest first, and returns how many it ended. The caller makes sure that none of them is being attempted.
	End(ctx context.Context, endpoint string, e Ending, limit int) (int, error)
	// Again commits a new delivery of the same event to the same endpoint, at the tail of its lane. It is grapnel.CodeNotFound
	// when the delivery is not in scope, and when the endpoint is absent or marked as deleted: nobody would end what waits there.
	Again(ctx context.Context, scope Scope, r Redelivery) (Redelivered, error)
}

// Batch is what Append commits.
type Batch struct {
	Config int64      // version of the configuration that Targets were matched against; another one now: ErrStale
	Events []Incoming // in the order in which they shall be accepted
	Once   *Once      // when the call carries an idempotency key
}

// Incoming is one event with the endpoints that want it.
type Incoming struct {
	Event   *grapnel.Event // Seq is ignored
	Targets []Target
	Known   *Known // nil: only its id tells it from others
}

// Target is one delivery to be made.
type Target struct {
	Endpoint string
	Ordered  bool            // the delivery joins the lane of its event's key, if it has one
	Trigger  grapnel.Trigger // of its first attempt
	Delay    time.Duration   // of its first attempt, if the delivery is a head at once: its Due is AcceptedAt plus Delay
	Drop     string          // not empty: the delivery is recorded as dropped at once, for this reason, without a position

	Uncounted bool // no totals count the drop
}

// Accepted is what Append did.
type Accepted struct {
	Events []Placed // parallel to Batch.Events
	Heads  []Head   // deliveries that became heads, in the order of their numbers
	Answer *Answer  // not nil: the idempotency key was used before; nothing was written and this is the answer of then
}

// Placed is what became of one event.
type Placed struct {
	Seq        int64
	ID         string    // of the event that is stored, or was, when a duplicate of what is purged is Known
	AcceptedAt time.Time // of the event that is stored, which for a duplicate is the first one
	Deliveries int       // that its acceptance made; redeliveries are not counted
	Duplicate  bool      // it was Known, or the tenant has the id with the same type, key and data: nothing was written
	Conflict   bool      // the tenant has the id with something else: nothing was written, and nothing is told of what is there
	Differs    bool      // with Duplicate: it was known with another body
}

// Head is the part of a delivery that scheduling needs: a delivery that is first in its lane.
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

// AnyAttempts as Change.Expect applies the change whatever the number of attempts made.
const AnyAttempts = -1

// Change is what one delivery becomes.
type Change struct {
	Delivery int64
	Identity Identity         // of the delivery; the change applies to no other one that has its row id now
	Expect   int              // attempts made before; the change applies only to a pending delivery with this many
	Attempt  *grapnel.Attempt // nil when no attempt led here: an operator, the clock
	At       time.Time

	Status     grapnel.Status // grapnel.Pending, or a final one
	ReasonCode grapnel.ReasonCode
	Reason     string

	// For grapnel.Pending. A change of a delivery that is not the head of its lane keeps it waiting: only its Trigger and reason
	// change.
	Due     time.Time // not zero, unless Blocked
	Blocked bool
	Trigger grapnel.Trigger // of the next attempt
	Anchor  time.Time       // zero: unchanged

	// EndpointWide says that the delivery waits because of its endpoint and not because of what it is; see Hasten. A change without
	// attempt leaves it as it was.
	EndpointWide bool

	// Standing is that of the endpoint from now on. It is kept whether the change is applied or not, unless a newer one is there or
	// the endpoint was removed, which forgets it.
	Standing *Standing
	Tell     *Batch              // events accepted with the change if it is applied. If its Config is stale, Record returns ErrStale
	Audit    *grapnel.AuditEntry // kept if the change is applied

	// Lease is the lease that the change settles: it applies only while that is the delivery's lease. Any change that applies ends the
	// lease there is. nil: a change to a final status applies whoever has a lease; one to grapnel.Pending only if nobody has one.
	Lease *Settlement

	// Uncounted keeps the attempt and the end out of the totals. Counts and Imbalance include the delivery as always.
	Uncounted bool

	// Epoch is the one of its endpoint's shard in which the change was decided; see Ownership. 0: whoever owns that.
	Epoch int64

	// NextDelay is the first delay of the delivery that becomes the lane's head by this change: its Due is At plus NextDelay,
	// its Anchor is At. If At is before it was created, both count from its creation.
	NextDelay time.Duration
}

// Changed is the state after a Change, whether it was applied or not.
type Changed struct {
	Applied bool
	Foreign bool           // the row id is another delivery's (Identity): only Standing was written, and nothing else is told
	Fenced  bool           // the Epoch is over, or the tenant is sealed: nothing was written, and nothing else is told
	Sealed  bool           // with Fenced: it was refused because of the tenant; that says nothing of the Epoch
	Status  grapnel.Status // of the delivery now; empty if there is no such delivery
	Next    *Head          // the head of the delivery's lane before Tell; for a pending delivery without lane, itself; else nil
	Told    *Accepted      // what Tell did; nil if it was not applied
}

// Standing is an endpoint's standing with the number that orders it: only a higher one replaces another.
type Standing struct {
	Endpoint string
	Number   int64
	policy.Standing
}

// Hastening says which heads become due, and when.
type Hastening struct {
	Before time.Time // the attempt that put them off was recorded (Change.At) before this
	At     time.Time // those that are due later than this become due at this
	Epoch  int64     // see Change.Epoch
}

// Ending is how End finishes deliveries, and which.
type Ending struct {
	UpTo       int64 // only those with at most this number; 0: all
	Status     grapnel.Status
	ReasonCode grapnel.ReasonCode
	Reason     string
	At         time.Time
	Epoch      int64 // see Change.Epoch
	Uncounted  bool  // see Change.Uncounted
}

// Redelivery asks for a delivery to be made once more.
type Redelivery struct {
	Of      int64
	Trigger grapnel.Trigger
	Ordered bool
	Delay   time.Duration // see Target.Delay
	At      time.Time
	Once    *Once
	Audit   *grapnel.AuditEntry // kept with it
}

// Redelivered is the new delivery.
type Redelivered struct {
	Delivery  int64
	CreatedAt time.Time
	Head      *Head   // if it is the head of its lane
	Answer    *Answer // see Accepted.Answer
}
