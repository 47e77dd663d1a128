package sqlite

import (
	"fmt"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
	"github.com/grapnelhq/grapnel/policy"
)

// TestNotesOfBlocksGoWithTheirBlocks: when all events and deliveries of a block are purged, the
// rows that say which sources and outcomes occur in it go too. A source or an outcome that occurs
// again in such a block is found.
func TestNotesOfBlocksGoWithTheirBlocks(t *testing.T) {
	const blocks = 12
	s, path := openWith(t, Bounds{Noted: 5, Cleared: 2})
	publish := func(block int) int64 {
		e := &grapnel.Event{ID: fmt.Sprint("e", block), Tenant: "acme", Type: "t", Source: fmt.Sprint("src_", block%3),
			AcceptedAt: time.Unix(1, 0)}
		in := store.Incoming{Event: e, Targets: []store.Target{{Endpoint: "ep"}}}
		done, err := s.Append(t.Context(), store.Batch{Config: 1, Events: []store.Incoming{in}})
		if err != nil {
			t.Fatal(err)
		}
		return done.Heads[0].Delivery
	}
	deliver := func(delivery int64, code int, at time.Time) {
		if _, err := s.Record(t.Context(), []store.Change{{Delivery: delivery, At: at, Status: grapnel.Delivered,
			Attempt: &grapnel.Attempt{Number: 1, StatusCode: code, Class: policy.ClassNone}}}); err != nil {
			t.Fatal(err)
		}
	}
	pending := int64(0)
	for block := range blocks {
		if err := s.write(t.Context(), &change{do: func(tx *tx) error {
			tx.events.skip(int64(block) << rows.BlockBits)
			tx.deliveries.skip(int64(block) << rows.BlockBits)
			return nil
		}}); err != nil {
			t.Fatal(err)
		}
		d := publish(block)
		if block == 1 {
			pending, d = d, publish(blocks+1)
		}
		deliver(d, 200+block%4, time.Unix(2, 0))
	}
	purge := func(now time.Time) {
		t.Helper()
		for range 2 * blocks {
			if _, err := s.Purge(t.Context(), store.Keep{Now: now, For: time.Minute}, 100); err != nil {
				t.Fatal(err)
			}
		}
	}
	notes := func(what string, want int) {
		t.Helper()
		conn, err := connect(path, sqlite3.ReadOnly, 64)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if n := len(allRows(t, conn, "SELECT block FROM "+what)); n != want {
			t.Errorf("%s has %d rows, want %d", what, n, want)
		}
	}
	purge(time.Unix(60, 0))
	notes("source_block", blocks)
	notes("delivered_outcome", blocks)
	purge(time.Unix(3600, 0))
	notes("source_block", 1) // of the event with a pending delivery
	notes("delivered_outcome", 0)

	deliver(pending, 201, time.Unix(3600, 0))
	publish(blocks + 2) // in the newest block, which is empty, from the source that it had
	list, err := s.EventList(t.Context(), store.Everyone(), store.EventQuery{Source: fmt.Sprint("src_", (blocks+2)%3), Limit: 9})
	if err != nil || len(list) != 1 {
		t.Errorf("%d events of the source: %v", len(list), err)
	}
	found, err := s.DeliveryList(t.Context(), store.Everyone(), store.DeliveryQuery{StatusCode: 201, Limit: 9})
	if err != nil || len(found) != 1 || found[0].Seq != pending {
		t.Errorf("%d deliveries with the outcome: %v", len(found), err)
	}
	purge(time.Unix(7200, 0))
	notes("delivered_outcome", 0)
}
