package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

func (s *Store) Claim(context.Context, store.Claim) (store.Claimed, error) {
	return store.Claimed{}, errors.ErrUnsupported
}
func (s *Store) Extend(context.Context, string, time.Time, time.Duration) (grapnel.Lease, error) {
	return grapnel.Lease{}, errors.ErrUnsupported
}
func (s *Store) Lease(context.Context, string) (grapnel.Lease, error) {
	return grapnel.Lease{}, errors.ErrUnsupported
}
func (s *Store) LeaseList(context.Context, string, int) ([]grapnel.Lease, error) {
	return nil, errors.ErrUnsupported
}
func (s *Store) QueueCounts(context.Context, string, time.Time) (grapnel.QueueCounts, error) {
	return grapnel.QueueCounts{}, errors.ErrUnsupported
}
