package sqlite

import (
	"context"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
)

// PutSource gives a new source revision 1.
func (s *Store) PutSource(ctx context.Context, scope store.Scope, src grapnel.Source, with store.With) (store.Put, error) {
	before := src.Revision
	src.Revision++
	body, err := codec.EncodeSource(src)
	if err != nil {
		return store.Put{}, err
	}
	return s.put(ctx, with, func(t *tx) (int64, error) {
		at, err := readObject(t.q.source.Text(src.ID))
		if err == nil {
			err = writable(scope, at, src.Tenant, "source")
		}
		switch {
		case err != nil:
			return 0, err
		case !at.there && before != 0:
			return 0, store.ErrNotFound("source")
		case at.revision != before:
			return 0, grapnel.Errorf(grapnel.CodeConflict, "the source has changed since it was read")
		}
		if err := unnamed(t.q.sourceNamed.Text(src.Tenant).Text(src.Name), src.ID, "source"); err != nil {
			return 0, err
		}
		return src.Revision, t.q.setSource.Text(src.ID).Text(src.Tenant).Int(src.Revision).Text(src.Name).Blob(body).Run()
	})
}

// DeleteSource deletes a source.
func (s *Store) DeleteSource(ctx context.Context, scope store.Scope, id string, with store.With) (store.Put, error) {
	return s.put(ctx, with, func(t *tx) (int64, error) {
		at, err := readObject(t.q.source.Text(id))
		if err == nil && !(at.there && scope.Allows(at.tenant)) {
			err = store.ErrNotFound("source")
		}
		if err != nil {
			return 0, err
		}
		return 0, t.q.dropSource.Text(id).Run()
	})
}
