package memory

import (
	"cmp"
	"context"
	"slices"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// object is a type of configuration object. Lists of objects are sorted by id.
type object interface {
	grapnel.Endpoint | grapnel.Source | grapnel.NamedPolicy | grapnel.EventType | grapnel.Key
}

// owned returns an object's id and tenant.
func owned[T object](o T) (id, tenant string) {
	switch o := any(o).(type) {
	case grapnel.Endpoint:
		return o.ID, o.Tenant
	case grapnel.Source:
		return o.ID, o.Tenant
	case grapnel.NamedPolicy:
		return o.ID, o.Tenant
	case grapnel.EventType:
		return o.ID, o.Tenant
	case grapnel.Key:
		return o.ID, o.Tenant
	}
	panic("memory: unknown kind of configuration")
}

func search[T object](list []T, id string) (int, bool) {
	return slices.BinarySearchFunc(list, id, func(o T, id string) int {
		at, _ := owned(o)
		return cmp.Compare(at, id)
	})
}

// writable returns o's index or insertion index, and whether the scope may write it there. An
// object keeps its tenant: an object with the same id of another tenant is not found.
func writable[T object](scope store.Scope, list []T, o T, what string) (at int, there bool, err error) {
	id, tenant := owned(o)
	at, there = search(list, id)
	if !scope.Allows(tenant) {
		return at, there, store.ErrNotFound(what)
	}
	if there {
		if _, before := owned(list[at]); before != tenant {
			return at, there, store.ErrNotFound(what)
		}
	}
	return at, there, nil
}

func put[T object](list []T, at int, there bool, o T) []T {
	if there {
		list[at] = deepCopy(o)
		return list
	}
	return slices.Insert(list, at, deepCopy(o))
}

// Config returns everything, sorted by id.
func (s *Store) Config(ctx context.Context) (store.Config, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return store.Config{}, err
	}
	defer leave()
	c := deepCopy(s.config)
	c.Newest = s.made
	return c, nil
}

// Version returns what Config would return as version and newest.
func (s *Store) Version(ctx context.Context) (version, newest int64, err error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer leave()
	return s.config.Version, s.made, nil
}

// editsKept is the number of latest changes that Changes can return.
const editsKept = 64

// edit says which object a version of the configuration has changed.
type edit struct{ kind, id string }

// edited makes the next version of the configuration.
func (s *Store) edited(kind, id string) {
	s.config.Version++
	s.edits = append(s.edits, edit{kind, id})
	s.edits = s.edits[max(0, len(s.edits)-editsKept):]
}

// Changes has the last few versions.
func (s *Store) Changes(ctx context.Context, since int64) (store.ConfigChanges, bool, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return store.ConfigChanges{}, false, err
	}
	defer leave()
	d := store.ConfigChanges{Version: s.config.Version, Newest: s.made}
	n := s.config.Version - since
	if n < 0 || n > int64(len(s.edits)) {
		return d, false, nil
	}
	ids := map[string][]string{}
	for _, e := range s.edits[int64(len(s.edits))-n:] {
		ids[e.kind] = append(ids[e.kind], e.id)
	}
	d.Endpoints, d.Sources = edits(s.config.Endpoints, ids["endpoint"]), edits(s.config.Sources, ids["source"])
	d.Policies, d.Keys = edits(s.config.Policies, ids["policy"]), edits(s.config.Keys, ids["key"])
	d.Types = edits(s.config.Types, ids["event type"])
	return d, true, nil
}

// edits returns the edits for some ids: each object is written or removed.
func edits[T object](list []T, ids []string) (e store.Edits[T]) {
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		if at, there := search(list, id); there {
			e.Written = append(e.Written, deepCopy(list[at]))
		} else {
			e.Removed = append(e.Removed, id)
		}
	}
	return e
}

// put frames every change of the configuration: first the stored answer of the idempotency key,
// then the version that With.Tell was matched against.
func (s *Store) put(ctx context.Context, with store.With, kind, id string, do func() (revision int64, err error)) (store.Put, error) {
	return s.putting(ctx, with, func() (int64, error) {
		revision, err := do()
		if err == nil {
			s.edited(kind, id)
		}
		return revision, err
	})
}

// putting is put for objects that are no part of the configuration.
func (s *Store) putting(ctx context.Context, with store.With, do func() (revision int64, err error)) (store.Put, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return store.Put{}, err
	}
	defer leave()
	if then, err := s.recall(with.Once); then != nil || err != nil {
		return store.Put{Answer: then}, err
	}
	if s.stale(with.Tell) {
		return store.Put{}, store.ErrStale
	}
	revision, err := do()
	if err != nil {
		return store.Put{}, err
	}
	done := store.Put{Revision: revision, Version: s.config.Version, Told: s.take(with.Tell)}
	s.note(with.Audit)
	s.remember(with.Once, done)
	return done, nil
}

// PutEndpoint gives a new endpoint revision 1.
func (s *Store) PutEndpoint(ctx context.Context, scope store.Scope, ep grapnel.Endpoint, with store.With) (store.Put, error) {
	return s.put(ctx, with, "endpoint", ep.ID, func() (int64, error) {
		at, there, err := writable(scope, s.config.Endpoints, ep, "endpoint")
		switch {
		case err != nil:
			return 0, err
		case !there && ep.Revision != 0:
			return 0, store.ErrNotFound("endpoint")
		case there && s.config.Endpoints[at].Revision != ep.Revision:
			return 0, grapnel.Errorf(grapnel.CodeConflict, "the endpoint has changed since it was read")
		case s.queueNamed(ep):
			return 0, grapnel.Errorf(grapnel.CodeConflict, "the name is already used by another queue")
		}
		ep.Revision++
		s.config.Endpoints = put(s.config.Endpoints, at, there, ep)
		return ep.Revision, nil
	})
}

// queueNamed says whether another queue of its tenant has the name of ep. One that is marked as
// deleted has none.
func (s *Store) queueNamed(ep grapnel.Endpoint) bool {
	return ep.Queue != nil && ep.DeletedAt.IsZero() && slices.ContainsFunc(s.config.Endpoints, func(other grapnel.Endpoint) bool {
		return other.Queue != nil && other.DeletedAt.IsZero() && other.ID != ep.ID && other.Tenant == ep.Tenant &&
			other.Queue.Name == ep.Queue.Name
	})
}

// RemoveEndpoint fails with grapnel.CodeConflict for an endpoint that is not marked as deleted, or
// has pending deliveries. Its finished deliveries stay in the history.
func (s *Store) RemoveEndpoint(ctx context.Context, id string) error {
	leave, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	at, there := search(s.config.Endpoints, id)
	switch {
	case !there:
		return store.ErrNotFound("endpoint")
	case s.config.Endpoints[at].DeletedAt.IsZero():
		return grapnel.Errorf(grapnel.CodeConflict, "the endpoint is not deleted")
	case s.queue(id).pending.size > 0:
		return grapnel.Errorf(grapnel.CodeConflict, "the endpoint has pending deliveries")
	}
	s.config.Endpoints = slices.Delete(s.config.Endpoints, at, at+1)
	delete(s.standings, id)
	s.edited("endpoint", id)
	return nil
}

// PutPolicy counts revisions but does not require one.
func (s *Store) PutPolicy(ctx context.Context, scope store.Scope, p grapnel.NamedPolicy, with store.With) (store.Put, error) {
	return s.put(ctx, with, "policy", p.ID, func() (int64, error) {
		at, there, err := writable(scope, s.config.Policies, p, "policy")
		if err != nil {
			return 0, err
		}
		for _, other := range s.config.Policies {
			if other.Tenant == p.Tenant && other.Name == p.Name && other.ID != p.ID {
				return 0, grapnel.Errorf(grapnel.CodeConflict, "the name is already used by another policy")
			}
		}
		p.Revision = 1
		if there {
			p.Revision = s.config.Policies[at].Revision + 1
		}
		s.config.Policies = put(s.config.Policies, at, there, p)
		return p.Revision, nil
	})
}

// DeletePolicy deletes a policy. It does not check whether an endpoint still names it.
func (s *Store) DeletePolicy(ctx context.Context, scope store.Scope, id string, with store.With) error {
	return remove(ctx, s, scope, &s.config.Policies, id, "policy", with)
}

// remove removes a policy or a key from its list.
func remove[T object](ctx context.Context, s *Store, scope store.Scope, list *[]T, id, what string, with store.With) error {
	leave, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	at, there := search(*list, id)
	if there {
		_, tenant := owned((*list)[at])
		there = scope.Allows(tenant)
	}
	if !there {
		return store.ErrNotFound(what)
	}
	*list = slices.Delete(*list, at, at+1)
	s.edited(what, id)
	s.note(with.Audit)
	return nil
}

// PutKey returns revision 0: keys have none. Only store.Everyone may write a key without a tenant.
func (s *Store) PutKey(ctx context.Context, scope store.Scope, k grapnel.Key, with store.With) (store.Put, error) {
	return s.put(ctx, with, "key", k.ID, func() (int64, error) {
		at, there, err := writable(scope, s.config.Keys, k, "key")
		if err != nil {
			return 0, err
		}
		s.config.Keys = put(s.config.Keys, at, there, k)
		return 0, nil
	})
}

// DeleteKey deletes an API key.
func (s *Store) DeleteKey(ctx context.Context, scope store.Scope, id string, with store.With) error {
	return remove(ctx, s, scope, &s.config.Keys, id, "key", with)
}
