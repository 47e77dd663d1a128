package configuration

import (
	"context"
	"slices"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// PutSource creates a source or replaces the revision it carries.
func (b *Book) PutSource(ctx context.Context, scope store.Scope, src grapnel.Source, with store.With) (store.Put, error) {
	return sourceKind.write(ctx, b, scope, src, with)
}

// DeleteSource deletes a source for good. Its messages stay.
func (b *Book) DeleteSource(ctx context.Context, scope store.Scope, id string, with store.With) (store.Put, error) {
	return sourceKind.remove(ctx, b, id, func(now *Snapshot) (store.Put, error) {
		if user := now.readerOf(id); user != "" {
			return store.Put{}, grapnel.Errorf(grapnel.CodeConflict, "endpoint %s takes only the messages of this source", user)
		}
		return b.o.Store.DeleteSource(ctx, scope, id, with)
	})
}

// PutPolicy creates or replaces a named policy. Endpoints that name it follow it from now on.
func (b *Book) PutPolicy(ctx context.Context, scope store.Scope, p grapnel.NamedPolicy, with store.With) (store.Put, error) {
	return policyKind.write(ctx, b, scope, p, with)
}

// ChangePolicy replaces a named policy by what edit makes of it, and returns it; see kind.edit.
func (b *Book) ChangePolicy(ctx context.Context, scope store.Scope, id string,
	edit func(*grapnel.NamedPolicy) (*grapnel.AuditEntry, error)) (grapnel.NamedPolicy, error) {
	return policyKind.edit(ctx, b, scope, func() (grapnel.NamedPolicy, error) {
		if p := find(b.Policies(scope), id, policyID); p != nil {
			return *p, nil
		}
		return grapnel.NamedPolicy{}, store.ErrNotFound("policy")
	}, edit)
}

// DeletePolicy removes a named policy that no endpoint uses.
func (b *Book) DeletePolicy(ctx context.Context, scope store.Scope, id string, with store.With) error {
	_, err := policyKind.remove(ctx, b, id, func(now *Snapshot) (store.Put, error) {
		if user := now.userOf(id); user != "" {
			return store.Put{}, grapnel.Errorf(grapnel.CodeConflict, "the policy is used by endpoint %s", user)
		}
		return store.Put{}, b.o.Store.DeletePolicy(ctx, scope, id, with)
	})
	return err
}

// PutEventType creates an event type or replaces the revision it carries.
func (b *Book) PutEventType(ctx context.Context, scope store.Scope, t grapnel.EventType, with store.With) (store.Put, error) {
	return typeKind.write(ctx, b, scope, t, with)
}

// DeleteEventType deletes an event type with all its versions.
func (b *Book) DeleteEventType(ctx context.Context, scope store.Scope, id string, with store.With) error {
	_, err := typeKind.remove(ctx, b, id, func(*Snapshot) (store.Put, error) {
		return store.Put{}, b.o.Store.DeleteEventType(ctx, scope, id, with)
	})
	return err
}

// PutKey creates or replaces an API key.
func (b *Book) PutKey(ctx context.Context, scope store.Scope, k grapnel.Key, with store.With) (store.Put, error) {
	return keyKind.write(ctx, b, scope, k, with)
}

// ChangeKey replaces an API key by what edit makes of it, and returns it; see kind.edit. A key that
// another request has revoked stays revoked.
func (b *Book) ChangeKey(ctx context.Context, scope store.Scope, id string, edit func(*grapnel.Key) (*grapnel.AuditEntry, error)) (
	grapnel.Key, error) {
	return keyKind.edit(ctx, b, scope, func() (grapnel.Key, error) {
		if k := find(b.Keys(scope), id, keyID); k != nil {
			return *k, nil
		}
		return grapnel.Key{}, store.ErrNotFound("key")
	}, edit)
}

// DeleteKey revokes an API key at once.
func (b *Book) DeleteKey(ctx context.Context, scope store.Scope, id string, with store.With) error {
	_, err := keyKind.remove(ctx, b, id, func(*Snapshot) (store.Put, error) {
		return store.Put{}, b.o.Store.DeleteKey(ctx, scope, id, with)
	})
	return err
}

// PutAccess creates or replaces an access record.
func (b *Book) PutAccess(ctx context.Context, scope store.Scope, r grapnel.AccessRecord, with store.With) (store.Put, error) {
	return accessKind.write(ctx, b, scope, r, with)
}

// ChangePortal replaces how a tenant's portal looks by what edit makes of it, and returns it; see
// kind.edit.
func (b *Book) ChangePortal(ctx context.Context, scope store.Scope, tenant string,
	edit func(*grapnel.Portal) (*grapnel.AuditEntry, error)) (grapnel.Portal, error) {
	r, err := accessKind.edit(ctx, b, scope, func() (grapnel.AccessRecord, error) {
		return grapnel.PortalRecord(tenant, b.Access(grapnel.PortalID(tenant)).Looks()), nil
	}, func(r *grapnel.AccessRecord) (*grapnel.AuditEntry, error) { return edit(r.Portal) })
	return r.Looks(), err
}

// ChangeTerms replaces the operator's settings for a tenant by what edit makes of them, and returns
// them; see kind.edit.
func (b *Book) ChangeTerms(ctx context.Context, scope store.Scope, tenant string,
	edit func(*grapnel.Terms) (*grapnel.AuditEntry, error)) (grapnel.Terms, error) {
	r, err := accessKind.edit(ctx, b, scope, b.termsOf(tenant), func(r *grapnel.AccessRecord) (*grapnel.AuditEntry, error) { return edit(r.Terms) })
	return valueOf(r.Terms), err
}

// termsOf finds the record of a tenant's settings.
func (b *Book) termsOf(tenant string) func() (grapnel.AccessRecord, error) {
	return func() (grapnel.AccessRecord, error) { return grapnel.TermsRecord(tenant, b.Terms(tenant)), nil }
}

// ChangeSender replaces how messages reach the contacts of customers likewise.
func (b *Book) ChangeSender(ctx context.Context, edit func(*grapnel.Sender) (*grapnel.AuditEntry, error)) (grapnel.Sender, error) {
	r, err := accessKind.edit(ctx, b, store.Everyone(), func() (grapnel.AccessRecord, error) {
		return grapnel.SenderRecord(b.Sender()), nil
	}, func(r *grapnel.AccessRecord) (*grapnel.AuditEntry, error) { return edit(r.Sender) })
	return valueOf(r.Sender), err
}

// CreateTerms is ChangeTerms for a request that may be repeated: edit says what is stored with the
// settings, and an answer that was stored for the request before is returned.
func (b *Book) CreateTerms(ctx context.Context, scope store.Scope, tenant string, edit func(*grapnel.Terms) (store.With, error)) (
	grapnel.Terms, *store.Answer, error) {
	r, done, err := accessKind.editWith(ctx, b, scope, b.termsOf(tenant), func(r *grapnel.AccessRecord) (store.With, error) { return edit(r.Terms) })
	return valueOf(r.Terms), done.Answer, err
}

// DeleteAccess deletes an access record.
func (b *Book) DeleteAccess(ctx context.Context, scope store.Scope, id string, with store.With) error {
	_, err := accessKind.remove(ctx, b, id, func(*Snapshot) (store.Put, error) {
		return store.Put{}, b.o.Store.DeleteAccess(ctx, scope, id, with)
	})
	return err
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
