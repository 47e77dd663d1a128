package sqlite

import (
	"context"

	"github.com/grapnelhq/grapnel/internal/store"
)

// Annotate notes something on a delivery.
func (s *Store) Annotate(context.Context, store.Scope, store.Annotation) error { return nil }
