package postgres

import (
	"context"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
)

const (
	eventTypeRow   = "SELECT tenant, revision, false FROM event_type WHERE id = $1"
	eventTypeNamed = "SELECT EXISTS (SELECT FROM event_type WHERE tenant = $1 AND name = $2 AND id <> $3)"
	setEventType   = `INSERT INTO event_type (id, tenant, revision, name, body) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (id) DO UPDATE SET revision = excluded.revision, name = excluded.name, body = excluded.body`
	dropEventType = "DELETE FROM event_type WHERE id = $1"
)

// eventTypeKind is the kind of event types in changesQuery.
const eventTypeKind = "event type"

// PutEventType gives a new event type revision 1.
func (s *Store) PutEventType(ctx context.Context, scope store.Scope, et grapnel.EventType, with store.With) (store.Put, error) {
	before := et.Revision
	et.Revision++
	body, err := codec.EncodeEventType(et)
	if err != nil {
		return store.Put{}, err
	}
	return s.put(ctx, &putting{with: with, do: func(t *tx) (int64, error) {
		at, err := t.object(eventTypeRow, et.ID)
		if err == nil {
			err = t.revisable(scope, at, et.Tenant, before, eventTypeKind)
		}
		if err == nil {
			err = t.unnamed(eventTypeNamed, et.Tenant, et.Name, et.ID, eventTypeKind)
		}
		t.then(setEventType, et.ID, et.Tenant, et.Revision, et.Name, body)
		t.changes(eventTypeKind, et.ID)
		return et.Revision, err
	}})
}

// DeleteEventType deletes an event type with all its versions.
func (s *Store) DeleteEventType(ctx context.Context, scope store.Scope, id string, with store.With) error {
	_, err := s.remove(ctx, scope, store.With{Audit: with.Audit}, eventTypeRow, dropEventType, id, eventTypeKind)
	return err
}
