package store

import (
	"context"
	"time"

	"github.com/grapnelhq/grapnel"
)

// Inbox keeps what came in through sources and is no event, and what requests are known by.
type Inbox interface {
	// SetAside keeps a request; its Size is that of its Body, whatever it says. One whose id is there already stays as it is. Another reason
	// than those that package grapnel knows is grapnel.CodeInvalid.
	SetAside(ctx context.Context, a grapnel.Aside) error
	// Aside returns one with its body; grapnel.CodeNotFound when it is not in scope.
	Aside(ctx context.Context, scope Scope, id string) (grapnel.Aside, error)
	// AsideList returns those of a selection, the newest first, which those with the highest ids are, without bodies.
	AsideList(ctx context.Context, scope Scope, q AsideQuery) ([]grapnel.Aside, error)
	// Unlearn forgets at most limit requests that were known until a time before now, and removes at most limit of those that came in (At)
	// before asideBefore; of both those first whose time is the earliest. It returns how many it forgot and removed together; less than limit: nothing is left. When
	// it returns, no byte of what it removed is in the store's files.
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

// Known is what an incoming event is known by: Source and By together. The first one with it that is accepted makes it known until Until.
// Another one that is accepted (Event.AcceptedAt) before that is a duplicate of it, whatever its own id and kind are; it is answered with what
// was answered then, and nothing is written, so that it stays known as long as it was and no longer. One accepted at Until or later is a first
// one again.
//
// It is looked at before the event's id. An event that is refused or a duplicate by its id makes nothing known. What is known outlives the
// event, and the source.
type Known struct {
	Source string
	By     []byte   // what it is known by: a hash
	Sum    [32]byte // of what makes two requests the same; see Placed.Differs
	Until  time.Time
}
