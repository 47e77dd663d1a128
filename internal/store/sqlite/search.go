package sqlite

import (
	"context"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// DeliverySearch looks into data.
func (s *Store) DeliverySearch(context.Context, store.Scope, store.DeliveryQuery, string) ([]grapnel.Delivery, int64, error) {
	return nil, 0, nil
}
