package memory

import (
	"context"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Totals returns what is counted.
func (s *Store) Totals(context.Context, store.Scope, store.TotalsQuery) ([]grapnel.Bucket, error) {
	return nil, nil
}

// Purge removes what is old.
func (s *Store) Purge(context.Context, store.Keep, int) (int, error) { return 0, nil }

// Imbalance is how far the counts are from each other.
func (s *Store) Imbalance(context.Context) (int64, error) { return 0, nil }

// Annotate notes something on a delivery.
func (s *Store) Annotate(context.Context, store.Scope, store.Annotation) error { return nil }
