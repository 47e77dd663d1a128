// Package memstore is a store of package receive in memory, for tests and for programs of one
// process that may forget which events they have processed when they end.
//
// It passes the suite that every store passes. What it promises ends with the process, so outside
// of tests New says so in the log.
package memstore

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/receive"
)

// Store keeps claims, dead letters and an inbox in memory. It is a receive.Transactor[*Tx].
type Store struct {
	mu      sync.Mutex
	claims  map[receive.Key]row
	letters map[receive.Key]receive.Letter
	inbox   []*item       // by arrival
	turn    chan struct{} // full: a transaction runs
}

type row struct {
	receive.Claim
	keepUntil time.Time
}

// Tx is a transaction. Its functions run, in order, when it commits.
type Tx struct{ effects []func() }

// OnCommit adds an effect.
func (t *Tx) OnCommit(effect func()) { t.effects = append(t.effects, effect) }

// New makes an empty store. Outside of tests it logs a warning with slog.Default: a receiver with
// this store handles events again after each of its starts.
func New() *Store { return empty(testing.Testing()) }

func empty(test bool) *Store {
	if !test {
		slog.Default().Warn("webhook keys are in memory; a restart forgets them, and events that are sent again have a second effect")
	}
	return &Store{claims: map[receive.Key]row{}, letters: map[receive.Key]receive.Letter{}, turn: make(chan struct{}, 1)}
}

// Claim implements receive.Store.
func (s *Store) Claim(_ context.Context, b receive.Bid) (receive.Claim, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, won := s.bid(b, receive.Busy); won {
		s.claims[b.Key] = r
	}
	return s.claims[b.Key].Claim, nil
}

// bid is the row that a bid makes, and whether it wins.
func (s *Store) bid(b receive.Bid, to receive.State) (row, bool) {
	r, exists := s.claims[b.Key]
	expired := r.State == receive.Busy && r.LeaseUntil.Before(b.Now)
	wins := !exists || r.State == receive.Free || expired || r.State == receive.Done && r.keepUntil.Before(b.Now)
	if b.Replay {
		wins = r.State == receive.Dead || expired
	}
	return row{receive.Claim{Key: b.Key, State: to, Owner: b.Owner, Generation: r.Generation + 1, LeaseUntil: b.LeaseUntil,
		BodyHash: b.BodyHash, Deliveries: r.Deliveries + 1}, b.KeepUntil}, wins
}

// Look implements receive.Store.
func (s *Store) Look(_ context.Context, k receive.Key) (receive.Claim, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.claims[k].Claim, nil
}

// Renew implements receive.Store.
func (s *Store) Renew(_ context.Context, c receive.Claim, _, until time.Time) error {
	return s.change(c, func(r *row) { r.LeaseUntil = until })
}

// Settle implements receive.Store.
func (s *Store) Settle(_ context.Context, c receive.Claim, to receive.State, o receive.Outcome, _ time.Time) error {
	return s.change(c, func(r *row) { r.State, r.Outcome = to, o })
}

// change changes the row of a claim that is its owner's still.
func (s *Store) change(c receive.Claim, f func(*row)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.claims[c.Key]
	if r.State != receive.Busy || r.Owner != c.Owner {
		return receive.ErrLostClaim
	}
	f(&r)
	s.claims[c.Key] = r
	return nil
}

// Clean implements receive.Store.
func (s *Store) Clean(_ context.Context, source string, now time.Time, limit int) (n int, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, r := range s.claims {
		if n < limit && k.Source == source && (r.State == receive.Done || r.State == receive.Free) && r.keepUntil.Before(now) {
			delete(s.claims, k)
			n++
		}
	}
	return n, nil
}

// Transact implements receive.Transactor. Transactions run one after another.
func (s *Store) Transact(ctx context.Context, b receive.Bid, wait time.Duration,
	f func(*Tx, receive.Claim) (receive.Outcome, error),
) (receive.Claim, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return receive.Claim{}, receive.ErrLocked
	}
	s.mu.Lock()
	r, won := s.bid(b, receive.Done)
	was := s.claims[b.Key].Claim
	s.mu.Unlock()
	if !won {
		return was, nil
	}
	tx := &Tx{}
	var err error
	if r.Outcome, err = f(tx, r.Claim); err != nil {
		return receive.Claim{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.claims[b.Key].Claim != was { // claimed without a transaction in the meantime
		return receive.Claim{}, receive.ErrLocked
	}
	s.claims[b.Key] = r
	for _, effect := range tx.effects {
		effect()
	}
	return r.Claim, nil
}

// Bury implements receive.Letters.
func (s *Store) Bury(_ context.Context, c receive.Claim, l receive.Letter) error {
	return s.change(c, func(r *row) {
		r.State, r.Outcome = receive.Dead, receive.DeadLettered
		s.bury(l)
	})
}

func (s *Store) bury(l receive.Letter) {
	if old, exists := s.letters[l.Key]; exists {
		l.FirstAt, l.ReplayedAt, l.Result = old.FirstAt, old.ReplayedAt, old.Result
	}
	s.letters[l.Key] = l
}

// Keep implements receive.Letters.
func (s *Store) Keep(_ context.Context, l receive.Letter) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, exists := s.letters[l.Key]; !exists {
		s.letters[l.Key] = l
	}
	return nil
}

// Letter implements receive.Letters.
func (s *Store) Letter(_ context.Context, k receive.Key) (receive.Letter, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, found := s.letters[k]
	return l, found, nil
}

// Letters implements receive.Letters.
func (s *Store) Letters(_ context.Context, source, after string, limit int) (found []receive.Letter, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range slices.SortedFunc(maps.Values(s.letters), func(a, b receive.Letter) int { return cmp.Compare(a.ID, b.ID) }) {
		if l.Source == source && l.ID > after && len(found) < limit {
			found = append(found, l)
		}
	}
	return found, nil
}

// Replayed implements receive.Letters.
func (s *Store) Replayed(_ context.Context, k receive.Key, at time.Time, result string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l, found := s.letters[k]; found {
		l.ReplayedAt, l.Result = at, result
		s.letters[k] = l
	}
	return nil
}

type item struct {
	receive.Item
	state      receive.State
	leaseUntil time.Time
	nextAt     time.Time
	updatedAt  time.Time
}
