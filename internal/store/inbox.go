package store

import (
	"context"
	"time"

	"github.com/grapnelhq/grapnel"
)

// Inbox keeps what came in through sources and is no event, and what requests are known by.
type Inbox interface {
	// SetAside keeps a request. One whose id is there already stays as it is.
	SetAside(ctx context.Context, a grapnel.Aside) error
	// Aside returns one with its body; grapnel.CodeNotFound when it is not in scope.
	Aside(ctx context.Context, scope Scope, id string) (grapnel.Aside, error)
	// AsideList returns those of a selection, the newest first, without bodies.
	AsideList(ctx context.Context, scope Scope, q AsideQuery) ([]grapnel.Aside, error)
	// Unlearn forgets at most limit requests that were known until a time before now, and removes at most limit of those set aside before a
	// time. It returns how many it forgot and removed together; less than limit: nothing is left.
	Unlearn(ctx context.Context, now, asideBefore time.Time, limit int) (int, error)
}

// AsideQuery selects requests that were set aside.
type AsideQuery struct {
	Tenant string
	Source string
	Why    grapnel.AsideReason // empty: any
	Before string              // only those with a lower id; empty: from the newest
	Limit  int                 // at most; 0: none
}

// Known is what an incoming event is known by. The first one with it is accepted and stays known until then, counted from its own
// acceptance; another one before that is a duplicate of it, whatever its id is. It outlives the event.
type Known struct {
	Source string
	By     []byte   // what it is known by: a hash
	Sum    [32]byte // of what makes two requests the same
	Until  time.Time
}
