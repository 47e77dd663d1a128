package configuration

import (
	"context"
	"errors"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// kind is a sort of record: how the store writes one, where changes of the configuration list it,
// and its revision.
type kind[R any] struct {
	put      func(store.Configuration, context.Context, store.Scope, R, store.With) (store.Put, error)
	edits    func(*store.ConfigChanges) *store.Edits[R]
	tenant   func(*R) string
	revision func(*R) *int64 // nil: records of this kind have none
}

var (
	sourceKind = kind[grapnel.Source]{store.Configuration.PutSource,
		func(d *store.ConfigChanges) *store.Edits[grapnel.Source] { return &d.Sources },
		func(r *grapnel.Source) string { return r.Tenant },
		func(s *grapnel.Source) *int64 { return &s.Revision }}
	policyKind = kind[grapnel.NamedPolicy]{store.Configuration.PutPolicy,
		func(d *store.ConfigChanges) *store.Edits[grapnel.NamedPolicy] { return &d.Policies },
		func(r *grapnel.NamedPolicy) string { return r.Tenant },
		func(p *grapnel.NamedPolicy) *int64 { return &p.Revision }}
	typeKind = kind[grapnel.EventType]{store.Configuration.PutEventType,
		func(d *store.ConfigChanges) *store.Edits[grapnel.EventType] { return &d.Types },
		func(r *grapnel.EventType) string { return r.Tenant },
		func(t *grapnel.EventType) *int64 { return &t.Revision }}
	keyKind = kind[grapnel.Key]{put: store.Configuration.PutKey,
		edits:  func(d *store.ConfigChanges) *store.Edits[grapnel.Key] { return &d.Keys },
		tenant: func(k *grapnel.Key) string { return k.Tenant }}
	accessKind = kind[grapnel.AccessRecord]{put: store.Configuration.PutAccess,
		edits:  func(d *store.ConfigChanges) *store.Edits[grapnel.AccessRecord] { return &d.Access },
		tenant: func(r *grapnel.AccessRecord) string { return r.Tenant }}
)

// write commits a record.
func (k kind[R]) write(ctx context.Context, b *Book, scope store.Scope, r R, with store.With) (store.Put, error) {
	return b.Change(ctx, Change{
		Write: func(now *Snapshot) (store.Put, error) {
			if err := now.Accepts(k.tenant(&r)); err != nil {
				return store.Put{}, err
			}
			return k.put(b.o.Store, ctx, scope, r, with)
		},
		Apply: func(put store.Put) store.ConfigChanges { return k.written(&r, put) },
	})
}

// edit replaces a record by what edit makes of it. found returns it as it is in the store at that
// moment, under the lock of the configuration, and the store refuses it if another node has changed
// the configuration since; then this begins again. So it undoes no other request's change, and a
// record that was deleted is not made again.
func (k kind[R]) edit(ctx context.Context, b *Book, scope store.Scope, found func() (R, error),
	edit func(*R) (*grapnel.AuditEntry, error)) (R, error) {
	r, _, err := k.editWith(ctx, b, scope, found, func(r *R) (store.With, error) {
		audit, err := edit(r)
		return store.With{Audit: audit}, err
	})
	return r, err
}

// editWith is edit, with what is stored together with the record.
func (k kind[R]) editWith(ctx context.Context, b *Book, scope store.Scope, found func() (R, error),
	edit func(*R) (store.With, error)) (r R, done store.Put, err error) {
	for {
		done, err = b.Change(ctx, Change{
			Write: func(now *Snapshot) (store.Put, error) {
				if r, err = found(); err != nil {
					return store.Put{}, err
				}
				if err = now.Accepts(k.tenant(&r)); err != nil {
					return store.Put{}, err
				}
				with, err := edit(&r)
				if err != nil {
					return store.Put{}, err
				}
				with.Operational = &store.Batch{Config: now.Version} // ErrStale if another node was faster
				return k.put(b.o.Store, ctx, scope, r, with)
			},
			Apply: func(put store.Put) store.ConfigChanges { return k.written(&r, put) },
		})
		if !errors.Is(err, store.ErrStale) {
			return r, done, err
		}
	}
}

// written is the change that a record was written.
func (k kind[R]) written(r *R, put store.Put) (d store.ConfigChanges) {
	if k.revision != nil {
		*k.revision(r) = put.Revision
	}
	k.edits(&d).Written = []R{*r}
	return d
}

// remove commits the removal of a record by remove.
func (k kind[R]) remove(ctx context.Context, b *Book, id string, remove func(now *Snapshot) (store.Put, error)) (store.Put, error) {
	return b.Change(ctx, Change{
		Write: remove,
		Apply: func(store.Put) (d store.ConfigChanges) {
			k.edits(&d).Removed = []string{id}
			return d
		},
	})
}
