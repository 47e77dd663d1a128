package memory

import (
	"context"
	"slices"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// PutSource gives a new source revision 1.
func (s *Store) PutSource(ctx context.Context, scope store.Scope, src grapnel.Source, with store.With) (store.Put, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return store.Put{}, err
	}
	defer leave()
	if then, err := s.recall(with.Once); then != nil || err != nil {
		return store.Put{Answer: then}, err
	}
	if s.stale(with.Tell) {
		return store.Put{}, store.ErrStale
	}
	at, there, err := writable(scope, s.config.Sources, src, "source")
	switch {
	case err != nil:
		return store.Put{}, err
	case !there && src.Revision != 0:
		return store.Put{}, store.ErrNotFound("source")
	case there && s.config.Sources[at].Revision != src.Revision:
		return store.Put{}, grapnel.Errorf(grapnel.CodeConflict, "the source has changed since it was read")
	}
	for _, other := range s.config.Sources {
		if other.Tenant == src.Tenant && other.Name == src.Name && other.ID != src.ID {
			return store.Put{}, grapnel.Errorf(grapnel.CodeConflict, "there is already a source of this name")
		}
	}
	src.Revision++
	s.config.Sources = put(s.config.Sources, at, there, src)
	return s.changed(src.Revision, with), nil
}

// DeleteSource forgets a source.
func (s *Store) DeleteSource(ctx context.Context, scope store.Scope, id string, with store.With) (store.Put, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return store.Put{}, err
	}
	defer leave()
	if then, err := s.recall(with.Once); then != nil || err != nil {
		return store.Put{Answer: then}, err
	}
	if s.stale(with.Tell) {
		return store.Put{}, store.ErrStale
	}
	at, there := search(s.config.Sources, id)
	if !there || !scope.Allows(s.config.Sources[at].Tenant) {
		return store.Put{}, store.ErrNotFound("source")
	}
	s.config.Sources = slices.Delete(s.config.Sources, at, at+1)
	return s.changed(0, with), nil
}
