package engine

import (
	"context"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/egress"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Store is the part of a store that the engine needs.
type Store interface {
	store.Deliveries
	store.Configuration
	Event(ctx context.Context, scope store.Scope, tenant, id string) (*grapnel.Event, []grapnel.Delivery, error)
	Delivery(ctx context.Context, scope store.Scope, seq int64) (*grapnel.Delivery, error)
	StuckLanes(ctx context.Context, scope store.Scope, q store.LaneQuery) ([]grapnel.Lane, error)
	Counts(ctx context.Context, scope store.Scope) (map[string]map[grapnel.Status]int64, error)
	Purge(ctx context.Context, keep store.Keep, limit int) (int, error)
	Clear(ctx context.Context, c store.Clearing, limit int) (int, error)
	Imbalance(ctx context.Context) (int64, error)
	Waiting(ctx context.Context, endpoint string, limit int) (int, error)
	HasType(ctx context.Context, tenant, name string, limit int) (has bool, n int, err error)
	DeliverySearch(ctx context.Context, scope store.Scope, q store.DeliveryQuery,
		text string) (list []grapnel.Delivery, resume int64, err error)
	store.Documents
	Note(ctx context.Context, e grapnel.AuditEntry) error
	Unlearn(ctx context.Context, now, asideBefore time.Time, limit int) (int, error)
	PutReplay(ctx context.Context, scope store.Scope, r grapnel.Replay, with store.With) (store.Put, error)
	Advance(ctx context.Context, s store.ReplayStep) ([]store.Redelivered, error)
}

// Sender makes one attempt.
type Sender interface {
	Send(ctx context.Context, d egress.Delivery) egress.Result
}
