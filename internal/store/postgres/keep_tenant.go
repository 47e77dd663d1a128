package postgres

import (
	"context"
	"errors"

	"github.com/grapnelhq/grapnel/internal/store"
)

// EraseTenant fails.
func (s *keeper) EraseTenant(context.Context, store.TenantErasure) (store.TenantErased, error) {
	return store.TenantErased{}, errors.New("postgres: a tenant cannot be erased yet")
}
