package store

import (
	"context"
	"time"

	"github.com/grapnelhq/grapnel"
)

// Leases hands the heads of queues to consumers, each to one at a time. A lease is durable before it is handed out. While a head is leased
// its Due is the end of the lease, so what was forgotten comes up again by itself.
//
// Leases end by the clock of the store: where several nodes share it, that is its own and the times that calls bring along do not count.
type Leases interface {
	// Claim leases heads of a queue that are due, the earliest first, one for each Want. Those whose lease is over are not leased again:
	// that was an attempt, and whoever asks records what follows from it (Change.Lease with Over).
	Claim(ctx context.Context, c Claim) (Claimed, error)
	// Extend lets a lease that is not over end later, or earlier, and returns it as it is then; grapnel.CodeConflict when it is over or settled.
	Extend(ctx context.Context, token string, now time.Time, by time.Duration) (grapnel.Lease, error)
	// Lease returns a lease by its token, over or not; grapnel.CodeNotFound when it was settled or never was.
	Lease(ctx context.Context, token string) (grapnel.Lease, error)
	// LeaseList returns the leases of a queue, those first that end first.
	LeaseList(ctx context.Context, queue string, limit int) ([]grapnel.Lease, error)
	// QueueCounts says what is in a queue, as it is at a time.
	QueueCounts(ctx context.Context, queue string, now time.Time) (grapnel.QueueCounts, error)
}

// Claim asks for leases.
type Claim struct {
	Queue string // id of the endpoint
	Wants []Want
	Now   time.Time
}

// Want is one lease asked for. It is passed over when its consumer holds Most already.
type Want struct {
	Token    string
	Consumer string
	For      time.Duration
	Most     int // leases of its consumer in this queue; 0: no limit
}

// Claimed is what Claim did.
type Claimed struct {
	Leases []grapnel.Lease // for the first Wants that were not passed over
	Over   []grapnel.Lease // are over: to be recorded; at most as many as Wants
	Next   time.Time       // when the earliest head that was neither leased nor Over is due, a lease's end included; zero: there is none
}

// Settlement says by which lease a change is made.
type Settlement struct {
	Token string
	Over  bool // the change is made because the lease is over, and applies only if it is; else only if it is not. At is the time that counts
}
