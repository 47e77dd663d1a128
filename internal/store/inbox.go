package store

import (
	"context"
	"time"

	"github.com/grapnelhq/grapnel"
)

// Inbox stores requests to sources that were set aside and not accepted as events, and the keys by
// which repeated requests are recognized (Known).
type Inbox interface {
	// SetAside stores a request; its Size is set from its Body. If the id is stored already,
	// nothing changes. A reason that package grapnel does not define is grapnel.CodeInvalid.
	SetAside(ctx context.Context, a grapnel.Aside) error
	// ChangeAside gives a stored request the reason, event and intake of a, or with drop deletes
	// it. a has its body. Nothing changes if its tenant has no request with its id.
	ChangeAside(ctx context.Context, a grapnel.Aside, drop bool) error
	// Aside returns a request with its body; grapnel.CodeNotFound if it is not in scope.
	Aside(ctx context.Context, scope Scope, id string) (grapnel.Aside, error)
	// AsideList returns the requests of a selection without bodies, the newest (highest id) first;
	// with After the oldest first.
	AsideList(ctx context.Context, scope Scope, q AsideQuery) ([]grapnel.Aside, error)
	// Unlearn deletes at most limit Known records that expired before now, and at most limit
	// requests that arrived (At) before asideBefore; of each the earliest first. It returns how
	// many it deleted of both together; fewer than limit: nothing is left. When it returns, no byte
	// of the deleted rows is in the store's files.
	Unlearn(ctx context.Context, now, asideBefore time.Time, limit int) (int, error)
}

// AsideQuery selects requests that were set aside.
type AsideQuery struct {
	Tenant string
	Source string
	Why    grapnel.AsideReason // empty: any
	Before string              // only those with a lower id; empty: from the newest
	After  string              // only those with a higher id, the lowest first; empty: the newest first
	Limit  int                 // at most; 0: none
}

// Known makes repeated requests duplicates. Source and By together are the key; the first accepted
// event with a key stores it until Until. Another event with the key that is accepted
// (Event.AcceptedAt) before Until is a duplicate, whatever its own id and type are. It gets the
// answer of the first, and nothing is written, so Until stays. An event accepted at Until or later
// counts as a first one again.
//
// The key is checked before the event's id. An event that is refused, or is a duplicate by its id,
// stores no key. The record outlives the event and the source.
type Known struct {
	Source string
	By     []byte   // the key: a hash
	Sum    [32]byte // of the content that makes two requests equal; see Placed.Differs
	Until  time.Time
}
