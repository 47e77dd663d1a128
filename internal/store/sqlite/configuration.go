package sqlite

import (
	"context"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/decide"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// objectKind is a kind of configuration objects whose names are unique within a tenant.
type objectKind int

const (
	sources objectKind = iota
	policies
	eventTypes
)

var objectKinds = [...]struct{ what, table string }{{"source", "source"}, {"policy", "policy"}, {"event type", "event_type"}}

// objects are the statements of a kind.
type objects struct{ row, named, set, drop *sqlite3.Stmt }

func (o *objects) all(table string) []text {
	return []text{
		{&o.row, "SELECT tenant, revision FROM " + table + " WHERE id = ?"},
		{&o.named, "SELECT id FROM " + table + " WHERE tenant = ? AND name = ?"},
		{&o.set, "INSERT INTO " + table + ` (id, tenant, revision, name, body) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (id) DO UPDATE SET revision = excluded.revision, name = excluded.name, body = excluded.body`},
		{&o.drop, "DELETE FROM " + table + " WHERE id = ?"},
	}
}

// readObject reads tenant, revision and deleted, as far as the statement returns them.
func readObject(q *sqlite3.Stmt) (decide.Object, error) {
	found, err := q.Row()
	if !found {
		return decide.Object{}, err
	}
	defer q.Reset()
	return decide.Object{There: true, Tenant: q.String(0), Revision: q.Integer(1), Deleted: q.Integer(2) == 1}, nil
}

func (t *tx) endpointRow(id string) (decide.Object, error) { return readObject(t.q.endpoint.Text(id)) }

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
	if err == nil {
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
		return t.note(with.Audit)
	}})
}

// PutEndpoint gives a new endpoint revision 1.
func (s *Store) PutEndpoint(ctx context.Context, scope store.Scope, ep grapnel.Endpoint, with store.With) (store.Put, error) {
	is, before := decide.Describe(&ep), ep.Revision
	ep.Revision++
	body, err := codec.EncodeEndpoint(ep)
	if err != nil {
		return store.Put{}, err
	}
	return s.put(ctx, with, func(t *tx) (int64, error) {
		at, err := t.endpointRow(ep.ID)
		if err == nil {
			err = at.Writable(scope, ep.Tenant, "endpoint")
		}
		if err == nil {
			err = at.Revisable(before, "endpoint")
		}
		if err == nil && is.Name != "" {
			err = unnamed(t.q.queueNamed.Text(ep.Tenant).Text(is.Name), ep.ID, "queue")
		}
		if err != nil {
			return 0, err
		}
		set := t.q.setEndpoint.Text(ep.ID).Text(ep.Tenant).Int(ep.Revision).Bool(!ep.DeletedAt.IsZero()).Blob(body)
		return ep.Revision, bindName(set, is.Name).Run()
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
		return decide.ErrNamed(what)
	}
	return nil
}

// RemoveEndpoint also deletes the endpoint's standing.
func (s *Store) RemoveEndpoint(ctx context.Context, id string) error {
	return s.remove(ctx, store.With{}, func(t *tx) error {
		at, err := t.endpointRow(id)
		if err == nil {
			err = at.Leaves(false)
		}
		waits := false
		if err == nil {
			waits, err = t.waits(id)
		}
		if err == nil {
			err = at.Leaves(waits)
		}
		if err == nil {
			err = t.q.dropStanding.Text(id).Run()
		}
		if err == nil {
			err = t.q.dropEndpoint.Text(id).Run()
		}
		return err
	})
}

// waits says whether an endpoint has pending deliveries. It adds this transaction's changes to the
// count in the database.
func (t *tx) waits(endpoint string) (bool, error) {
	target, err := t.target(endpoint)
	if err != nil {
		return false, err
	}
	n, err := lookUp(t.q.waiting.Int(target))
	for at, by := range t.tallies {
		if at.target == target && at.status == statusPending {
			n += by
		}
	}
	return n > 0, err
}

// putNamed writes an object of a kind whose names are unique within a tenant.
func putNamed[T decide.Configured](ctx context.Context, s *Store, scope store.Scope, with store.With, kind objectKind, o T,
	encode func(T) ([]byte, error)) (store.Put, error) {
	is := decide.Describe(&o)
	read := is.Read()
	*is.Revision++
	body, err := encode(o)
	if err != nil {
		return store.Put{}, err
	}
	return s.put(ctx, with, func(t *tx) (int64, error) {
		q, what := &t.q.objects[kind], objectKinds[kind].what
		at, err := readObject(q.row.Text(is.ID))
		if err == nil {
			err = at.Writable(scope, is.Tenant, what)
		}
		if err == nil {
			err = at.Revisable(read, what)
		}
		if err == nil {
			err = unnamed(q.named.Text(is.Tenant).Text(is.Name), is.ID, what)
		}
		if err != nil {
			return 0, err
		}
		return at.Revision + 1, q.set.Text(is.ID).Text(is.Tenant).Int(at.Revision + 1).Text(is.Name).Blob(body).Run()
	})
}

// dropObject deletes an object, which a statement finds.
func dropObject(row, drop *sqlite3.Stmt, scope store.Scope, id, what string) error {
	at, err := readObject(row.Text(id))
	if err == nil {
		err = at.Removable(scope, what)
	}
	if err != nil {
		return err
	}
	return drop.Text(id).Run()
}

func (t *tx) dropNamed(scope store.Scope, kind objectKind, id string) error {
	return dropObject(t.q.objects[kind].row, t.q.objects[kind].drop, scope, id, objectKinds[kind].what)
}

// PutSource gives a new source revision 1.
func (s *Store) PutSource(ctx context.Context, scope store.Scope, src grapnel.Source, with store.With) (store.Put, error) {
	return putNamed(ctx, s, scope, with, sources, src, codec.EncodeSource)
}

// DeleteSource deletes a source.
func (s *Store) DeleteSource(ctx context.Context, scope store.Scope, id string, with store.With) (store.Put, error) {
	return s.put(ctx, with, func(t *tx) (int64, error) { return 0, t.dropNamed(scope, sources, id) })
}

// PutEventType gives a new event type revision 1.
func (s *Store) PutEventType(ctx context.Context, scope store.Scope, et grapnel.EventType, with store.With) (store.Put, error) {
	return putNamed(ctx, s, scope, with, eventTypes, et, codec.EncodeEventType)
}

// DeleteEventType deletes an event type with all its versions.
func (s *Store) DeleteEventType(ctx context.Context, scope store.Scope, id string, with store.With) error {
	return s.remove(ctx, with, func(t *tx) error { return t.dropNamed(scope, eventTypes, id) })
}

// PutPolicy counts revisions but does not require one.
func (s *Store) PutPolicy(ctx context.Context, scope store.Scope, p grapnel.NamedPolicy, with store.With) (store.Put, error) {
	return putNamed(ctx, s, scope, with, policies, p, codec.EncodePolicy)
}

// DeletePolicy deletes a policy. It does not check whether an endpoint still names it.
func (s *Store) DeletePolicy(ctx context.Context, scope store.Scope, id string, with store.With) error {
	return s.remove(ctx, with, func(t *tx) error { return t.dropNamed(scope, policies, id) })
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
			err = at.Writable(scope, k.Tenant, "key")
		}
		if err != nil {
			return 0, err
		}
		return 0, t.q.setAPIKey.Text(k.ID).Text(k.Tenant).Blob(body).Run()
	})
}

// DeleteKey deletes an API key.
func (s *Store) DeleteKey(ctx context.Context, scope store.Scope, id string, with store.With) error {
	return s.remove(ctx, with, func(t *tx) error { return dropObject(t.q.apiKey, t.q.dropAPIKey, scope, id, "key") })
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
	err = s.snapshot(ctx, func(r *sqlite3.Conn) (err error) {
		c.Version, c.Newest, err = age(r)
		c.Endpoints = bodies(r, &err, "SELECT revision, body FROM endpoint ORDER BY id", codec.DecodeEndpoint)
		c.Sources = bodies(r, &err, "SELECT revision, body FROM source ORDER BY id", codec.DecodeSource)
		c.Policies = bodies(r, &err, "SELECT revision, body FROM policy ORDER BY id", codec.DecodePolicy)
		c.Types = bodies(r, &err, "SELECT revision, body FROM event_type ORDER BY id", codec.DecodeEventType)
		c.Keys = bodies(r, &err, "SELECT 0, body FROM api_key ORDER BY id", codec.DecodeKey)
		return err
	})
	return c, err
}

// bodies reads the objects that a query finds, unless an earlier one has set err.
func bodies[T any](r *sqlite3.Conn, err *error, query string, decode func(revision int64, body []byte) (T, error)) (all []T) {
	if *err == nil {
		all, *err = each(r.Query(query), func(q *sqlite3.Stmt) (T, error) { return decode(q.Integer(0), q.Bytes(1)) })
	}
	return all
}
