package engine

import (
	"context"
	"errors"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/nodes/configuration"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/store"
)

// PutEndpoint creates an endpoint or replaces the revision it carries. If the change disables or
// enables the endpoint, the operational event about it is committed in the same transaction.
func (e *Engine) PutEndpoint(ctx context.Context, scope store.Scope, ep grapnel.Endpoint, along store.With) (store.Put, error) {
	at := e.now()
	var before *grapnel.Endpoint
	for {
		put, err := e.Book.Change(ctx, configuration.Change{
			Write: func(now *configuration.Snapshot) (store.Put, error) {
				if err := now.Accepts(ep.Tenant); err != nil && ep.DeletedAt.IsZero() {
					return store.Put{}, err
				}
				before = now.At(ep.ID)
				if before == nil {
					if err := now.RoomFor(ep.Tenant, e.rates.limits.Load().MaxEndpoints); err != nil {
						return store.Put{}, err
					}
				}
				if err := now.Names(&ep, before); err != nil {
					return store.Put{}, err
				}
				along.Operational = operationalOfStatus(now, &ep, at, along.Audit)
				return e.counted(along.Operational, func() (store.Put, error) { return e.store.PutEndpoint(ctx, scope, ep, along) })
			},
			Apply: func(put store.Put) (d store.ConfigChanges) {
				ep.Revision = put.Revision
				d.Endpoints.Written = []grapnel.Endpoint{ep}
				return d
			},
		})
		if !errors.Is(err, store.ErrStale) {
			e.operationalStored(along.Operational, put.Operational)
			if err == nil && put.Answer == nil {
				e.changes.status(before, &ep, along.Audit)
			}
			return put, err
		}
	}
}

// DeleteEndpoint deletes an endpoint for good. Its pending deliveries are dropped, a page at a
// time.
func (e *Engine) DeleteEndpoint(ctx context.Context, scope store.Scope, id string, by grapnel.By) error {
	for {
		ep, ok := e.Endpoint(scope, id)
		if !ok {
			return store.ErrNotFound("endpoint")
		}
		ep.DeletedAt, ep.UpdatedAt = e.now(), e.now()
		// If another caller changes the endpoint at the same moment, the newer revision is deleted.
		_, err := e.PutEndpoint(ctx, scope, ep, store.With{Audit: &grapnel.AuditEntry{At: ep.UpdatedAt, Tenant: ep.Tenant,
			Actor: by.Actor, Verb: grapnel.VerbDelete, Endpoint: id, Reason: by.Reason}})
		if grapnel.CodeOf(err) != grapnel.CodeConflict {
			return err
		}
	}
}

// forget removes a deleted endpoint that has no pending deliveries left. The node that had it
// before may have done that meanwhile.
func (e *Engine) forget(ctx context.Context, id string) error {
	_, err := e.Book.Change(ctx, configuration.Change{
		Write: func(now *configuration.Snapshot) (store.Put, error) {
			return store.Put{}, e.store.RemoveEndpoint(ctx, id)
		},
		Apply: func(store.Put) (d store.ConfigChanges) {
			d.Endpoints.Removed = []string{id}
			return d
		},
	})
	if grapnel.CodeOf(err) == grapnel.CodeNotFound {
		return nil
	}
	return err
}

// disable persists that the core has disabled an endpoint. An operator may change the endpoint at
// the same moment; the newest revision is disabled then.
func (e *Engine) disable(ctx context.Context, d core.Disable) error {
	for {
		ep, ok := e.Endpoint(store.Everyone(), d.Endpoint)
		if !ok || ep.Status == grapnel.EndpointDisabled {
			return nil
		}
		now := e.now()
		ep.Status, ep.DisabledReason, ep.DisabledAt, ep.UpdatedAt = grapnel.EndpointDisabled, d.Reason, now, now
		ep.DisabledByAnswer = d.ByAnswer
		_, err := e.PutEndpoint(ctx, store.Everyone(), ep, store.With{Audit: &grapnel.AuditEntry{
			At: ep.UpdatedAt, Tenant: ep.Tenant, Actor: grapnel.ActorItself, Verb: grapnel.VerbDisable, Endpoint: ep.ID, Reason: d.Reason,
		}})
		if grapnel.CodeOf(err) != grapnel.CodeConflict {
			return err
		}
	}
}
