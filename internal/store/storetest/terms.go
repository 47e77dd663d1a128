package storetest

import (
	"context"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Harness opens the stores under test.
type Harness struct {
	// Open returns a new, empty store. The suite closes it.
	Open func(t *testing.T) store.Store
	// Reopen ends a store without any preparation and returns one on its durable state. It may be
	// called many times. Nil: the suite never restarts the store.
	Reopen func(t *testing.T, s store.Store) store.Store
	// Histories is the number of random histories, unless -rapid.checks sets it. Zero: rapid's
	// default, 100.
	Histories int
}

// testCase is one rule of the contract.
type testCase struct {
	name string
	run  func(*driver)
}

// driver runs one case: it has a store, and methods that fail the test instead of returning an
// error.
type driver struct {
	rapid.TB // reports failures: the test of a case, or the random history
	store.Store
	test    *testing.T // owns the stores
	harness Harness
	ctx     context.Context
	purged  bool // history may have gaps
}

// fact is one delivery that ended or one attempt that was recorded.
type fact struct {
	endpoint, tenant, eventType string
	at                          time.Time
	whole                       bool // only its day is known
	grapnel.Totals
}

// positions are the position given last in each lane, and the highest one of the lanes that were
// forgotten at each endpoint.
type positions struct {
	last   map[laneName]int64
	forgot map[string]int64
}

type laneName struct{ endpoint, key string }

// replay is a replay with its items, which stay listed after their deliveries are purged.
type replay struct {
	grapnel.Replay
	made []grapnel.ReplayItem
}
