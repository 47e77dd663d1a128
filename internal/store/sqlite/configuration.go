package sqlite

import (
	"context"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// object is a configuration object without its body.
type object struct {
	there    bool
	tenant   string
	revision int64
	deleted  bool
}

// readObject reads tenant, revision and deleted, as far as the statement returns them.
func readObject(q *sqlite3.Stmt) (object, error) {
	found, err := q.Row()
	if !found {
		return object{}, err
	}
	defer q.Reset()
	return object{there: true, tenant: q.String(0), revision: q.Integer(1), deleted: q.Integer(2) == 1}, nil
}

func (t *tx) endpointRow(id string) (object, error) { return readObject(t.q.endpoint.Text(id)) }

// writable says whether a scope may write an object of a tenant over an existing one. An object
// keeps its tenant: an object with the same id of another tenant is not found.
func writable(scope store.Scope, at object, tenant, what string) error {
	if !scope.Allows(tenant) || at.there && at.tenant != tenant {
		return store.ErrNotFound(what)
	}
	return nil
}

// putting is the operation of the calls that write configuration, and replays.
type putting struct {
	with store.With
	tell *batch // instead of with.Tell
	do   func(*tx) (revision int64, err error)
	keep bool // the object is no part of the configuration, so its version stays
	full bool // also when the disk is full
	done store.Put
}

func (o *putting) grows() bool { return !o.full }

func (o *putting) apply(t *tx) error {
	o.done = store.Put{}
	then, err := t.recall(o.with.Once)
	if then != nil || err != nil {
		o.done.Answer = then
		return err
	}
	if o.tell.stale(t) {
		return store.ErrStale
	}
	revision, err := o.do(t)
	if err != nil {
		return err
	}
	told, err := o.tell.told(t)
	if err == nil && o.with.Audit != nil {
		err = t.note(o.with.Audit)
	}
	if err != nil {
		return err
	}
	if !o.keep {
		t.version++
	}
	o.done = store.Put{Revision: revision, Version: t.version, Told: told}
	_, err = t.remember(o.with.Once, o.done)
	return err
}

func (s *Store) put(ctx context.Context, with store.With, do func(*tx) (int64, error)) (store.Put, error) {
	return s.putting(ctx, &putting{with: with, do: do})
}

func (s *Store) putting(ctx context.Context, o *putting) (store.Put, error) {
	o.tell = s.batch(o.with.Tell)
	err := s.write(ctx, o)
	return o.done, err
}

// remove is the operation of the calls that delete configuration.
func (s *Store) remove(ctx context.Context, with store.With, do func(*tx) error) error {
	return s.write(ctx, &change{shrinks: true, do: func(t *tx) error {
		if err := do(t); err != nil {
			return err
		}
		t.version++
		if with.Audit == nil {
			return nil
		}
		return t.note(with.Audit)
	}})
}

// PutEndpoint gives a new endpoint revision 1.
func (s *Store) PutEndpoint(ctx context.Context, scope store.Scope, ep grapnel.Endpoint, with store.With) (store.Put, error) {
	before := ep.Revision
	ep.Revision++
	body, err := codec.EncodeEndpoint(ep)
	if err != nil {
		return store.Put{}, err
	}
	return s.put(ctx, with, func(t *tx) (int64, error) {
		at, err := t.endpointRow(ep.ID)
		if err == nil {
			err = writable(scope, at, ep.Tenant, "endpoint")
		}
		switch {
		case err != nil:
			return 0, err
		case !at.there && before != 0:
			return 0, store.ErrNotFound("endpoint")
		case at.revision != before:
			return 0, grapnel.Errorf(grapnel.CodeConflict, "the endpoint has changed since it was read")
		}
		queue := ""
		if ep.Queue != nil && ep.DeletedAt.IsZero() {
			queue = ep.Queue.Name
			if err := unnamed(t.q.queueNamed.Text(ep.Tenant).Text(queue), ep.ID, "queue"); err != nil {
				return 0, err
			}
		}
		set := t.q.setEndpoint.Text(ep.ID).Text(ep.Tenant).Int(ep.Revision).Bool(!ep.DeletedAt.IsZero()).Blob(body)
		return ep.Revision, bindName(set, queue).Run()
	})
}

// unnamed fails with a conflict if a name is used by an object other than the given one. named
// looks up the id of the object with the name.
func unnamed(named *sqlite3.Stmt, id, what string) error {
	taken, err := named.Row()
	if !taken {
		return err
	}
	defer named.Reset()
	if named.String(0) != id {
		return grapnel.Errorf(grapnel.CodeConflict, "the name is already used by another %s", what)
	}
	return nil
}

// RemoveEndpoint fails with grapnel.CodeConflict for an endpoint that is not marked as deleted, or
// has pending deliveries. Its finished deliveries stay in the history.
func (s *Store) RemoveEndpoint(ctx context.Context, id string) error {
	return s.remove(ctx, store.With{}, func(t *tx) error {
		at, err := t.endpointRow(id)
		switch {
		case err != nil:
			return err
		case !at.there:
			return store.ErrNotFound("endpoint")
		case !at.deleted:
			return grapnel.Errorf(grapnel.CodeConflict, "the endpoint is not deleted")
		}
		waits, err := t.waits(id)
		switch {
		case err != nil:
			return err
		case waits:
			return grapnel.Errorf(grapnel.CodeConflict, "the endpoint has pending deliveries")
		}
		if err := t.q.dropStanding.Text(id).Run(); err != nil {
			return err
		}
		return t.q.dropEndpoint.Text(id).Run()
	})
}

// waits says whether an endpoint has pending deliveries. It adds this transaction's changes to the
// count in the database.
func (t *tx) waits(endpoint string) (bool, error) {
	target, err := t.target(endpoint)
	if err != nil {
		return false, err
	}
	q := t.q.waiting.Int(target)
	found, err := q.Row()
	if !found {
		return false, orMangled(err)
	}
	defer q.Reset()
	n := q.Integer(0)
	for at, by := range t.tallies {
		if at.target == target && at.status == statusPending {
			n += by
		}
	}
	return n > 0, nil
}

// PutPolicy counts revisions but does not require one.
func (s *Store) PutPolicy(ctx context.Context, scope store.Scope, p grapnel.NamedPolicy, with store.With) (store.Put, error) {
	body, err := codec.EncodePolicy(p)
	if err != nil {
		return store.Put{}, err
	}
	return s.put(ctx, with, func(t *tx) (int64, error) {
		at, err := readObject(t.q.policy.Text(p.ID))
		if err == nil {
			err = writable(scope, at, p.Tenant, "policy")
		}
		if err == nil {
			err = unnamed(t.q.policyNamed.Text(p.Tenant).Text(p.Name), p.ID, "policy")
		}
		if err != nil {
			return 0, err
		}
		return at.revision + 1, t.q.setPolicy.Text(p.ID).Text(p.Tenant).Int(at.revision + 1).Text(p.Name).Blob(body).Run()
	})
}

// DeletePolicy deletes a policy. It does not check whether an endpoint still names it.
func (s *Store) DeletePolicy(ctx context.Context, scope store.Scope, id string, with store.With) error {
	return s.remove(ctx, with, func(t *tx) error {
		at, err := readObject(t.q.policy.Text(id))
		if err == nil && !(at.there && scope.Allows(at.tenant)) {
			err = store.ErrNotFound("policy")
		}
		if err != nil {
			return err
		}
		return t.q.dropPolicy.Text(id).Run()
	})
}

// PutKey returns revision 0: keys have none. Only store.Everyone may write a key without a tenant.
func (s *Store) PutKey(ctx context.Context, scope store.Scope, k grapnel.Key, with store.With) (store.Put, error) {
	body, err := codec.EncodeKey(k)
	if err != nil {
		return store.Put{}, err
	}
	return s.put(ctx, with, func(t *tx) (int64, error) {
		at, err := readObject(t.q.apiKey.Text(k.ID))
		if err == nil {
			err = writable(scope, at, k.Tenant, "key")
		}
		if err != nil {
			return 0, err
		}
		return 0, t.q.setAPIKey.Text(k.ID).Text(k.Tenant).Blob(body).Run()
	})
}

// DeleteKey deletes an API key.
func (s *Store) DeleteKey(ctx context.Context, scope store.Scope, id string, with store.With) error {
	return s.remove(ctx, with, func(t *tx) error {
		at, err := readObject(t.q.apiKey.Text(id))
		if err == nil && !(at.there && scope.Allows(at.tenant)) {
			err = store.ErrNotFound("key")
		}
		if err != nil {
			return err
		}
		return t.q.dropAPIKey.Text(id).Run()
	})
}

// Version returns what Config would return as version and newest.
func (s *Store) Version(ctx context.Context) (version, newest int64, err error) {
	err = s.snapshot(ctx, func(r *sqlite3.Conn) error {
		version, newest, err = age(r)
		return err
	})
	return version, newest, err
}

// Changes only says whether the version has changed: a process that has the store to itself knows
// its own writes, and reads Config when an answer was lost.
func (s *Store) Changes(ctx context.Context, since int64) (store.ConfigChanges, bool, error) {
	version, newest, err := s.Version(ctx)
	return store.ConfigChanges{Version: version, Newest: newest}, err == nil && version == since, err
}

func age(r *sqlite3.Conn) (version, newest int64, err error) {
	if version, err = one(r, "SELECT version FROM configuration"); err != nil {
		return 0, 0, err
	}
	newest, err = one(r, newestQuery)
	return version, newest, err
}

// Config returns all objects, sorted by id.
func (s *Store) Config(ctx context.Context) (c store.Config, err error) {
	err = s.snapshot(ctx, func(r *sqlite3.Conn) error {
		if c.Version, c.Newest, err = age(r); err != nil {
			return err
		}
		if c.Endpoints, err = bodies(r, "SELECT revision, body FROM endpoint ORDER BY id", codec.DecodeEndpoint); err != nil {
			return err
		}
		if c.Sources, err = bodies(r, "SELECT revision, body FROM source ORDER BY id", codec.DecodeSource); err != nil {
			return err
		}
		if c.Policies, err = bodies(r, "SELECT revision, body FROM policy ORDER BY id", codec.DecodePolicy); err != nil {
			return err
		}
		if c.Types, err = bodies(r, "SELECT revision, body FROM event_type ORDER BY id", codec.DecodeEventType); err != nil {
			return err
		}
		c.Keys, err = bodies(r, "SELECT 0, body FROM api_key ORDER BY id", codec.DecodeKey)
		return err
	})
	return c, err
}

func bodies[T any](r *sqlite3.Conn, query string, decode func(revision int64, body []byte) (T, error)) ([]T, error) {
	q, err := r.Prepare(query)
	if err != nil {
		return nil, err
	}
	defer q.Reset()
	var all []T
	for {
		more, err := q.Next()
		if !more {
			return all, err
		}
		one, err := decode(q.Integer(0), q.Bytes(1))
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
}
