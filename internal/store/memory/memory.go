// Package memory is the model store: the contract of package store in maps and slices. It is the reference for what the
// contract means, and the store that simulations run on.
//
// It is synchronous (every call does its work under one mutex and returns) and deterministic: the same calls give the same
// answers, and no map order shows. What goes in and what comes out are copies, so nobody can change what is stored from
// outside. Numbers are given as 1, 2, 3 … without gaps, which the contract does not ask of others.
//
// It does not promise to survive the process, and it does not verify checksums: nothing below it can corrupt a byte. A crash is
// simulated by making a new engine on the same store; failing writes by Faulty.
package memory

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Store keeps everything in memory.
type Store struct {
	mu         sync.Mutex
	events     []*event // in the order of their numbers
	byID       map[eventName]*event
	deliveries []*delivery       // in the order of their numbers
	queues     map[string]*queue // by endpoint
	config     store.Config
	edits      []edit                    // of the configuration, the last of each version, the latest last
	standings  map[string]store.Standing // by endpoint
	audit      []grapnel.AuditEntry      // by number, from 1
	noted      map[grapnel.AuditEntry]bool
	answers    map[string]answer
	known      map[knownBy]known
	asides     []grapnel.Aside // by id
	totals     map[part]*grapnel.Totals

	accepted, made, purged int64 // events and deliveries that there ever were; deliveries that are gone

	replays []*replay            // by id
	leases  map[string]*delivery // by token
}

var _ store.Store = (*Store)(nil)

// event is an event with what was made of it.
type event struct {
	grapnel.Event
	deliveries []*delivery // in the order of their numbers
	made       int         // how many of them its acceptance made; the others are redeliveries
}

// New makes an empty store. Its configuration has version 1, so a batch that forgot to say its version is stale.
func New() *Store {
	return &Store{
		byID:      make(map[eventName]*event),
		queues:    make(map[string]*queue),
		config:    store.Config{Version: 1},
		standings: make(map[string]store.Standing),
		noted:     make(map[grapnel.AuditEntry]bool),
		answers:   make(map[string]answer),
		known:     make(map[knownBy]known),
		totals:    make(map[part]*grapnel.Totals),
		leases:    make(map[string]*delivery),
	}
}

// Close does nothing: a simulated restart goes on with the same store.
func (s *Store) Close() error { return nil }

// enter begins a call. A call whose context is over must not have an effect that its caller no longer waits for.
func (s *Store) enter(ctx context.Context) (leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	return s.mu.Unlock, nil
}

func (e *event) number() int64    { return e.Seq }
func (d *delivery) number() int64 { return d.Seq }

// locate returns where the one with this number is, or belongs. Until something is removed, that is at its number's place.
func locate[T interface{ number() int64 }](all []T, seq int64) (int, bool) {
	if seq >= 1 && seq <= int64(len(all)) && all[seq-1].number() == seq {
		return int(seq - 1), true
	}
	return slices.BinarySearchFunc(all, seq, func(x T, seq int64) int { return cmp.Compare(x.number(), seq) })
}

// delivery returns the delivery with this number, or nil.
func (s *Store) delivery(seq int64) *delivery {
	if i, there := locate(s.deliveries, seq); there {
		return s.deliveries[i]
	}
	return nil
}

// event returns the event with this number, or nil.
func (s *Store) event(seq int64) *event {
	if i, there := locate(s.events, seq); there {
		return s.events[i]
	}
	return nil
}

// micro is a time as stores keep it: in UTC, microseconds, without a monotonic part.
func micro(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}
