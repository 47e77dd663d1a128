package sqlite

import (
	"fmt"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// TestLanesGoWithTheirLastDelivery: of many keys that were used once no row is left.
func TestLanesGoWithTheirLastDelivery(t *testing.T) {
	s, _ := openWith(t, Bounds{Purged: 7})
	base := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	const many = 300
	var events []store.Incoming
	for i := range many {
		e := &grapnel.Event{ID: fmt.Sprint("evt_", i), Tenant: "acme", Type: "a.b", Key: fmt.Sprint("k", i), ContentType: grapnel.JSONType,
			Data: []byte("1"), AcceptedAt: base}
		events = append(events, store.Incoming{Event: e, Targets: []store.Target{{Endpoint: "ep", Ordered: true}}})
	}
	done, err := s.Append(t.Context(), store.Batch{Config: 1, Events: events})
	if err != nil {
		t.Fatal(err)
	}
	var changes []store.Change
	for _, h := range done.Heads[1:] {
		changes = append(changes, store.Change{Delivery: h.Delivery, At: base, Status: grapnel.Delivered})
	}
	if _, err := s.Record(t.Context(), changes); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Purge(t.Context(), store.Keep{Now: base.Add(time.Hour)}, many); n != many-1 || err != nil {
		t.Fatal(n, err)
	}
	lanes, err := rows.Reading(t.Context(), s.read, func(r *sqlite3.Conn) (int64, error) {
		return rows.One(r, "SELECT count(*) FROM lane WHERE key <> ''")
	})
	if lanes != 1 || err != nil {
		t.Errorf("%d lanes are left, not the one in which a delivery waits: %v", lanes, err)
	}
}
