package configuration

import (
	"context"
	"errors"
	"slices"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// PutSource creates a source or replaces the revision it carries.
func (b *Book) PutSource(ctx context.Context, scope store.Scope, src grapnel.Source, along store.With) (store.Put, error) {
	return b.Change(ctx, Change{
		Write: func(now *Snapshot) (store.Put, error) { return b.o.Store.PutSource(ctx, scope, src, along) },
		Apply: func(put store.Put) (d store.ConfigChanges) {
			src.Revision = put.Revision
			d.Sources.Written = []grapnel.Source{src}
			return d
		},
	})
}

// DeleteSource deletes a source for good. Its messages stay.
func (b *Book) DeleteSource(ctx context.Context, scope store.Scope, id string, along store.With) (store.Put, error) {
	return b.Change(ctx, Change{
		Write: func(now *Snapshot) (store.Put, error) {
			if user := now.readerOf(id); user != "" {
				return store.Put{}, grapnel.Errorf(grapnel.CodeConflict, "endpoint %s takes only the messages of this source", user)
			}
			return b.o.Store.DeleteSource(ctx, scope, id, along)
		},
		Apply: func(store.Put) (d store.ConfigChanges) {
			d.Sources.Removed = []string{id}
			return d
		},
	})
}

// PutPolicy creates or replaces a named policy. Endpoints that name it follow it from now on.
func (b *Book) PutPolicy(ctx context.Context, scope store.Scope, p grapnel.NamedPolicy, with store.With) (store.Put, error) {
	return b.Change(ctx, Change{
		Write: func(now *Snapshot) (store.Put, error) { return b.o.Store.PutPolicy(ctx, scope, p, with) },
		Apply: func(put store.Put) (d store.ConfigChanges) {
			p.Revision = put.Revision
			d.Policies.Written = []grapnel.NamedPolicy{p}
			return d
		},
	})
}

// ChangePolicy replaces a named policy by what edit makes of it, and returns it; see edited.
func (b *Book) ChangePolicy(ctx context.Context, scope store.Scope, id string,
	edit func(*grapnel.NamedPolicy) (*grapnel.AuditEntry, error)) (grapnel.NamedPolicy, error) {
	return edited(ctx, b, edit, func() (p grapnel.NamedPolicy, err error) {
		for _, p = range b.Policies(scope) {
			if p.ID == id {
				return p, nil
			}
		}
		return p, store.ErrNotFound("policy")
	}, func(p *grapnel.NamedPolicy, with store.With) (store.Put, error) {
		return b.o.Store.PutPolicy(ctx, scope, *p, with)
	}, func(p *grapnel.NamedPolicy, put store.Put) (d store.ConfigChanges) {
		p.Revision = put.Revision
		d.Policies.Written = []grapnel.NamedPolicy{*p}
		return d
	})
}

// edited replaces a record by what edit makes of it. found returns it as it is in the store at that
// moment, under the lock of the configuration, and the store refuses it if another node has changed
// the configuration since; then this begins again. So it undoes no other request's change, and a
// record that was deleted is not made again.
func edited[R any](ctx context.Context, b *Book, edit func(*R) (*grapnel.AuditEntry, error), found func() (R, error),
	put func(*R, store.With) (store.Put, error), changes func(*R, store.Put) store.ConfigChanges) (r R, err error) {
	for {
		_, err = b.Change(ctx, Change{
			Write: func(now *Snapshot) (store.Put, error) {
				if r, err = found(); err != nil {
					return store.Put{}, err
				}
				audit, err := edit(&r)
				if err != nil {
					return store.Put{}, err
				}
				return put(&r, store.With{Tell: &store.Batch{Config: now.Version}, Audit: audit})
			},
			Apply: func(put store.Put) store.ConfigChanges { return changes(&r, put) },
		})
		if !errors.Is(err, store.ErrStale) {
			return r, err
		}
	}
}

// DeletePolicy removes a named policy that no endpoint uses.
func (b *Book) DeletePolicy(ctx context.Context, scope store.Scope, id string, with store.With) error {
	_, err := b.Change(ctx, Change{
		Write: func(now *Snapshot) (store.Put, error) {
			if user := now.userOf(id); user != "" {
				return store.Put{}, grapnel.Errorf(grapnel.CodeConflict, "the policy is used by endpoint %s", user)
			}
			return store.Put{}, b.o.Store.DeletePolicy(ctx, scope, id, with)
		},
		Apply: func(store.Put) (d store.ConfigChanges) {
			d.Policies.Removed = []string{id}
			return d
		},
	})
	return err
}

// PutKey creates or replaces an API key.
func (b *Book) PutKey(ctx context.Context, scope store.Scope, k grapnel.Key, with store.With) (store.Put, error) {
	return b.Change(ctx, Change{
		Write: func(now *Snapshot) (store.Put, error) { return b.o.Store.PutKey(ctx, scope, k, with) },
		Apply: func(store.Put) (d store.ConfigChanges) {
			d.Keys.Written = []grapnel.Key{k}
			return d
		},
	})
}

// ChangeKey replaces an API key by what edit makes of it, and returns it; see edited. A key that
// another request has revoked stays revoked.
func (b *Book) ChangeKey(ctx context.Context, scope store.Scope, id string, edit func(*grapnel.Key) (*grapnel.AuditEntry, error)) (
	grapnel.Key, error) {
	return edited(ctx, b, edit, func() (k grapnel.Key, err error) {
		for _, k = range b.Keys(scope) {
			if k.ID == id {
				return k, nil
			}
		}
		return k, store.ErrNotFound("key")
	}, func(k *grapnel.Key, with store.With) (store.Put, error) {
		return b.o.Store.PutKey(ctx, scope, *k, with)
	}, func(k *grapnel.Key, _ store.Put) (d store.ConfigChanges) {
		d.Keys.Written = []grapnel.Key{*k}
		return d
	})
}

// ChangePortal replaces how a tenant's portal looks by what edit makes of it, and returns it; see
// edited.
func (b *Book) ChangePortal(ctx context.Context, scope store.Scope, tenant string,
	edit func(*grapnel.Portal) (*grapnel.AuditEntry, error)) (grapnel.Portal, error) {
	record := func(p grapnel.Portal) grapnel.Key {
		return grapnel.Key{ID: grapnel.PortalID(tenant), Name: "portal", Tenant: tenant, CreatedAt: p.UpdatedAt, Portal: &p}
	}
	return edited(ctx, b, edit, func() (grapnel.Portal, error) {
		p, _ := b.Portal(tenant)
		return p, nil
	}, func(p *grapnel.Portal, with store.With) (store.Put, error) {
		return b.o.Store.PutKey(ctx, scope, record(*p), with)
	}, func(p *grapnel.Portal, _ store.Put) (d store.ConfigChanges) {
		d.Keys.Written = []grapnel.Key{record(*p)}
		return d
	})
}

// DeleteKey revokes an API key at once.
func (b *Book) DeleteKey(ctx context.Context, scope store.Scope, id string, with store.With) error {
	_, err := b.Change(ctx, Change{
		Write: func(now *Snapshot) (store.Put, error) { return store.Put{}, b.o.Store.DeleteKey(ctx, scope, id, with) },
		Apply: func(store.Put) (d store.ConfigChanges) {
			d.Keys.Removed = []string{id}
			return d
		},
	})
	return err
}

// PutTenancy changes the recorded location of a tenant, and returns once every node has applied it.
func (b *Book) PutTenancy(ctx context.Context, t grapnel.Tenancy, from grapnel.TenancyState, audit *grapnel.AuditEntry) (store.Put, error) {
	moving, ok := b.o.Store.(store.Moving)
	if !ok {
		return store.Put{}, grapnel.Errorf(grapnel.CodeInvalid, "tenants cannot be moved to or from this store: it is not PostgreSQL")
	}
	if err := b.Lock(ctx); err != nil {
		return store.Put{}, err
	}
	put, err := moving.PutTenancy(ctx, t, from, audit)
	if err == nil {
		// It may be durable: it has to take effect even if the caller has disconnected.
		err = b.resync(context.WithoutCancel(ctx))
	}
	b.Unlock()
	if err == nil {
		err = b.o.Confirm(context.WithoutCancel(ctx))
	}
	return put, err
}

// RoomFor returns nil if a tenant may have one endpoint more. Two nodes that create one at the same
// moment may both pass the check.
func (c *Snapshot) RoomFor(tenant string, most int) error {
	if most == 0 {
		return nil
	}
	has := 0
	for _, ep := range c.endpoints {
		if ep.Tenant == tenant && ep.DeletedAt.IsZero() {
			has++
		}
	}
	if has < most {
		return nil
	}
	return grapnel.Errorf(grapnel.CodeConflict, "Tenant %s has %d endpoints and queues; %d are allowed. Delete some, or have the operator "+
		"raise --max-endpoints.", tenant, has, most)
}

// Names returns nil if the policy and the source that an endpoint newly names exist: another
// request may have deleted them since the caller found them. before is the stored endpoint, or nil.
// Two nodes that create an endpoint and delete its policy at the same moment may both pass their
// checks.
func (c *Snapshot) Names(ep, before *grapnel.Endpoint) error {
	if before == nil {
		before = &grapnel.Endpoint{}
	}
	named := func(p grapnel.NamedPolicy) bool { return p.Name == ep.PolicyName && p.Tenant == ep.Tenant }
	_, preset := policy.Preset(ep.PolicyName)
	if ep.PolicyName != before.PolicyName && ep.PolicyName != "" && !preset && !slices.ContainsFunc(c.policies, named) {
		return grapnel.Errorf(grapnel.CodeConflict, "the policy %s was deleted", ep.PolicyName)
	}
	if ep.Source != before.Source && ep.Source != "" && find(c.sources, ep.Source, sourceID) == nil {
		return grapnel.Errorf(grapnel.CodeConflict, "the source %s was deleted", ep.Source)
	}
	return nil
}

// readerOf is the id of an endpoint that is bound to a source; empty: none.
func (c *Snapshot) readerOf(source string) string {
	for _, ep := range c.endpoints {
		if ep.Source == source && ep.DeletedAt.IsZero() {
			return ep.ID
		}
	}
	return ""
}

// userOf is the id of an endpoint that names a policy; empty: none.
func (c *Snapshot) userOf(policy string) string {
	p := find(c.policies, policy, policyID)
	if p == nil {
		return ""
	}
	for _, ep := range c.endpoints {
		if ep.PolicyName == p.Name && ep.Tenant == p.Tenant && ep.DeletedAt.IsZero() {
			return ep.ID
		}
	}
	return ""
}
