package store

import (
	"context"

	"github.com/grapnelhq/grapnel"
)

// Moving takes a tenant from one store to another. Stores that can do it implement it; the others have all their tenants for ever.
//
// What holds in every one of them: as long as a tenant is sealed (grapnel.TenancyState) nothing that is of it changes, whoever asks and whatever
// they decided before. An Append, a write of configuration, a claim, an extension, a redelivery or a replay's step with something of such a
// tenant is ErrSealed; a Change of one of its deliveries comes back Fenced, with nothing written; Hasten and End are ErrFenced; Purge passes it
// by. A batch in which one event is of such a tenant is refused whole.
type Moving interface {
	// PutTenancy says where a tenant is from now on, if it is in the state from ("" and grapnel.TenancyHere are the same when nothing is
	// known of it), and in it by the same Move unless from is grapnel.TenancyHere; else it is grapnel.CodeConflict. Repeating one that was made, with the same Move and State, changes nothing and is no error.
	// It makes a new version of the configuration. With grapnel.TenancyGone the tenant's endpoints, sources, policies and keys are gone in the
	// same transaction, and standings with them. With grapnel.TenancyHere from grapnel.TenancyArrived its Shifts stay, and those given are not looked at. Shifts are of the
	// store alone.
	PutTenancy(ctx context.Context, t grapnel.Tenancy, from grapnel.TenancyState, audit *grapnel.AuditEntry) (Put, error)
	// Import copies all that is of a tenant from another store, where it is sealed, compares what has arrived with what is there, and says
	// that it has arrived (grapnel.TenancyArrived, with t's Move and Other), all in one transaction: without it nothing has happened. Numbers of
	// events and deliveries are given anew, by adding the same to all of those of a kind, so that they keep their order and are lower than whatever
	// comes later. What there was of the tenant here is grapnel.CodeConflict, unless it is what an earlier move has left (Erase).
	// progress is told now and then how many rows have come; it may be nil.
	Import(ctx context.Context, from Store, t grapnel.Tenancy, progress func(rows int64)) (Imported, error)
	// Drop undoes an Import: what has arrived is gone, and nothing is known of the tenant, or what was before. It is grapnel.CodeConflict once the
	// tenant is here.
	Drop(ctx context.Context, tenant, move string) error
	// Erase removes rows of a tenant that has gone, at most limit, and says how many; fewer than limit: nothing is left.
	Erase(ctx context.Context, tenant string, limit int) (int, error)
}

// Imported is what an Import has brought.
type Imported struct {
	Rows   int64
	Events int64
	Waits  int64 // deliveries that are not over
	Over   int64 // deliveries that are
}
