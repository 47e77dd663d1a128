package memory

import (
	"context"
	"slices"
	"sort"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/decide"
)

// Lists of objects are sorted by id.

func search[T decide.Configured](list []T, id string) (int, bool) {
	at := sort.Search(len(list), func(i int) bool { return decide.Describe(&list[i]).ID >= id })
	return at, at < len(list) && decide.Describe(&list[at]).ID == id
}

// find returns the index of an object, or its insertion index, and its stored state.
func find[T decide.Configured](list []T, id string) (at int, o decide.Object) {
	at, there := search(list, id)
	if there {
		is := decide.Describe(&list[at])
		o = decide.Object{There: true, Tenant: is.Tenant, Deleted: is.Deleted}
		if is.Revision != nil {
			o.Revision = *is.Revision
		}
	}
	return at, o
}

// endpoint is the stored state of an endpoint.
func (s *model) endpoint(id string) decide.Object {
	_, o := find(s.config.Endpoints, id)
	return o
}

// Config returns everything, sorted by id.
func (s *model) Config(_ context.Context) (store.Config, error) {
	c := deepCopy(s.config)
	c.Newest = s.made
	return c, nil
}

// Version returns what Config would return as version and newest.
func (s *model) Version(_ context.Context) (version, newest int64, err error) {
	return s.config.Version, s.made, nil
}

// editsKept is the number of latest changes that Changes can return.
const editsKept = 64

// edited makes the next version of the configuration.
func (s *model) edited(kind, id string) {
	s.config.Version++
	s.edits = append(s.edits, edit{kind, id})
	s.edits = s.edits[max(0, len(s.edits)-editsKept):]
}

// Changes has the last few versions.
func (s *model) Changes(_ context.Context, since int64) (store.ConfigChanges, bool, error) {
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
	d.Types, d.Access = edits(s.config.Types, ids["event type"]), edits(s.config.Access, ids["access record"])
	return d, true, nil
}

// edits returns the edits for some ids: each object is written or removed.
func edits[T decide.Configured](list []T, ids []string) (e store.Edits[T]) {
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
// then the version that With.Operational was matched against.
func (s *model) put(with store.With, kind, id string, do func() (revision int64, err error)) (store.Put, error) {
	return s.putting(with, func() (int64, error) {
		revision, err := do()
		if err == nil {
			s.edited(kind, id)
		}
		return revision, err
	})
}

// putting is put for objects that are no part of the configuration.
func (s *model) putting(with store.With, do func() (revision int64, err error)) (store.Put, error) {
	if then, err := s.recall(with.Once); then != nil || err != nil {
		return store.Put{Answer: then}, err
	}
	if s.stale(with.Operational) {
		return store.Put{}, store.ErrStale
	}
	revision, err := do()
	if err != nil {
		return store.Put{}, err
	}
	done := store.Put{Revision: revision, Version: s.config.Version, Operational: s.take(with.Operational)}
	s.note(with.Audit)
	s.remember(with.Once, done)
	return done, nil
}

// putObject writes an object into its list.
func putObject[T decide.Configured](s *model, scope store.Scope, list *[]T, o T, kind, named string,
	with store.With) (store.Put, error) {
	is := decide.Describe(&o)
	return s.put(with, kind, is.ID, func() (int64, error) {
		at, there := find(*list, is.ID)
		if err := there.Writable(scope, is.Tenant, kind); err != nil {
			return 0, err
		}
		if err := there.Revisable(is.Read(), kind); err != nil {
			return 0, err
		}
		for i := range *list {
			if its := decide.Describe(&(*list)[i]); is.Name != "" && its.Name == is.Name && its.Tenant == is.Tenant && its.ID != is.ID {
				return 0, decide.ErrNamed(named)
			}
		}
		revision := int64(0)
		if is.Revision != nil {
			revision = there.Revision + 1
			*is.Revision = revision
		}
		if !there.There {
			*list = slices.Insert(*list, at, o)
		}
		(*list)[at] = deepCopy(o)
		return revision, nil
	})
}

// drop deletes an object from its list.
func drop[T decide.Configured](scope store.Scope, list *[]T, id, kind string) error {
	at, there := find(*list, id)
	if err := there.Removable(scope, kind); err != nil {
		return err
	}
	*list = slices.Delete(*list, at, at+1)
	return nil
}

// remove deletes an event type, a policy or a key.
func remove[T decide.Configured](s *model, scope store.Scope, list *[]T, id, kind string, with store.With) error {
	_, err := s.put(store.With{Audit: with.Audit}, kind, id, func() (int64, error) { return 0, drop(scope, list, id, kind) })
	return err
}

// PutEndpoint gives a new endpoint revision 1.
func (s *model) PutEndpoint(_ context.Context, scope store.Scope, ep grapnel.Endpoint, with store.With) (store.Put, error) {
	return putObject(s, scope, &s.config.Endpoints, ep, "endpoint", "queue", with)
}

// RemoveEndpoint also deletes the endpoint's standing.
func (s *model) RemoveEndpoint(_ context.Context, id string) error {
	_, err := s.put(store.With{}, "endpoint", id, func() (int64, error) {
		there := s.endpoint(id)
		if err := there.Leaves(s.queue(id).pending.size > 0); err != nil {
			return 0, err
		}
		delete(s.standings, id)
		return 0, drop(store.Everyone(), &s.config.Endpoints, id, "endpoint")
	})
	return err
}

// PutSource gives a new source revision 1.
func (s *model) PutSource(_ context.Context, scope store.Scope, src grapnel.Source, with store.With) (store.Put, error) {
	return putObject(s, scope, &s.config.Sources, src, "source", "source", with)
}

// DeleteSource deletes a source.
func (s *model) DeleteSource(_ context.Context, scope store.Scope, id string, with store.With) (store.Put, error) {
	return s.put(with, "source", id, func() (int64, error) { return 0, drop(scope, &s.config.Sources, id, "source") })
}

// PutPolicy counts revisions but does not require one.
func (s *model) PutPolicy(_ context.Context, scope store.Scope, p grapnel.NamedPolicy, with store.With) (store.Put, error) {
	return putObject(s, scope, &s.config.Policies, p, "policy", "policy", with)
}

// DeletePolicy deletes a policy. It does not check whether an endpoint still names it.
func (s *model) DeletePolicy(_ context.Context, scope store.Scope, id string, with store.With) error {
	return remove(s, scope, &s.config.Policies, id, "policy", with)
}

// PutEventType gives a new event type revision 1.
func (s *model) PutEventType(_ context.Context, scope store.Scope, t grapnel.EventType, with store.With) (store.Put, error) {
	return putObject(s, scope, &s.config.Types, t, "event type", "event type", with)
}

// DeleteEventType deletes an event type with all its versions.
func (s *model) DeleteEventType(_ context.Context, scope store.Scope, id string, with store.With) error {
	return remove(s, scope, &s.config.Types, id, "event type", with)
}

// PutKey returns revision 0: keys have none. Only store.Everyone may write a key without a tenant.
func (s *model) PutKey(_ context.Context, scope store.Scope, k grapnel.Key, with store.With) (store.Put, error) {
	return putObject(s, scope, &s.config.Keys, k, "key", "", with)
}

// DeleteKey deletes an API key.
func (s *model) DeleteKey(_ context.Context, scope store.Scope, id string, with store.With) error {
	return remove(s, scope, &s.config.Keys, id, "key", with)
}

// PutAccess returns revision 0, as PutKey does.
func (s *model) PutAccess(_ context.Context, scope store.Scope, r grapnel.AccessRecord, with store.With) (store.Put, error) {
	return putObject(s, scope, &s.config.Access, r, "access record", "", with)
}

// DeleteAccess deletes an access record.
func (s *model) DeleteAccess(_ context.Context, scope store.Scope, id string, with store.With) error {
	return remove(s, scope, &s.config.Access, id, "access record", with)
}
