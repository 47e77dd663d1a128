// Package replay redelivers finished deliveries, by the thousand, as durable jobs.
//
// A Runner owns the jobs. Each running job has a goroutine that goes through the selected
// deliveries in the order of their acceptance, and creates new deliveries of their events, a step
// at a time. A step's deliveries and the job's cursor are one transaction of the store, which
// applies only if the job is running and its cursor is where the step expects it. So whatever
// crashes, gets lost or is ordered at the same moment: no delivery is skipped or created twice, and
// no delivery is created once pausing or cancelling has been answered.
//
// The new delivery is an ordinary one at the tail of its lane, behind the pending deliveries there.
// From then on the engine owns it: it continues whatever happens to the job. At most 64 deliveries
// of a job are pending at once, and the job's rate limits how many are created.
//
// It does not promise to redeliver everything that it counted at first: deliveries that are purged,
// discarded or redelivered by another order meanwhile are left out. The rate is that of creating
// deliveries, not of their arrival.
package replay

import (
	"context"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Jobs is the interface for ordering and inspecting replays. The Runner implements it.
type Jobs interface {
	// Plan counts the deliveries that a replay would create, and creates none.
	Plan(ctx context.Context, scope store.Scope, r Request) (Plan, error)
	// Start creates the job. The job is durable when Start returns.
	Start(ctx context.Context, scope store.Scope, o Order) (Started, error)
	// Get returns a replay; grapnel.CodeNotFound if it is not in scope.
	Get(ctx context.Context, scope store.Scope, id string) (Progress, error)
	// List returns replays, the newest first.
	List(ctx context.Context, scope store.Scope, q store.ReplayQuery) ([]Progress, error)
	// Items returns the deliveries that a replay has created, in the order of the originals, after
	// the original with the given row id.
	Items(ctx context.Context, scope store.Scope, id string, after int64, limit int) ([]grapnel.ReplayItem, error)
	// Pause, Resume and Cancel take effect before they return: a paused or cancelled replay creates
	// no more deliveries; those already created continue. On a finished replay they fail with
	// grapnel.CodeConflict. Repeating one is no error and changes nothing.
	Pause(ctx context.Context, scope store.Scope, id string, by grapnel.By) (Progress, error)
	Resume(ctx context.Context, scope store.Scope, id string, by grapnel.By) (Progress, error)
	Cancel(ctx context.Context, scope store.Scope, id string, by grapnel.By) (Progress, error)
}

// Request selects the deliveries of a replay and its limits.
type Request struct {
	Endpoint  string
	Selection grapnel.Selection // without statuses: those that failed
	Rate      float64           // deliveries in a second; 0: DefaultRate
	StopAfter int               // consecutive failures that end it; 0: never
	Canary    bool              // the first delivery must succeed before the others are created
	CountFor  time.Duration     // time for counting a plan; 0: Bounds.Within
}

// DefaultRate is the default number of deliveries that a replay creates per second; MaxRate is the
// highest allowed.
const (
	DefaultRate = 100
	MaxRate     = 10_000
)

// All are the statuses of the deliveries that an endpoint should have had.
func All() []grapnel.Status {
	return []grapnel.Status{grapnel.Delivered, grapnel.Failed, grapnel.Dropped}
}

// Order is a request to start a replay.
type Order struct {
	Request
	By   grapnel.By
	Once func(grapnel.Replay) *store.Once // builds the idempotency record of the replay about to be created; nil: none
}

// Started is a replay that was just created.
type Started struct {
	grapnel.Replay
	Answer *store.Answer // not nil: the idempotency key was used before; nothing was created, and this is the answer of that call
}

// Plan is the preview of a replay.
type Plan struct {
	Total           int                    // deliveries to create
	By              map[grapnel.Status]int // of Total, by the status of the originals
	Keys            int                    // different ones; deliveries without a key are not counted
	LongestChain    int                    // most deliveries of one key, which arrive one after another
	Overtaken       int                    // of Total: something newer of their key was delivered since, and the receiver has it
	AlreadyReplayed int                    // left out: a replay has delivered them already
	Discarded       int                    // left out: an operator has discarded them
	OnItsWay        int                    // left out: its redelivery is pending
	Superseded      int                    // left out: it was redelivered, and its copy stands for it
	Tests           int                    // left out: deliveries of test events
	Waiting         int                    // pending deliveries that match otherwise; they are on their way
	Partial         bool                   // counting took too long: the true numbers may be higher
}

// Progress is a replay with its current progress.
type Progress struct {
	grapnel.Replay
	// ETA is the estimated end at the current speed; zero: unknown. While a running replay makes no
	// progress, Reason says why.
	ETA time.Time
}
