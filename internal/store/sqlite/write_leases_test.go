package sqlite

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// queued publishes n messages to a queue, each with its own key or all with one, and returns the
// time of their acceptance.
func queued(t *testing.T, s *Store, n int, key func(i int) string) time.Time {
	t.Helper()
	now := time.Unix(1_700_000_000, 0).UTC()
	for first := 0; first < n; first += 1000 {
		batch := store.Batch{Config: 1}
		for i := first; i < min(first+1000, n); i++ {
			e := &grapnel.Event{ID: fmt.Sprint("evt_", i), Tenant: "acme", Type: "a.b", Key: key(i), Data: []byte("{}"), AcceptedAt: now}
			batch.Events = append(batch.Events, store.Incoming{Event: e, Targets: []store.Target{{Endpoint: "que", Ordered: true}}})
		}
		if _, err := s.Append(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
	return now
}

func lease(t *testing.T, s *Store, now time.Time, n int, long time.Duration) []grapnel.Lease {
	t.Helper()
	c := store.Claim{Queue: "que", Now: now}
	for i := range n {
		c.Wants = append(c.Wants, store.Want{Token: fmt.Sprintf("lse_%d_%d", now.UnixMicro(), i), Consumer: "c", For: long})
	}
	done, err := s.Claim(t.Context(), c)
	if err != nil || len(done.Leases) != n {
		t.Fatalf("%d leases: %v", len(done.Leases), err)
	}
	return done.Leases
}

func counts(t *testing.T, s *Store, now time.Time) grapnel.QueueCounts {
	t.Helper()
	n, err := s.QueueCounts(t.Context(), "que", now)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestQueueCountsOfLongQueues has exactly MostCounted of a kind, and more. With more the rest
// counts as the larger kind, and the sum stays exact.
func TestQueueCountsOfLongQueues(t *testing.T) {
	s, _ := openNew(t)
	const leased, most = 30, store.MostCounted
	now := queued(t, s, most+leased, func(i int) string { return fmt.Sprint("key_", i) })
	lease(t, s, now, leased/2, time.Minute)
	lease(t, s, now.Add(time.Second), leased/2, time.Second)
	at := now.Add(10 * time.Second) // half of them have expired
	want := grapnel.QueueCounts{Ready: most, Leased: leased, Oldest: now}
	if n := counts(t, s, at); n != want {
		t.Errorf("as many as are counted: %+v, want %+v", n, want)
	}
	behind := &grapnel.Event{ID: "evt_behind", Tenant: "acme", Type: "a.b", Key: "key_77", Data: []byte("{}"), AcceptedAt: now}
	batch := store.Batch{Config: 1, Events: []store.Incoming{{Event: behind, Targets: []store.Target{{Endpoint: "que", Ordered: true}}}}}
	if _, err := s.Append(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	want.Waiting = 1
	if n := counts(t, s, at); n != want {
		t.Errorf("with one behind: %+v, want %+v", n, want)
	}
	for i := range leased { // so that the leases do not hide the others
		loose := &grapnel.Event{ID: fmt.Sprint("evt_loose_", i), Tenant: "acme", Type: "a.b", Data: []byte("{}"), AcceptedAt: now}
		batch.Events[0].Event = loose
		if _, err := s.Append(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
	want.Ready, want.Waiting = most+leased+1, 0
	if n := counts(t, s, at); n != want {
		t.Errorf("more than are counted: %+v, want %+v", n, want)
	}
	want.Ready, want.Delayed = 0, most+leased+1
	if n := counts(t, s, now.Add(-time.Second)); n != want {
		t.Errorf("nothing is due: %+v, want %+v", n, want)
	}
}

// TestHoldersAreReadAgain lets a transaction fail between two claims. Afterwards the writer's
// memory of leases equals the database.
func TestHoldersAreReadAgain(t *testing.T) {
	s, _ := openNew(t)
	now := queued(t, s, 3, func(int) string { return "" })
	first := lease(t, s, now, 1, time.Minute)
	full := store.Claim{Queue: "que", Now: now, Wants: []store.Want{{Token: "lse_x", Consumer: "c", For: time.Minute, Most: 1}}}
	broken := errors.New("on purpose")
	err := s.write(t.Context(), &change{do: func(tx *tx) error {
		settle := &recording{turns: []turn{{Change: &store.Change{Delivery: first[0].Delivery, Status: grapnel.Delivered, At: now,
			Lease: &store.Settlement{Token: first[0].Token}}}}}
		if err := settle.apply(tx); err != nil {
			return err
		}
		if held, err := held(tx); err != nil || len(held) != 0 {
			t.Errorf("within the transaction %v are held: %v", held, err)
		}
		return broken
	}})
	if !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if done, err := s.Claim(t.Context(), full); err != nil || len(done.Leases) != 0 {
		t.Errorf("a consumer that holds its most got %+v: %v", done.Leases, err)
	}
	full.Wants[0].Most = 2
	if done, err := s.Claim(t.Context(), full); err != nil || len(done.Leases) != 1 {
		t.Errorf("a consumer that holds one of two got %+v: %v", done.Leases, err)
	}
}
