package configuration

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// The end of a tenant. Its access record is a part of the configuration, so every node has it
// before the order is answered, and a batch of events that was matched before is stale
// (store.Batch.Config): no event of the tenant is stored from then on.

// Accepts returns nil, or why nothing is created for a tenant: it is being deleted.
func (b *Book) Accepts(tenant string) error { return b.Snapshot().Accepts(tenant) }

// TenantEnds lists the tenants that are being deleted, sorted.
func (b *Book) TenantEnds() (all []grapnel.TenantEnd) {
	for _, is := range b.Snapshot().ends {
		all = append(all, *is)
	}
	slices.SortFunc(all, func(a, b grapnel.TenantEnd) int { return strings.Compare(a.Tenant, b.Tenant) })
	return all
}

// EndTenant records that a tenant is being deleted, and returns the record in force: that of an
// earlier call if there is one. Every node has it when this returns.
func (b *Book) EndTenant(ctx context.Context, end grapnel.TenantEnd, with store.With) (grapnel.TenantEnd, store.Put, error) {
	r := grapnel.TenantEndRecord(end)
	for {
		before := false
		put, err := b.Change(ctx, Change{
			Write: func(now *Snapshot) (store.Put, error) {
				if is := now.ends[end.Tenant]; is != nil {
					before, end = true, *is
					return store.Put{}, now.Accepts(end.Tenant)
				}
				with.Operational = &store.Batch{Config: now.Version}
				return b.o.Store.PutAccess(ctx, store.Everyone(), r, with)
			},
			Apply: func(put store.Put) store.ConfigChanges { return accessKind.written(&r, put) },
		})
		if before { // the node that recorded it may be waiting for others, or dead
			return end, put, b.Confirm(context.WithoutCancel(ctx))
		}
		if !errors.Is(err, store.ErrStale) {
			return end, put, err
		}
	}
}

// KeyGone records that a tenant's data key was destroyed. No node has it in memory when this
// returns.
func (b *Book) KeyGone(ctx context.Context, tenant string) error {
	_, err := accessKind.edit(ctx, b, store.Everyone(), func() (grapnel.AccessRecord, error) {
		is := b.Snapshot().ends[tenant]
		if is == nil {
			return grapnel.AccessRecord{}, store.ErrNotFound("tenant")
		}
		return grapnel.TenantEndRecord(*is), nil
	}, func(r *grapnel.AccessRecord) (*grapnel.AuditEntry, error) {
		r.End.KeyGone = true
		return nil, nil
	})
	return err
}

// TenantEnded forgets that a tenant was being deleted: one of the same name may begin. Its passes
// of before the time stay refused. It does nothing if another job deletes the tenant by now.
func (b *Book) TenantEnded(ctx context.Context, end grapnel.TenantEnd, until grapnel.EndedSessions) error {
	is := b.Snapshot().ends[end.Tenant]
	if is == nil || is.Job != end.Job {
		return nil
	}
	_, err := b.PutAccess(ctx, store.Everyone(), grapnel.EndedRecord("", grapnel.PassesOfTenant(end.Tenant), until), store.With{})
	if err != nil {
		return err
	}
	err = b.DeleteAccess(ctx, store.Everyone(), grapnel.TenantEndRecord(end).ID, store.With{})
	if grapnel.CodeOf(err) == grapnel.CodeNotFound {
		return b.Confirm(context.WithoutCancel(ctx))
	}
	return err
}

// DeleteAllOf deletes a page of a tenant's keys, sources, policies, event types and access records,
// and returns how many. Fewer than a page: nothing is left.
func (b *Book) DeleteAllOf(ctx context.Context, tenant string, page int) (deleted int, err error) {
	scope := store.Everyone()
	conf := b.Snapshot()
	remove := func(of string, remove func() error) {
		if err != nil || of != tenant || deleted == page {
			return
		}
		if err = remove(); grapnel.CodeOf(err) == grapnel.CodeNotFound {
			err = nil // by another request
		}
		deleted++
	}
	for i := range conf.keys {
		k := &conf.keys[i]
		remove(k.Tenant, func() error { return b.DeleteKey(ctx, scope, k.ID, store.With{}) })
	}
	for i := range conf.sources {
		s := &conf.sources[i]
		remove(s.Tenant, func() error { _, err := b.DeleteSource(ctx, scope, s.ID, store.With{}); return err })
	}
	for i := range conf.policies {
		p := &conf.policies[i]
		remove(p.Tenant, func() error { return b.DeletePolicy(ctx, scope, p.ID, store.With{}) })
	}
	for i := range conf.types {
		t := &conf.types[i]
		remove(t.Tenant, func() error { return b.DeleteEventType(ctx, scope, t.ID, store.With{}) })
	}
	for i := range conf.access {
		r := &conf.access[i]
		remove(r.Tenant, func() error { return b.DeleteAccess(ctx, scope, r.ID, store.With{}) })
	}
	return deleted, err
}
