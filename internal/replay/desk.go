// Package replay delivers again what is over: single deliveries by the thousand, as durable jobs.
//
// A Runner owns the jobs. Each that is running has a goroutine that walks the deliveries it is about, in the order in which they were
// accepted, and has them made once more, a step at a time. What a step makes and how far the job has come is one transaction of the
// store, and it happens only if the job is running and stands where the step expects it. So whatever crashes, gets lost or is asked for
// at the same moment: none is skipped, none is made twice, and once pausing or cancelling has been answered nothing more is made.
//
// What is made is an ordinary delivery at the tail of its lane, behind what waits there. From then on it is the engine's: it goes on
// whatever becomes of the job. At most 64 deliveries of a job are on their way at once, and no more than its rate says are made.
//
// What it does not promise: that everything it set out with is still there. What was purged, discarded, or delivered again by somebody
// else meanwhile is left out, so it may make fewer than it counted at first. The rate is how fast deliveries are made, not how fast
// they arrive.
package replay

import (
	"context"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Desk is where replays are ordered, and asked after. The Runner is one.
type Desk interface {
	// Plan counts what a replay would deliver again, and makes nothing.
	Plan(ctx context.Context, scope store.Scope, r Request) (Plan, error)
	// Start makes the job. It is durable when this returns.
	Start(ctx context.Context, scope store.Scope, o Order) (Started, error)
	// Get returns one; grapnel.CodeNotFound when it is not in scope.
	Get(ctx context.Context, scope store.Scope, id string) (Progress, error)
	// List returns replays, the newest first.
	List(ctx context.Context, scope store.Scope, q store.ReplayQuery) ([]Progress, error)
	// Items returns what a replay has made, in the order of the originals, after the original with the given number.
	Items(ctx context.Context, scope store.Scope, id string, after int64, limit int) ([]grapnel.ReplayItem, error)
	// Pause, Resume and Cancel take effect before they return: a paused or cancelled replay makes nothing more, what it has made goes on.
	// One that is over is grapnel.CodeConflict. Asking again for what is so already changes nothing and is no error.
	Pause(ctx context.Context, scope store.Scope, id string, by grapnel.By) (Progress, error)
	Resume(ctx context.Context, scope store.Scope, id string, by grapnel.By) (Progress, error)
	Cancel(ctx context.Context, scope store.Scope, id string, by grapnel.By) (Progress, error)
}

// Request says what is to be delivered again, and how.
type Request struct {
	Endpoint  string
	Selection grapnel.Selection // without statuses: those that failed
	Rate      float64           // deliveries in a second; 0: DefaultRate
	StopAfter int               // so many failures in a row end it; 0: never
	Canary    bool              // the first one has to be delivered before the others are made
}

// DefaultRate is how many deliveries a replay makes in a second if nobody says otherwise; MaxRate is the most one can ask for.
const (
	DefaultRate = 100
	MaxRate     = 10_000
)

// Order is a request that shall be carried out.
type Order struct {
	Request
	By   grapnel.By
	Once func(grapnel.Replay) *store.Once // nil, or makes what keeps the call from happening twice, of the replay that is about to be made
}

// Started is a replay that has just been made.
type Started struct {
	grapnel.Replay
	Answer *store.Answer // not nil: the idempotency key was used before; nothing was made and this is the answer of then
}

// Plan is what a replay would do.
type Plan struct {
	Total           int  // deliveries
	Keys            int  // different ones; those without are not counted
	LongestChain    int  // most deliveries of one key, which arrive one after the other
	Overtaken       int  // of Total: something newer of their key has been delivered since, so the receiver gets them after it
	AlreadyReplayed int  // left out: a replay has delivered them already
	Discarded       int  // left out: somebody has looked at them and put them away
	OnItsWay        int  // left out: it is being delivered again already
	Superseded      int  // left out: it was delivered again, and what became of that is meant in its place
	Partial         bool // counting took too long: there are at least as many
}

// Progress is a replay and how it is getting on.
type Progress struct {
	grapnel.Replay
	// ETA is when it will be over if it goes on like this; zero: nobody knows. While it runs but cannot get on, Reason says why.
	ETA time.Time
}
