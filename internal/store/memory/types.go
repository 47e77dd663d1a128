package memory

import (
	"context"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// PutEventType gives a new event type revision 1.
func (s *Store) PutEventType(ctx context.Context, scope store.Scope, t grapnel.EventType, with store.With) (store.Put, error) {
	return s.put(ctx, with, "event type", t.ID, func() (int64, error) {
		at, there, err := writable(scope, s.config.Types, t, "event type")
		switch {
		case err != nil:
			return 0, err
		case !there && t.Revision != 0:
			return 0, store.ErrNotFound("event type")
		case there && s.config.Types[at].Revision != t.Revision:
			return 0, grapnel.Errorf(grapnel.CodeConflict, "the event type has changed since it was read")
		}
		for _, other := range s.config.Types {
			if other.Tenant == t.Tenant && other.Name == t.Name && other.ID != t.ID {
				return 0, grapnel.Errorf(grapnel.CodeConflict, "the name is already used by another event type")
			}
		}
		t.Revision++
		s.config.Types = put(s.config.Types, at, there, t)
		return t.Revision, nil
	})
}

// DeleteEventType deletes an event type with all its versions.
func (s *Store) DeleteEventType(ctx context.Context, scope store.Scope, id string, with store.With) error {
	return remove(ctx, s, scope, &s.config.Types, id, "event type", with)
}
