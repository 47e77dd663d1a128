package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/grapnelhq/grapnel/internal/store"
)

// withoutName counts the rows that name no kind or no target.
const withoutName = `SELECT (SELECT count(*) FROM event WHERE kind <= 0) + (SELECT count(*) FROM pending WHERE kind <= 0 OR target <= 0)
	+ (SELECT count(*) FROM finished WHERE kind <= 0 OR target <= 0) + (SELECT count(*) FROM lane WHERE target <= 0)
	+ (SELECT count(*) FROM lease WHERE target <= 0)
	+ (SELECT count(*) FROM tally WHERE target <= 0) + (SELECT count(*) FROM total WHERE target <= 0)`

func allNamed(t *testing.T, s *Store) {
	t.Helper()
	var n int
	if err := s.pool.QueryRow(t.Context(), withoutName).Scan(&n); err != nil || n > 0 {
		t.Fatalf("%d rows name no kind or no target, %v", n, err)
	}
}

// typed is an event of a type.
func typed(id, eventType, key string, endpoints ...string) store.Incoming {
	in := incomingTo(id, key, endpoints...)
	in.Event.Type = eventType
	return in
}

// forgetful is an append during which another writer of the node caches other names.
type forgetful struct {
	*appending
	meanwhile func()
}

func (o *forgetful) apply(t *tx) error {
	o.meanwhile()
	return o.appending.apply(t)
}

// TestNamesForgottenMeanwhile: the node forgets all names of a transaction between its two round
// trips.
func TestNamesForgottenMeanwhile(t *testing.T) {
	t.Parallel()
	s := open(t, blank(t), Options{Bounds: Bounds{Names: 1}})
	defer func() { _ = s.Close() }()
	b := store.Batch{Config: version(t, s), Events: []store.Incoming{typed("e1", "order.paid", "k", "ep_1"),
		typed("e2", "order.sent", "", "ep_1")}}
	frozen, err := s.batch(t.Context(), &b)
	if err != nil {
		t.Fatal(err)
	}
	o := &forgetful{&appending{batch: frozen}, func() {
		for i := range 3 {
			n := newNeeds()
			n.targets[fmt.Sprint("ep_other", i)], n.kinds[kind{"other", fmt.Sprint(i), ""}] = true, true
			learn(t, s, n)
		}
	}}
	if err := s.write(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	heads, err := s.Heads(t.Context(), "ep_1", 10)
	if err != nil || len(heads) != 2 || heads[0].Lane+heads[1].Lane != "k" {
		t.Errorf("2 deliveries were acknowledged, %d can be read: %+v, %v", len(heads), heads, err)
	}
	again, err := s.Append(t.Context(), b)
	if err != nil || !again.Events[0].Duplicate || !again.Events[1].Duplicate {
		t.Errorf("published again: %+v, %v", again, err)
	}
	if e, _, err := s.Event(t.Context(), store.Everyone(), "acme", "e1"); err != nil || e.Type != "order.paid" {
		t.Errorf("the event: %+v, %v", e, err)
	}
	allNamed(t, s)
}

// TestManyNames publishes far more types and endpoints than a node caches.
func TestManyNames(t *testing.T) {
	t.Parallel()
	s := open(t, blank(t), Options{Bounds: Bounds{Names: 8}})
	defer func() { _ = s.Close() }()
	for seed := range uint64(5) {
		crowd(t, s, seed)
	}
}

// crowd has publishers that invent types and endpoints at the same time. Every acknowledged event
// must be readable, under its own type.
func crowd(t *testing.T, s *Store, seed uint64) {
	t.Helper()
	const publishers, batches, types, endpoints = 8, 6, 30, 12
	config := version(t, s)
	var mu sync.Mutex
	made := make(map[string]string)            // types of events
	waiting := make(map[string]map[int64]bool) // deliveries of endpoints
	var all sync.WaitGroup
	for p := range publishers {
		all.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(p)))
			for i := range batches {
				b := store.Batch{Config: config}
				for j := range 1 + random.IntN(3) {
					b.Events = append(b.Events, typed(fmt.Sprintf("e%d_%d_%d_%d", seed, p, i, j), fmt.Sprint("type.", random.IntN(types)), "",
						fmt.Sprintf("ep_%d_%d", seed, random.IntN(endpoints))))
				}
				done, err := s.Append(t.Context(), b)
				if err != nil || len(done.Heads) != len(b.Events) {
					t.Errorf("Append: %+v, %v", done, err)
					return
				}
				mu.Lock()
				for j, in := range b.Events {
					made[in.Event.ID] = in.Event.Type
					endpoint := in.Targets[0].Endpoint
					if waiting[endpoint] == nil {
						waiting[endpoint] = make(map[int64]bool)
					}
					waiting[endpoint][done.Heads[j].Delivery] = true
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	for endpoint, want := range waiting {
		heads, err := s.Heads(t.Context(), endpoint, 1000)
		if err != nil || len(heads) != len(want) {
			t.Fatalf("%s: %d deliveries were acknowledged, %d can be read, %v", endpoint, len(want), len(heads), err)
		}
		for _, h := range heads {
			if !want[h.Delivery] {
				t.Fatalf("%s has delivery %d, which is another's", endpoint, h.Delivery)
			}
		}
	}
	for id, eventType := range made {
		if e, _, err := s.Event(t.Context(), store.Everyone(), "", id); err != nil || e.Type != eventType {
			t.Fatalf("event %s of type %s: %+v, %v", id, eventType, e, err)
		}
	}
	allNamed(t, s)
}

func learn(t *testing.T, s *Store, n *needs) {
	t.Helper()
	if _, err := s.learn(context.WithoutCancel(t.Context()), n.targets, n.kinds); err != nil {
		t.Error(err)
	}
}
