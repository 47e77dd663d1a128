package sqlite

import (
	"context"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
)

// PutEventType gives a new event type revision 1.
func (s *Store) PutEventType(ctx context.Context, scope store.Scope, et grapnel.EventType, with store.With) (store.Put, error) {
	before := et.Revision
	et.Revision++
	body, err := codec.EncodeEventType(et)
	if err != nil {
		return store.Put{}, err
	}
	return s.put(ctx, with, func(t *tx) (int64, error) {
		at, err := readObject(t.q.eventType.Text(et.ID))
		if err == nil {
			err = writable(scope, at, et.Tenant, "event type")
		}
		switch {
		case err != nil:
			return 0, err
		case !at.there && before != 0:
			return 0, store.ErrNotFound("event type")
		case at.revision != before:
			return 0, grapnel.Errorf(grapnel.CodeConflict, "the event type has changed since it was read")
		}
		if err := unnamed(t.q.typeNamed.Text(et.Tenant).Text(et.Name), et.ID, "event type"); err != nil {
			return 0, err
		}
		return et.Revision, t.q.setEventType.Text(et.ID).Text(et.Tenant).Int(et.Revision).Text(et.Name).Blob(body).Run()
	})
}

// DeleteEventType deletes an event type with all its versions.
func (s *Store) DeleteEventType(ctx context.Context, scope store.Scope, id string, with store.With) error {
	return s.remove(ctx, with, func(t *tx) error {
		at, err := readObject(t.q.eventType.Text(id))
		if err == nil && !(at.there && scope.Allows(at.tenant)) {
			err = store.ErrNotFound("event type")
		}
		if err != nil {
			return err
		}
		return t.q.dropEventType.Text(id).Run()
	})
}
