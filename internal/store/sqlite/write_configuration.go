package sqlite

import (
	"context"
	"errors"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/seal"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/decide"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// findObject is the state of an object. Columns that the table of its kind does not have are zeros.
func findObject(t *tx, kind objectKind, id string) (decide.Object, error) {
	return rows.First(t.q.objects[kind].row.Text(id), nil, func(q *sqlite3.Stmt) (decide.Object, error) {
		return decide.Object{There: true, Tenant: q.String(0), Revision: q.Integer(1), Deleted: q.Integer(2) == 1}, nil
	})
}

// putting is the operation of the calls that write configuration, and replays.
type putting struct {
	with store.With
	tell *batch // instead of with.Operational
	do   func(*tx) (revision int64, err error)
	keep bool // the object is no part of the configuration, so its version stays
	full bool // also when the disk is full
	done store.Put
}

func (o *putting) grows() bool { return !o.full }

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
	told, err := o.tell.told(t)
	if err == nil {
		err = writeAudit(t, o.with.Audit)
	}
	if err != nil {
		return err
	}
	if !o.keep {
		t.version++
	}
	o.done = store.Put{Revision: revision, Version: t.version, Operational: told}
	_, err = remember(t, o.with.Once, o.done)
	return err
}

func (s *changer) put(ctx context.Context, with store.With, do func(*tx) (int64, error)) (store.Put, error) {
	return s.putting(ctx, &putting{with: with, do: do})
}

func (s *changer) putting(ctx context.Context, o *putting) (store.Put, error) {
	var err error
	if o.tell, err = s.batch(ctx, o.with.Operational); err == nil {
		err = s.write(ctx, o)
	}
	return o.done, err
}

// remove is the operation of the calls that delete configuration.
func (s *changer) remove(ctx context.Context, with store.With, do func(*tx) error) error {
	return s.write(ctx, &change{shrinks: true, do: func(t *tx) error {
		if err := do(t); err != nil {
			return err
		}
		t.version++
		return writeAudit(t, with.Audit)
	}})
}

// unnamed fails with a conflict if a name is used by an object other than the given one. named
// looks up the id of the object with the name.
func unnamed(named *sqlite3.Stmt, id, what string) error {
	taken, err := rows.First(named, nil, rows.ReadText)
	if err == nil && taken != "" && taken != id {
		err = decide.ErrNamed(what)
	}
	return err
}

// RemoveEndpoint also deletes the endpoint's standing.
func (s *changer) RemoveEndpoint(ctx context.Context, id string) error {
	return s.remove(ctx, store.With{}, func(t *tx) error {
		at, err := findObject(t, endpoints, id)
		if err != nil {
			return err
		}
		waits, err := hasPending(t, id)
		if err == nil {
			err = at.Leaves(waits)
		}
		if err != nil {
			return err
		}
		return errors.Join(t.q.dropStanding.Text(id).Run(), t.q.objects[endpoints].drop.Text(id).Run())
	})
}

// hasPending says whether an endpoint has pending deliveries. It adds this transaction's changes to
// the count in the database.
func hasPending(t *tx, endpoint string) (bool, error) {
	target, err := t.numberOf(endpoint)
	if err != nil {
		return false, err
	}
	n, err := rows.LookUp(t.q.waiting.Int(target))
	for at, by := range t.tallies {
		if at.target == target && at.status == rows.StatusPending {
			n += by
		}
	}
	return n > 0, err
}

// putObject writes an object of the configuration.
func putObject[T decide.Configured](ctx context.Context, s *changer, scope store.Scope, with store.With, kind objectKind, o T,
	encode func(T) ([]byte, error)) (store.Put, error) {
	is := decide.Describe(&o)
	read := is.Read()
	if is.Revision != nil {
		*is.Revision++
	}
	body, err := encode(o)
	if err == nil {
		body, err = s.sealer.Seal(ctx, seal.At{Tenant: is.Tenant, Kind: objectKinds[kind].what, ID: is.ID}, body)
	}
	if err != nil {
		return store.Put{}, err
	}
	return s.put(ctx, with, func(t *tx) (revision int64, err error) {
		q, of := &t.q.objects[kind], &objectKinds[kind]
		at, err := findObject(t, kind, is.ID)
		if err == nil {
			err = at.Writable(scope, is.Tenant, of.what)
		}
		if err == nil {
			err = at.Revisable(read, of.what)
		}
		if err == nil && is.Name != "" {
			err = unnamed(q.named.Text(is.Tenant).Text(is.Name), is.ID, of.named)
		}
		if err != nil {
			return 0, err
		}
		set := q.set.Text(is.ID).Text(is.Tenant).Blob(body)
		if is.Revision != nil {
			revision = at.Revision + 1
			set.Int(revision)
		}
		switch kind {
		case endpoints:
			rows.BindName(set, is.Name).Bool(is.Deleted)
		case sources, policies, eventTypes:
			set.Text(is.Name)
		}
		return revision, set.Run()
	})
}

// dropObject deletes an object.
func dropObject(t *tx, scope store.Scope, kind objectKind, id string) error {
	at, err := findObject(t, kind, id)
	if err == nil {
		err = at.Removable(scope, objectKinds[kind].what)
	}
	if err != nil {
		return err
	}
	return t.q.objects[kind].drop.Text(id).Run()
}

// PutEndpoint gives a new endpoint revision 1.
func (s *changer) PutEndpoint(ctx context.Context, scope store.Scope, ep grapnel.Endpoint, with store.With) (store.Put, error) {
	return putObject(ctx, s, scope, with, endpoints, ep, codec.EncodeEndpoint)
}

// PutSource gives a new source revision 1.
func (s *changer) PutSource(ctx context.Context, scope store.Scope, src grapnel.Source, with store.With) (store.Put, error) {
	return putObject(ctx, s, scope, with, sources, src, codec.EncodeSource)
}

// DeleteSource deletes a source.
func (s *changer) DeleteSource(ctx context.Context, scope store.Scope, id string, with store.With) (store.Put, error) {
	return s.put(ctx, with, func(t *tx) (int64, error) { return 0, dropObject(t, scope, sources, id) })
}

// PutEventType gives a new event type revision 1.
func (s *changer) PutEventType(ctx context.Context, scope store.Scope, et grapnel.EventType, with store.With) (store.Put, error) {
	return putObject(ctx, s, scope, with, eventTypes, et, codec.EncodeEventType)
}

// DeleteEventType deletes an event type with all its versions.
func (s *changer) DeleteEventType(ctx context.Context, scope store.Scope, id string, with store.With) error {
	return s.remove(ctx, with, func(t *tx) error { return dropObject(t, scope, eventTypes, id) })
}

// PutPolicy counts revisions but does not require one.
func (s *changer) PutPolicy(ctx context.Context, scope store.Scope, p grapnel.NamedPolicy, with store.With) (store.Put, error) {
	return putObject(ctx, s, scope, with, policies, p, codec.EncodePolicy)
}

// DeletePolicy deletes a policy. It does not check whether an endpoint still names it.
func (s *changer) DeletePolicy(ctx context.Context, scope store.Scope, id string, with store.With) error {
	return s.remove(ctx, with, func(t *tx) error { return dropObject(t, scope, policies, id) })
}

// PutKey returns revision 0: keys have none. Only store.Everyone may write a key without a tenant.
func (s *changer) PutKey(ctx context.Context, scope store.Scope, k grapnel.Key, with store.With) (store.Put, error) {
	return putObject(ctx, s, scope, with, keys, k, codec.EncodeKey)
}

// DeleteKey deletes an API key.
func (s *changer) DeleteKey(ctx context.Context, scope store.Scope, id string, with store.With) error {
	return s.remove(ctx, with, func(t *tx) error { return dropObject(t, scope, keys, id) })
}

// PutAccess returns revision 0, as PutKey does.
func (s *changer) PutAccess(ctx context.Context, scope store.Scope, r grapnel.AccessRecord, with store.With) (store.Put, error) {
	return putObject(ctx, s, scope, with, accessRecords, r, codec.EncodeAccess)
}

// DeleteAccess deletes an access record.
func (s *changer) DeleteAccess(ctx context.Context, scope store.Scope, id string, with store.With) error {
	return s.remove(ctx, with, func(t *tx) error { return dropObject(t, scope, accessRecords, id) })
}
