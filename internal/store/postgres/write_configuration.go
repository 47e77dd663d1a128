package postgres

import (
	"context"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/seal"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/decide"
	"github.com/grapnelhq/grapnel/internal/store/postgres/rows"
)

// Writers of the configuration are few, and each is alone: it reads the current state when its turn
// comes.
const (
	somethingFor = "SELECT EXISTS (SELECT FROM pending WHERE target = (SELECT number FROM target WHERE endpoint = $1))"
	dropStanding = "DELETE FROM standing WHERE endpoint = $1"
	// keepTenant records the tenant of an endpoint, even if no delivery was ever created for it: it
	// may have lanes.
	keepTenant = `INSERT INTO tally (target, tenant, slot, made, pending, delivered, failed, dropped, discarded, skipped)
		SELECT number, $2, 0, 0, 0, 0, 0, 0, 0, 0 FROM target WHERE endpoint = $1 ON CONFLICT (target, tenant, slot) DO NOTHING`
)

// objects are a kind of objects, one to a row of a table.
type objects struct {
	kind, table string
	state       string // SQL for the revision of a row, and whether the object is marked as deleted
	name        string // column of the name, which is unique within a tenant; empty: objects have no name
	named       string // the thing with the name, in an error
	set         string
	values      int // how many values of an object set binds
}

func objectsIn(table, kind string) objects {
	return objects{kind: kind, table: table, state: "revision, false", name: "name", named: kind, values: 5,
		set: "INSERT INTO " + table + ` (id, tenant, body, revision, name) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (id) DO UPDATE SET revision = excluded.revision, name = excluded.name, body = excluded.body`}
}

// withoutNames are objects that have neither names nor revisions.
func withoutNames(table, kind string) objects {
	return objects{kind: kind, table: table, state: "0::bigint, false", values: 3,
		set: "INSERT INTO " + table + " (id, tenant, body) VALUES ($1, $2, $3) ON CONFLICT (id) DO UPDATE SET body = excluded.body"}
}

// eventTypeKind and accessKind are kinds in changesQuery.
const (
	eventTypeKind = "event type"
	accessKind    = "access record"
)

var (
	sources, policies, eventTypes = objectsIn("source", "source"), objectsIn("policy", "policy"), objectsIn("event_type", eventTypeKind)

	endpoints = objects{kind: "endpoint", table: "endpoint", state: "revision, deleted", name: "queue", named: "queue", values: 6,
		set: `INSERT INTO endpoint (id, tenant, body, revision, queue, deleted) VALUES ($1, $2, $3, $4, nullif($5, ''), $6)
			ON CONFLICT (id) DO UPDATE SET revision = excluded.revision, deleted = excluded.deleted, queue = excluded.queue, body = excluded.body`}

	keys, accessRecords = withoutNames("api_key", "key"), withoutNames("access_record", accessKind)
)

// drop deletes an object.
func (of *objects) drop(t *tx, id string) {
	t.then("DELETE FROM "+of.table+" WHERE id = $1", id)
	logged(t, of.kind, id)
}

func objectOf(t *tx, of *objects, id string) (o decide.Object, err error) {
	err = t.conn.QueryRow(t.ctx, "SELECT tenant, "+of.state+" FROM "+of.table+" WHERE id = $1", id).Scan(&o.Tenant, &o.Revision, &o.Deleted)
	if rows.IsNone(err) {
		return decide.Object{}, nil
	}
	o.There = err == nil
	return o, err
}

// yes returns the answer to a yes-or-no query.
func yes(t *tx, query string, args ...any) (answer bool, err error) {
	err = t.conn.QueryRow(t.ctx, query, args...).Scan(&answer)
	return answer, err
}

// writable says whether a scope may write an object over the stored one. read is the revision that
// its writer has read.
func writable(t *tx, scope store.Scope, at *decide.Object, tenant string, read int64, what string) error {
	if err := at.Writable(scope, tenant, what); err != nil {
		return err
	}
	return at.Revisable(read, what)
}

// unnamed refuses a name that another object of the tenant has.
func unnamed(t *tx, of *objects, is *decide.Described) error {
	if of.name == "" {
		return nil
	}
	query := "SELECT EXISTS (SELECT FROM " + of.table + " WHERE tenant = $1 AND " + of.name + " = $2 AND id <> $3)"
	taken, err := yes(t, query, is.Tenant, is.Name, is.ID)
	if err == nil && taken {
		return decide.ErrNamed(of.named)
	}
	return err
}

// putting is the operation of the calls that write configuration.
type putting struct {
	with store.With
	tell *batch // in place of with.Operational
	keep bool   // the configuration keeps its version
	do   func(*tx) (revision int64, err error)
	done store.Put
}

func (o *putting) need(n *needs) {
	n.exclusive = !o.keep
	n.once(o.with.Once)
	o.tell.need(n)
}

func (o *putting) apply(t *tx) error {
	o.done = store.Put{}
	then, err := recall(t, o.with.Once)
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
	told, err := o.tell.accept(t)
	if err != nil {
		return err
	}
	t.note(o.with.Audit)
	o.done = store.Put{Revision: revision, Version: t.version, Operational: told}
	if !o.keep {
		t.bumped = true
		o.done.Version++
	}
	remember(t, o.with.Once, o.done)
	return nil
}

func (s *changer) put(ctx context.Context, o *putting) (store.Put, error) {
	var err error
	if o.tell, err = s.batch(ctx, o.with.Operational); err != nil {
		return store.Put{}, err
	}
	return result(&o.done, s.writeAlone(ctx, o))
}

// PutEndpoint gives a new endpoint revision 1.
func (s *changer) PutEndpoint(ctx context.Context, scope store.Scope, ep grapnel.Endpoint, with store.With) (store.Put, error) {
	return putObject(ctx, s, scope, with, &endpoints, ep, codec.EncodeEndpoint)
}

// RemoveEndpoint also deletes the endpoint's standing.
func (s *changer) RemoveEndpoint(ctx context.Context, id string) error {
	_, err := s.put(ctx, &putting{do: func(t *tx) (int64, error) {
		at, err := objectOf(t, &endpoints, id)
		if err != nil {
			return 0, err
		}
		waits, err := yes(t, somethingFor, id)
		if err == nil {
			err = at.Leaves(waits)
		}
		t.then(keepTenant, id, at.Tenant)
		t.then(dropStanding, id)
		endpoints.drop(t, id)
		return 0, err
	}})
	return err
}

// putObject writes an object of the configuration.
func putObject[T decide.Configured](ctx context.Context, s *changer, scope store.Scope, with store.With, of *objects, o T,
	encode func(T) ([]byte, error)) (store.Put, error) {
	is := decide.Describe(&o)
	read, revision := is.Read(), int64(0)
	if is.Revision != nil {
		*is.Revision++
	}
	body, err := encode(o)
	if err == nil {
		body, err = s.sealer.Seal(ctx, seal.At{Tenant: is.Tenant, Kind: of.kind, ID: is.ID}, body)
	}
	if err != nil {
		return store.Put{}, err
	}
	return s.put(ctx, &putting{with: with, do: func(t *tx) (int64, error) {
		at, err := objectOf(t, of, is.ID)
		if err == nil {
			err = writable(t, scope, &at, is.Tenant, read, of.kind)
		}
		if err == nil {
			err = unnamed(t, of, &is)
		}
		if is.Revision != nil {
			revision = at.Revision + 1
		}
		t.then(of.set, []any{is.ID, is.Tenant, body, revision, is.Name, is.Deleted}[:of.values]...)
		logged(t, of.kind, is.ID)
		return revision, err
	}})
}

// remove deletes an object of the configuration.
func (s *changer) remove(ctx context.Context, scope store.Scope, with store.With, of *objects, id string) (store.Put, error) {
	return s.put(ctx, &putting{with: with, do: func(t *tx) (int64, error) {
		at, err := objectOf(t, of, id)
		if err == nil {
			err = at.Removable(scope, of.kind)
		}
		of.drop(t, id)
		return 0, err
	}})
}

// PutSource gives a new source revision 1.
func (s *changer) PutSource(ctx context.Context, scope store.Scope, src grapnel.Source, with store.With) (store.Put, error) {
	return putObject(ctx, s, scope, with, &sources, src, codec.EncodeSource)
}

// DeleteSource deletes a source.
func (s *changer) DeleteSource(ctx context.Context, scope store.Scope, id string, with store.With) (store.Put, error) {
	return s.remove(ctx, scope, with, &sources, id)
}

// PutEventType gives a new event type revision 1.
func (s *changer) PutEventType(ctx context.Context, scope store.Scope, et grapnel.EventType, with store.With) (store.Put, error) {
	return putObject(ctx, s, scope, with, &eventTypes, et, codec.EncodeEventType)
}

// DeleteEventType deletes an event type with all its versions.
func (s *changer) DeleteEventType(ctx context.Context, scope store.Scope, id string, with store.With) error {
	_, err := s.remove(ctx, scope, store.With{Audit: with.Audit}, &eventTypes, id)
	return err
}

// PutPolicy counts revisions but does not require one.
func (s *changer) PutPolicy(ctx context.Context, scope store.Scope, p grapnel.NamedPolicy, with store.With) (store.Put, error) {
	return putObject(ctx, s, scope, with, &policies, p, codec.EncodePolicy)
}

// DeletePolicy deletes a policy. It does not check whether an endpoint still names it.
func (s *changer) DeletePolicy(ctx context.Context, scope store.Scope, id string, with store.With) error {
	_, err := s.remove(ctx, scope, store.With{Audit: with.Audit}, &policies, id)
	return err
}

// PutKey returns revision 0: keys have none. Only store.Everyone may write a key without a tenant.
func (s *changer) PutKey(ctx context.Context, scope store.Scope, k grapnel.Key, with store.With) (store.Put, error) {
	return putObject(ctx, s, scope, with, &keys, k, codec.EncodeKey)
}

// DeleteKey deletes an API key.
func (s *changer) DeleteKey(ctx context.Context, scope store.Scope, id string, with store.With) error {
	_, err := s.remove(ctx, scope, store.With{Audit: with.Audit}, &keys, id)
	return err
}

// PutAccess returns revision 0, as PutKey does.
func (s *changer) PutAccess(ctx context.Context, scope store.Scope, r grapnel.AccessRecord, with store.With) (store.Put, error) {
	return putObject(ctx, s, scope, with, &accessRecords, r, codec.EncodeAccess)
}

// DeleteAccess deletes an access record.
func (s *changer) DeleteAccess(ctx context.Context, scope store.Scope, id string, with store.With) error {
	_, err := s.remove(ctx, scope, store.With{Audit: with.Audit}, &accessRecords, id)
	return err
}

// logChange and pruneChanges run with each change: the list has the latest versions, up to the
// bound.
const (
	logChange    = "INSERT INTO configuration_change (version, kind, id) VALUES ($1, $2, $3)"
	pruneChanges = "DELETE FROM configuration_change WHERE version <= $1"
)

// logged records that the transaction changes an object of the configuration.
func logged(t *tx, kind, id string) {
	t.then(logChange, t.version+1, kind, id)
	t.then(pruneChanges, t.version+1-int64(t.conns.bounds.Changes))
}
