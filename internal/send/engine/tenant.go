package engine

import (
	"cmp"
	"context"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/nodes/configuration"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Consent is the rule for new addresses of a tenant's endpoints.
func (e *Engine) Consent(tenant string) grapnel.ConsentRule {
	return cmp.Or(e.Terms(tenant).Consent, e.rates.limits.Load().Consent, grapnel.ConsentOff)
}

// ClearTenant deletes a page of the configuration of a tenant that is being deleted, and returns
// how many objects. left says that there may be more, or that a deleted endpoint still has pending
// deliveries, whose owner ends them. Every node refuses the tenant when it is called.
func (e *Engine) ClearTenant(ctx context.Context, tenant string, page int) (deleted int, left bool, err error) {
	if err := e.Confirm(ctx); err != nil {
		return 0, false, err
	}
	for _, ep := range e.Snapshot().Endpoints() {
		if ep.Tenant != tenant {
			continue
		}
		left = true
		if !ep.DeletedAt.IsZero() {
			continue
		}
		if deleted == page {
			return deleted, true, nil
		}
		err := e.DeleteEndpoint(ctx, store.Everyone(), ep.ID, grapnel.By{Actor: grapnel.ActorItself, Reason: "the tenant is being deleted"})
		if err != nil && grapnel.CodeOf(err) != grapnel.CodeNotFound {
			return deleted, true, err
		}
		deleted++
	}
	if deleted > 0 {
		return deleted, true, nil
	}
	deleted, err = e.DeleteAllOf(ctx, tenant, page)
	return deleted, left || deleted > 0, err
}

// refusing is a store that stores no documents of a tenant that is being deleted. What a part of
// the engine still knows of the tenant would come back otherwise.
type refusing struct {
	Store
	book *configuration.Book
}

// PutDocuments fails with grapnel.CodeTenantEnds if a document of such a tenant would be stored.
func (r *refusing) PutDocuments(ctx context.Context, scope store.Scope, writes []store.DocumentWrite, with store.With) (store.Put, error) {
	for i := range writes {
		if err := r.book.Accepts(writes[i].Tenant); err != nil && !writes[i].Delete {
			return store.Put{}, err
		}
	}
	return r.Store.PutDocuments(ctx, scope, writes, with)
}

// forgetTenant drops from memory what this node knows of a tenant that was deleted: its data key,
// its events of the day and its types.
func (e *Engine) forgetTenant(ctx context.Context, tenant string) error {
	e.rates.forget(tenant)
	e.publisher.types.forget()
	if e.forgetKey == nil {
		return nil
	}
	return e.forgetKey(ctx, tenant)
}
