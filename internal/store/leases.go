package store

import (
	"context"
	"time"

	"github.com/grapnelhq/grapnel"
)

// Leases hands the heads of queues to consumers, each to one at a time. A lease is durable before it is handed out. While a head is leased
// its Due is the end of the lease, so what was forgotten comes up again by itself.
//
// A lease is there until a change of its delivery applies, which ends it: Record (see Change.Lease), End and whatever else finishes what is
// pending. That it is over (from Until on) does not remove it. Nothing but Extend and that moves a leased head's Due; Hasten leaves it alone.
//
// Leases end by the clock of the store: where several nodes share it, that is its own and the times that calls bring along do not count.
type Leases interface {
	// Claim leases heads of a queue that are due, the earliest first (by Due, then Delivery), one for each Want. Those whose lease is over are
	// not leased again: that was an attempt, and whoever asks records what follows from it (Change.Lease with Over). What a repeated Claim
	// leases is something else: of leases whose answer was lost nobody knows, and they run out.
	Claim(ctx context.Context, c Claim) (Claimed, error)
	// Extend lets a lease that is not over end that long after now, which may be earlier than it would have, and returns it as it is then;
	// grapnel.CodeConflict when it is over, settled or never was.
	Extend(ctx context.Context, token string, now time.Time, by time.Duration) (grapnel.Lease, error)
	// Lease returns a lease by its token, over or not; grapnel.CodeNotFound when it was settled or never was.
	Lease(ctx context.Context, token string) (grapnel.Lease, error)
	// LeaseList returns the leases of a queue, over or not, those first that end first (by Until, then Delivery); at most limit.
	LeaseList(ctx context.Context, queue string, limit int) ([]grapnel.Lease, error)
	// QueueCounts says what is in a queue, as it is at a time. Leased are all leases, over or not. Oldest is the creation of the delivery with
	// the lowest number. A store need not count more than MostCounted of one kind. Once there are more, what was not counted may
	// stand under Ready, Delayed or Blocked, whichever there are more of than that, with nothing under Waiting; Oldest may be one of those
	// counted; dead letters that were discarded may count among the Dead. Leased is always exact, and so is the sum of what is not final.
	QueueCounts(ctx context.Context, queue string, now time.Time) (grapnel.QueueCounts, error)
}

// MostOver is how many leases that are over one Claim returns at most.
const MostOver = 100

// MostCounted is how many of one kind QueueCounts counts at least.
const MostCounted = 10_000

// Claim asks for leases.
type Claim struct {
	Queue string // id of the endpoint
	Wants []Want
	Now   time.Time
}

// Want is one lease asked for. It is passed over when its consumer holds Most already, those for earlier Wants of the same Claim included;
// a lease that is over is held until that is recorded.
type Want struct {
	Token    string // which no lease has ever had
	Consumer string
	For      time.Duration // from Claim.Now
	Most     int           // leases of its consumer in this queue; 0: no limit
}

// Claimed is what Claim did.
//
// The heads that are due are looked at in their order. One that has no lease is leased for the next Want that is not passed over, as long as
// there is one; one whose lease is over is added to Over. With MostOver of those the look ends: what is over is settled first, so
// that no Claim has to step over any number of them.
type Claimed struct {
	Leases []grapnel.Lease // in the order of the Wants that they are for, and that of the heads
	Over   []grapnel.Lease // are over: to be recorded
	Next   time.Time       // when the earliest head that is in neither list is due, a lease's end included; zero: there is none. It may be past
}

// Settlement says by which lease a change is made.
type Settlement struct {
	Token string
	Over  bool // the change is made because the lease is over, and applies only if it is; else only if it is not. At is the time that counts
}

// Yields says whether a pending delivery's lease, which ends then, lets the change be made. Without a lease the token is empty.
func (c *Change) Yields(token string, until time.Time) bool {
	switch {
	case c.Lease == nil:
		return token == "" || c.Status.Final()
	case token == "" || token != c.Lease.Token:
		return false
	}
	return c.Lease.Over != c.At.Before(until)
}
