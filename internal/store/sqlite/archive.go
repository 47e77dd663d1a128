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

// Purge removes what is old.
func (s *Store) Purge(context.Context, store.Keep, int) (int, error) { return 0, nil }

// Imbalance is how far the counts are from each other.
func (s *Store) Imbalance(context.Context) (int64, error) { return 0, nil }

// Annotate notes something on a delivery.
func (s *Store) Annotate(context.Context, store.Scope, store.Annotation) error { return nil }

// DeliverySearch looks into data.
func (s *Store) DeliverySearch(context.Context, store.Scope, store.DeliveryQuery, string) ([]grapnel.Delivery, int64, error) {
	return nil, 0, nil
}

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
