package store

import (
	"context"

	"github.com/grapnelhq/grapnel"
)

// Moving moves a tenant from one store to another. A store that does not implement it has all its
// tenants for ever.
//
// In every implementation, the rows of a sealed tenant (grapnel.TenancyState) do not change,
// whatever a caller decided before. For a sealed tenant an Append, a write of configuration, a
// claim, an extension, a redelivery and a replay's step fail with ErrSealed; a Change of one of its
// deliveries comes back Fenced, with nothing written; Hasten and End fail with ErrFenced; Purge
// skips it. A batch with one event of a sealed tenant is refused whole.
type Moving interface {
	// PutTenancy changes t.Tenant's state from `from` to t.State. It fails with
	// grapnel.CodeConflict if the tenant is in another state, or, unless from is
	// grapnel.TenancyHere, in another Move. For a tenant without a stored state, "" and
	// grapnel.TenancyHere are the same. Repeating a call that succeeded, with the same Move and
	// State, is a no-op.
	// It creates a new version of the configuration. State grapnel.TenancyGone deletes the
	// tenant's endpoints, sources, policies, keys and standings in the same transaction. A change
	// from grapnel.TenancyArrived to grapnel.TenancyHere leaves the stored Shifts and ignores t's.
	// Only the store uses Shifts.
	PutTenancy(ctx context.Context, t grapnel.Tenancy, from grapnel.TenancyState, audit *grapnel.AuditEntry) (Put, error)
	// Import copies a tenant's rows from another store, where the tenant is sealed, compares the
	// copy with the original, and stores the state grapnel.TenancyArrived with t's Move and Other,
	// all in one transaction. It adds one offset to the row ids of all events, and one to those of
	// all deliveries, so they keep their order and stay lower than later row ids. It fails with
	// grapnel.CodeConflict if the store has rows of the tenant, unless an earlier move left them
	// (see Erase). It calls progress now and then with the number of rows copied; progress may be
	// nil.
	Import(ctx context.Context, from Store, t grapnel.Tenancy, progress func(rows int64)) (Imported, error)
	// Drop undoes an Import: it deletes the copied rows and restores the tenant's earlier state, or
	// none. It fails with grapnel.CodeConflict once the tenant is here.
	Drop(ctx context.Context, tenant, move string) error
	// Erase deletes at most limit rows of a tenant whose state is gone, and returns how many; fewer
	// than limit: nothing is left.
	Erase(ctx context.Context, tenant string, limit int) (int, error)
}

// Imported counts the rows of an Import.
type Imported struct {
	Rows   int64
	Events int64
	Waits  int64 // pending deliveries
	Over   int64 // finished deliveries
}
