package sqlite

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// TestNumbersOnlyRise makes the writer believe that its last number was not given. The next
// transaction that would give it again fails, and the store with it; opened anew it gives numbers
// above.
func TestNumbersOnlyRise(t *testing.T) {
	appends := func(t *testing.T, s *Store, _ store.Head) (int64, error) {
		h, err := publish(t, s, "evt_new", 10)
		return h.Delivery, err
	}
	again := func(t *testing.T, s *Store, of store.Head) (int64, error) {
		done, err := s.Again(t.Context(), store.Everyone(), store.Redelivery{Of: of.Delivery, Trigger: grapnel.TriggerManual,
			At: time.Unix(1_700_000_000, 0)})
		return done.Delivery, err
	}
	for _, test := range []struct {
		name  string
		lower func(*tx)
		give  func(*testing.T, *Store, store.Head) (int64, error)
	}{
		{"an event", func(tx *tx) { tx.events.last-- }, appends},
		{"a delivery of an event", func(tx *tx) { tx.deliveries.last-- }, appends},
		{"a delivery once more", func(tx *tx) { tx.deliveries.last-- }, again},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(fast(t), "grapnel.db")
			s, err := Open(t.Context(), path, Options{Ballast: -1})
			if err != nil {
				t.Fatal(err)
			}
			standard, _ := policy.Preset("standard")
			endpoint := grapnel.Endpoint{ID: "ep", Tenant: "acme", Policy: standard}
			if _, err := s.PutEndpoint(t.Context(), store.Everyone(), endpoint, store.With{}); err != nil {
				t.Fatal(err)
			}
			var last store.Head
			for _, id := range []string{"evt_1", "evt_2"} {
				if last, err = publish(t, s, id, 10); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.write(t.Context(), &change{do: func(tx *tx) error { test.lower(tx); return nil }}); err != nil {
				t.Fatal(err)
			}
			if n, err := test.give(t, s, last); !errors.Is(err, errNotRising) {
				t.Fatalf("delivery %d after %d: %v", n, last.Delivery, err)
			}
			select {
			case err := <-s.Fatal():
				if !errors.Is(err, errNotRising) {
					t.Error(err)
				}
			default:
				t.Error("the store has not failed")
			}
			_ = s.Close()
			if s, err = Open(t.Context(), path, Options{Ballast: -1}); err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if n, err := test.give(t, s, last); err != nil || n <= last.Delivery {
				t.Errorf("opened anew: delivery %d after %d: %v", n, last.Delivery, err)
			}
		})
	}
}
