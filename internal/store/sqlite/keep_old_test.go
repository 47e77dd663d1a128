package sqlite

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// TestPurgeReadsWhatItRemoves: a call of Purge reads no more redeliveries of an event than it
// removes.
func TestPurgeReadsWhatItRemoves(t *testing.T) {
	const many, calls = 100_000, 20
	s, _ := openNew(t)
	e := &grapnel.Event{ID: "e", Tenant: "acme", Type: "t", AcceptedAt: time.Unix(1, 0)}
	in := store.Incoming{Event: e, Targets: []store.Target{{Endpoint: "ep"}}}
	if _, err := s.Append(t.Context(), store.Batch{Config: 1, Events: []store.Incoming{in}}); err != nil {
		t.Fatal(err)
	}
	if err := s.write(t.Context(), &change{do: func(tx *tx) error {
		tx.deliveries.skip(many + 1)
		return tx.conn.Exec(fmt.Sprintf(`WITH RECURSIVE b(n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM b WHERE n <= %d)
			INSERT INTO finished (seq, target, event, tenant, status, position, attempts, created, finished, replay_of, outcome)
			SELECT n, 1, 1, 1, 3, 0, 0, 5, 6, 1, 0 FROM b;
			INSERT INTO redelivery SELECT seq, event FROM finished`, many))
	}}); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range calls {
		if n, err := s.Purge(t.Context(), store.Keep{Now: time.Unix(7200, 0), For: time.Second}, 1); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > calls*many*8 { // all row ids in each call
		t.Errorf("%d calls took %d bytes", calls, took)
	}
}
