package sqlite

import (
	"context"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Totals returns what is counted.
func (s *Store) Totals(context.Context, store.Scope, store.TotalsQuery) ([]grapnel.Bucket, error) {
	return nil, nil
}
