package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

func (s *Store) SetAside(context.Context, grapnel.Aside) error { return errors.ErrUnsupported }
func (s *Store) Aside(context.Context, store.Scope, string) (grapnel.Aside, error) {
	return grapnel.Aside{}, errors.ErrUnsupported
}
func (s *Store) AsideList(context.Context, store.Scope, store.AsideQuery) ([]grapnel.Aside, error) {
	return nil, errors.ErrUnsupported
}
func (s *Store) Unlearn(context.Context, time.Time, time.Time, int) (int, error) { return 0, nil }
func (s *Store) PutSource(context.Context, store.Scope, grapnel.Source, store.With) (store.Put, error) {
	return store.Put{}, errors.ErrUnsupported
}
func (s *Store) DeleteSource(context.Context, store.Scope, string, store.With) (store.Put, error) {
	return store.Put{}, errors.ErrUnsupported
}
