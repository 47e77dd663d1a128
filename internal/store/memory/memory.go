// Package memory is the model store: the contract of package store in maps and slices. It is the
// reference for the contract, and the store that simulations run on.
//
// It is synchronous (every call does its work under one mutex and returns) and deterministic: the
// same calls give the same answers, and no map order shows. It copies arguments and results, so no
// caller can change the stored data. Row ids are 1, 2, 3 … without gaps, which the contract does
// not ask of other stores.
//
// It does not promise to survive the process, and it does not verify checksums: nothing below it
// can corrupt a byte. A crash is simulated by creating a new engine on the same store; failing
// writes by Faulty.
package memory

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Store is a store in memory: it makes the calls of its model, one at a time.
type Store struct {
	calls
	model *model
}

// New returns an empty store. Its configuration has version 1, so a batch that forgot to set its
// version is stale.
func New() *Store { return open(newModel()) }

func open(m *model) *Store { return &Store{calls{Store: m, serial: new(sync.Mutex)}, m} }

// model is the state of a store, and the effect of each call. It is not safe for concurrent use.
type model struct {
	events     []*event // by row id
	byID       map[eventName]*event
	deliveries []*delivery       // in the order of their numbers
	queues     map[string]*queue // by endpoint
	config     store.Config
	ids        *grapnel.IDs
	edits      []edit                    // of the configuration, the last of each version, the latest last
	standings  map[string]store.Standing // by endpoint
	audit      []grapnel.AuditEntry      // by number, from 1
	noted      map[grapnel.AuditEntry]bool
	answers    map[string]answer
	known      map[knownBy]known
	asides     []grapnel.Aside // by id
	totals     map[part]*grapnel.Totals
	types      map[typePart]*grapnel.Totals

	accepted, made, purged int64 // events and deliveries ever; purged deliveries

	replays []*replay            // by id
	leases  map[string]*delivery // by token

	documents      []store.Document // in documentOrder
	documentBounds store.DocumentBounds
}

func newModel() *model {
	return &model{
		byID:      make(map[eventName]*event),
		queues:    make(map[string]*queue),
		config:    store.Config{Version: 1},
		ids:       grapnel.NewIDs(grapnel.IDKey("of every store in memory")),
		standings: make(map[string]store.Standing),
		noted:     make(map[grapnel.AuditEntry]bool),
		answers:   make(map[string]answer),
		known:     make(map[knownBy]known),
		totals:    make(map[part]*grapnel.Totals),
		types:     make(map[typePart]*grapnel.Totals),
		leases:    make(map[string]*delivery),

		documentBounds: bounds.Fill(store.DocumentBounds{}),
	}
}

// IDs has the same key in every store in memory, because a simulation has to repeat its results.
func (s *model) IDs() *grapnel.IDs { return s.ids }

// Close does nothing: a simulated restart continues with the same store.
func (s *model) Close() error { return nil }

func (e *event) number() int64    { return e.Seq }
func (d *delivery) number() int64 { return d.Seq }

// locate returns the index of a row id, or its insertion index. Until a row is removed, the index
// follows from the row id.
func locate[T interface{ number() int64 }](all []T, seq int64) (int, bool) {
	if seq >= 1 && seq <= int64(len(all)) && all[seq-1].number() == seq {
		return int(seq - 1), true
	}
	return slices.BinarySearchFunc(all, seq, func(x T, seq int64) int { return cmp.Compare(x.number(), seq) })
}

// delivery returns the delivery with this number, or nil.
func (s *model) delivery(seq int64) *delivery {
	if i, there := locate(s.deliveries, seq); there {
		return s.deliveries[i]
	}
	return nil
}

// event returns the event with this number, or nil.
func (s *model) event(seq int64) *event {
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
