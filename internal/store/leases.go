package store

import (
	"context"
	"time"

	"github.com/grapnelhq/grapnel"
)

// Leases leases the heads of queues to consumers, each head to one consumer at a time. A lease is
// durable before the consumer gets it. While a head is leased its Due is the end of the lease, so a
// lease that was never settled becomes due by itself.
//
// A lease is stored until a change of its delivery applies: Record (see Change.Lease), End, or
// another call that finishes the delivery. Its expiry (at Until) does not delete it. Only Extend
// and such a change move a leased head's Due; MakeDue does not.
//
// Leases end by the store's clock: where several nodes share the store, its own clock counts, and
// the times in calls are ignored.
type Leases interface {
	// Claim leases due heads of a queue, the earliest first (by Due, then Delivery), one for each
	// Want. A head whose lease has expired is not leased again: the expiry was an attempt, and the
	// caller has to record it (Change.Lease with Over). A repeated Claim grants other leases;
	// leases whose answer was lost expire. The claims of a queue run one after another: when one
	// has returned without a lost answer, Lease finds those of each that began before.
	Claim(ctx context.Context, c Claim) (Claimed, error)
	// Extend sets the end of an unexpired lease to now plus by, which may be earlier than before,
	// and returns the lease. It fails with grapnel.CodeConflict if the lease has expired, is
	// settled or was never granted.
	Extend(ctx context.Context, token string, now time.Time, by time.Duration) (grapnel.Lease, error)
	// Lease returns a lease by its token, expired or not; grapnel.CodeNotFound if it is settled or
	// was never granted.
	Lease(ctx context.Context, token string) (grapnel.Lease, error)
	// LeaseList returns at most limit leases of a queue, expired or not, the earliest end first (by
	// Until, then Delivery).
	LeaseList(ctx context.Context, queue string, limit int) ([]grapnel.Lease, error)
	// QueueCounts counts a queue's deliveries at a time. Leased counts all leases, expired or not.
	// Oldest is the creation of the delivery with the lowest row id. A store need not count more
	// than MostCounted of one kind. With more than that, uncounted deliveries may be included in
	// Ready, Delayed or Blocked, whichever is the largest of them, and Waiting may be 0; Oldest may
	// be that of a counted delivery; resolved dead letters may count in Dead. Leased is always
	// exact, and so is the sum of unfinished deliveries.
	QueueCounts(ctx context.Context, queue string, now time.Time) (grapnel.QueueCounts, error)
}

// MostOver is the largest number of expired leases that one Claim returns.
const MostOver = 100

// MostCounted is the number of one kind up to which QueueCounts is exact.
const MostCounted = 10_000

// Claim asks for leases.
type Claim struct {
	Queue string // id of the endpoint
	Wants []Want
	Now   time.Time
}

// Want asks for one lease. It is skipped if its consumer holds Most leases already, including those
// for earlier Wants of the same Claim; an expired lease is held until its expiry is recorded.
type Want struct {
	Token    string // unique: no lease has had it before
	Consumer string
	For      time.Duration // from Claim.Now
	Most     int           // leases of its consumer in this queue; 0: no limit
}

// Claimed is the result of a Claim.
//
// Claim reads the due heads in order. A head without lease is leased for the next Want that is not
// skipped, while there is one; a head whose lease has expired is added to Over. After MostOver of
// those it stops: they are settled first, so that no Claim has to read past any number of them.
type Claimed struct {
	Leases []grapnel.Lease // in the order of their Wants and of the heads
	Over   []grapnel.Lease // expired: to be recorded
	Next   time.Time       // due time of the earliest head in neither list, or the end of its lease; zero: no such head. It may be past
}

// Yields says whether the change may be made, given its pending delivery's lease and the lease's
// end. token is empty without a lease.
func (c *Change) Yields(token string, until time.Time) bool {
	switch {
	case c.Lease == nil:
		return token == "" || c.Status.Final()
	case token == "" || token != c.Lease.Token:
		return false
	}
	if c.Lease.Over {
		return !c.At.Before(until) || GrantedAhead(until, c.At)
	}
	return c.At.Before(until)
}

// GrantedAhead says whether a lease that ends at a time was granted by a clock that was ahead: no
// lease is as long. Its consumer may settle it until its end is recorded.
func GrantedAhead(until, now time.Time) bool { return until.Sub(now) > grapnel.MaxLease+time.Hour }

// Store is everything an implementation provides. Each user of a store asks for the part it needs.
type Store interface {
	Deliveries
	Configuration
	History
	Audit
	Archive
	Erasing
	Replays
	Leases
	Inbox
	Documents
	Close() error
}
