package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/decide"
)

// Writers of the configuration are few, and each is alone: it reads the current state when its turn
// comes.
const (
	endpointRow  = "SELECT tenant, revision, deleted FROM endpoint WHERE id = $1"
	keyRow       = "SELECT tenant, 0::bigint, false FROM api_key WHERE id = $1"
	queueNamed   = "SELECT EXISTS (SELECT FROM endpoint WHERE tenant = $1 AND queue = $2 AND id <> $3)"
	somethingFor = "SELECT EXISTS (SELECT FROM pending WHERE target = (SELECT number FROM target WHERE endpoint = $1))"

	setEndpoint = `INSERT INTO endpoint (id, tenant, revision, deleted, queue, body) VALUES ($1, $2, $3, $4, nullif($5, ''), $6)
		ON CONFLICT (id) DO UPDATE SET revision = excluded.revision, deleted = excluded.deleted, queue = excluded.queue, body = excluded.body`
	setKey       = "INSERT INTO api_key (id, tenant, body) VALUES ($1, $2, $3) ON CONFLICT (id) DO UPDATE SET body = excluded.body"
	dropEndpoint = "DELETE FROM endpoint WHERE id = $1"
	dropStanding = "DELETE FROM standing WHERE endpoint = $1"
	dropKey      = "DELETE FROM api_key WHERE id = $1"
	// keepTenant records the tenant of an endpoint, even if no delivery was ever created for it: it
	// may have lanes.
	keepTenant = `INSERT INTO tally (target, tenant, slot, made, pending, delivered, failed, dropped, discarded, skipped)
		SELECT number, $2, 0, 0, 0, 0, 0, 0, 0, 0 FROM target WHERE endpoint = $1 ON CONFLICT (target, tenant, slot) DO NOTHING`
)

// objects are the statements of a kind of objects whose names are unique within a tenant.
type objects struct{ kind, row, named, set, drop string }

func objectsIn(table, kind string) objects {
	return objects{
		kind:  kind,
		row:   "SELECT tenant, revision, false FROM " + table + " WHERE id = $1",
		named: "SELECT EXISTS (SELECT FROM " + table + " WHERE tenant = $1 AND name = $2 AND id <> $3)",
		set: "INSERT INTO " + table + ` (id, tenant, revision, name, body) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (id) DO UPDATE SET revision = excluded.revision, name = excluded.name, body = excluded.body`,
		drop: "DELETE FROM " + table + " WHERE id = $1",
	}
}

// eventTypeKind is the kind of event types in changesQuery.
const eventTypeKind = "event type"

var sources, policies, eventTypes = objectsIn("source", "source"), objectsIn("policy", "policy"), objectsIn("event_type", eventTypeKind)

func (t *tx) object(query, id string) (o decide.Object, err error) {
	err = t.conn.QueryRow(t.ctx, query, id).Scan(&o.Tenant, &o.Revision, &o.Deleted)
	if isNone(err) {
		return decide.Object{}, nil
	}
	o.There = err == nil
	return o, err
}

// yes returns the answer to a yes-or-no query.
func (t *tx) yes(query string, args ...any) (answer bool, err error) {
	err = t.conn.QueryRow(t.ctx, query, args...).Scan(&answer)
	return answer, err
}

// then queues a statement that is written with all others.
func (t *tx) then(sql string, args ...any) {
	t.also = append(t.also, func(b *pgx.Batch) { b.Queue(sql, args...) })
}

// writable says whether a scope may write an object over the stored one. read is the revision that
// its writer has read.
func (t *tx) writable(scope store.Scope, at *decide.Object, tenant string, read int64, what string) error {
	if err := at.Writable(scope, tenant, what); err != nil {
		return err
	}
	if t.seals(tenant) {
		return store.ErrSealed
	}
	return at.Revisable(read, what)
}

// unnamed refuses a name that another object of the tenant has.
func (t *tx) unnamed(query, tenant, name, id, what string) error {
	taken, err := t.yes(query, tenant, name, id)
	if err == nil && taken {
		return decide.ErrNamed(what)
	}
	return err
}

// putting is the operation of the calls that write configuration.
type putting struct {
	with store.With
	tell *batch // in place of with.Tell
	keep bool   // the configuration keeps its version
	also func(*needs)
	do   func(*tx) (revision int64, err error)
	done store.Put
}

func (o *putting) need(n *needs) {
	n.exclusive = !o.keep
	n.once(o.with.Once)
	o.tell.need(n)
	if o.also != nil {
		o.also(n)
	}
}

func (o *putting) apply(t *tx) error {
	o.done = store.Put{}
	then, err := t.recall(o.with.Once)
	if then != nil || err != nil {
		o.done.Answer = then
		return err
	}
	if o.tell.sealed(t) {
		return store.ErrSealed
	}
	if o.tell.stale(t) {
		return store.ErrStale
	}
	revision, err := o.do(t)
	if err != nil {
		return err
	}
	told, err := o.tell.accept(t)
	if err != nil {
		return err
	}
	t.note(o.with.Audit)
	o.done = store.Put{Revision: revision, Version: t.version, Told: told}
	if !o.keep {
		t.bumped = true
		o.done.Version++
	}
	t.remember(o.with.Once, o.done)
	return nil
}

func (s *Store) put(ctx context.Context, o *putting) (store.Put, error) {
	o.tell = s.batch(o.with.Tell)
	return result(&o.done, s.writeAlone(ctx, o))
}

// PutEndpoint gives a new endpoint revision 1.
func (s *Store) PutEndpoint(ctx context.Context, scope store.Scope, ep grapnel.Endpoint, with store.With) (store.Put, error) {
	queue, before := decide.Describe(&ep).Name, ep.Revision
	ep.Revision++
	body, err := codec.EncodeEndpoint(ep)
	if err != nil {
		return store.Put{}, err
	}
	return s.put(ctx, &putting{with: with, do: func(t *tx) (int64, error) {
		at, err := t.object(endpointRow, ep.ID)
		if err == nil {
			err = t.writable(scope, &at, ep.Tenant, before, "endpoint")
		}
		if err == nil && queue != "" {
			err = t.unnamed(queueNamed, ep.Tenant, queue, ep.ID, "queue")
		}
		t.then(setEndpoint, ep.ID, ep.Tenant, ep.Revision, !ep.DeletedAt.IsZero(), queue, body)
		t.changes("endpoint", ep.ID)
		return ep.Revision, err
	}})
}

// RemoveEndpoint also deletes the endpoint's standing.
func (s *Store) RemoveEndpoint(ctx context.Context, id string) error {
	_, err := s.put(ctx, &putting{do: func(t *tx) (int64, error) {
		at, err := t.object(endpointRow, id)
		if err == nil && at.There && t.seals(at.Tenant) {
			err = store.ErrSealed
		}
		if err != nil {
			return 0, err
		}
		waits, err := t.yes(somethingFor, id)
		if err == nil {
			err = at.Leaves(waits)
		}
		t.then(keepTenant, id, at.Tenant)
		t.then(dropStanding, id)
		t.then(dropEndpoint, id)
		t.changes("endpoint", id)
		return 0, err
	}})
	return err
}

// putNamed writes an object of a kind whose names are unique within a tenant.
func putNamed[T decide.Configured](ctx context.Context, s *Store, scope store.Scope, with store.With, of *objects, o T,
	encode func(T) ([]byte, error)) (store.Put, error) {
	is := decide.Describe(&o)
	read := is.Read()
	*is.Revision++
	body, err := encode(o)
	if err != nil {
		return store.Put{}, err
	}
	return s.put(ctx, &putting{with: with, do: func(t *tx) (int64, error) {
		at, err := t.object(of.row, is.ID)
		if err == nil {
			err = t.writable(scope, &at, is.Tenant, read, of.kind)
		}
		if err == nil {
			err = t.unnamed(of.named, is.Tenant, is.Name, is.ID, of.kind)
		}
		t.then(of.set, is.ID, is.Tenant, at.Revision+1, is.Name, body)
		t.changes(of.kind, is.ID)
		return at.Revision + 1, err
	}})
}

// remove deletes an object of the configuration.
func (s *Store) remove(ctx context.Context, scope store.Scope, with store.With, row, drop, id, what string) (store.Put, error) {
	return s.put(ctx, &putting{with: with, do: func(t *tx) (int64, error) {
		at, err := t.object(row, id)
		if err == nil {
			err = at.Removable(scope, what)
		}
		if err == nil && t.seals(at.Tenant) {
			err = store.ErrSealed
		}
		t.then(drop, id)
		t.changes(what, id)
		return 0, err
	}})
}

// PutSource gives a new source revision 1.
func (s *Store) PutSource(ctx context.Context, scope store.Scope, src grapnel.Source, with store.With) (store.Put, error) {
	return putNamed(ctx, s, scope, with, &sources, src, codec.EncodeSource)
}

// DeleteSource deletes a source.
func (s *Store) DeleteSource(ctx context.Context, scope store.Scope, id string, with store.With) (store.Put, error) {
	return s.remove(ctx, scope, with, sources.row, sources.drop, id, sources.kind)
}

// PutEventType gives a new event type revision 1.
func (s *Store) PutEventType(ctx context.Context, scope store.Scope, et grapnel.EventType, with store.With) (store.Put, error) {
	return putNamed(ctx, s, scope, with, &eventTypes, et, codec.EncodeEventType)
}

// DeleteEventType deletes an event type with all its versions.
func (s *Store) DeleteEventType(ctx context.Context, scope store.Scope, id string, with store.With) error {
	_, err := s.remove(ctx, scope, store.With{Audit: with.Audit}, eventTypes.row, eventTypes.drop, id, eventTypes.kind)
	return err
}

// PutPolicy counts revisions but does not require one.
func (s *Store) PutPolicy(ctx context.Context, scope store.Scope, p grapnel.NamedPolicy, with store.With) (store.Put, error) {
	return putNamed(ctx, s, scope, with, &policies, p, codec.EncodePolicy)
}

// DeletePolicy deletes a policy. It does not check whether an endpoint still names it.
func (s *Store) DeletePolicy(ctx context.Context, scope store.Scope, id string, with store.With) error {
	_, err := s.remove(ctx, scope, store.With{Audit: with.Audit}, policies.row, policies.drop, id, policies.kind)
	return err
}

// PutKey returns revision 0: keys have none. Only store.Everyone may write a key without a tenant.
func (s *Store) PutKey(ctx context.Context, scope store.Scope, k grapnel.Key, with store.With) (store.Put, error) {
	body, err := codec.EncodeKey(k)
	if err != nil {
		return store.Put{}, err
	}
	return s.put(ctx, &putting{with: with, do: func(t *tx) (int64, error) {
		at, err := t.object(keyRow, k.ID)
		if err == nil {
			err = t.writable(scope, &at, k.Tenant, decide.AnyRevision, "key")
		}
		t.then(setKey, k.ID, k.Tenant, body)
		t.changes("key", k.ID)
		return 0, err
	}})
}

// DeleteKey deletes an API key.
func (s *Store) DeleteKey(ctx context.Context, scope store.Scope, id string, with store.With) error {
	_, err := s.remove(ctx, scope, store.With{Audit: with.Audit}, keyRow, dropKey, id, "key")
	return err
}
