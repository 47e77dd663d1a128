package memory

import (
	"context"
	"slices"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// PutSource gives a new source revision 1.
func (s *Store) PutSource(ctx context.Context, scope store.Scope, src grapnel.Source, with store.With) (store.Put, error) {
	return s.put(ctx, with, "source", src.ID, func() (int64, error) {
		at, there, err := writable(scope, s.config.Sources, src, "source")
		switch {
		case err != nil:
			return 0, err
		case !there && src.Revision != 0:
			return 0, store.ErrNotFound("source")
		case there && s.config.Sources[at].Revision != src.Revision:
			return 0, grapnel.Errorf(grapnel.CodeConflict, "the source has changed since it was read")
		}
		for _, other := range s.config.Sources {
			if other.Tenant == src.Tenant && other.Name == src.Name && other.ID != src.ID {
				return 0, grapnel.Errorf(grapnel.CodeConflict, "the name is already used by another source")
			}
		}
		src.Revision++
		s.config.Sources = put(s.config.Sources, at, there, src)
		return src.Revision, nil
	})
}

// DeleteSource deletes a source.
func (s *Store) DeleteSource(ctx context.Context, scope store.Scope, id string, with store.With) (store.Put, error) {
	return s.put(ctx, with, "source", id, func() (int64, error) {
		at, there := search(s.config.Sources, id)
		if !there || !scope.Allows(s.config.Sources[at].Tenant) {
			return 0, store.ErrNotFound("source")
		}
		s.config.Sources = slices.Delete(s.config.Sources, at, at+1)
		return 0, nil
	})
}
