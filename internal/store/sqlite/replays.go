package sqlite

import (
	"context"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// PutReplay keeps a replay.
func (s *Store) PutReplay(context.Context, store.Scope, grapnel.Replay, store.With) (store.Put, error) {
	return store.Put{}, nil
}

// Replay returns one.
func (s *Store) Replay(context.Context, store.Scope, string) (grapnel.Replay, error) {
	return grapnel.Replay{}, store.ErrNotFound("replay")
}

// ReplayList returns replays.
func (s *Store) ReplayList(context.Context, store.Scope, store.ReplayQuery) ([]grapnel.Replay, error) {
	return nil, nil
}

// Candidates returns what a replay is about.
func (s *Store) Candidates(context.Context, store.Scope, store.CandidateQuery) ([]grapnel.Delivery, int64, error) {
	return nil, 0, nil
}

// Advance makes a step of a replay.
func (s *Store) Advance(context.Context, store.ReplayStep) ([]store.Redelivered, error) {
	return nil, nil
}

// ReplayItems returns what a replay has made.
func (s *Store) ReplayItems(context.Context, store.Scope, string, int64, int) ([]grapnel.ReplayItem, error) {
	return nil, nil
}
