package sqlite

import (
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// TestKnownIDsForgetNoID: whatever order ids come in and however few are remembered, an id that was
// added may exist. And of ids that rise, as the server's do, a new one needs no look-up.
func TestKnownIDsForgetNoID(t *testing.T) {
	for seed := range uint64(200) {
		random := mathrand.New(mathrand.NewPCG(seed, 1))
		ids := newNewestIDs(1+random.IntN(4), "evt_100")
		var added []string
		for range 100 {
			id := fmt.Sprintf("evt_%03d", random.IntN(1000))
			ids.add(id)
			for _, before := range append(added, id, "evt_100", "evt_001") {
				if !ids.mayHave(before) {
					t.Fatalf("seed %d: %s is unknown after %v", seed, before, added)
				}
			}
			added = append(added, id)
		}
	}
	ids := newNewestIDs(64, "")
	for n := range 10_000 {
		if id := fmt.Sprintf("evt_%06d", n^1); ids.mayHave(id) { // neighbours change places
			t.Fatalf("%s would be looked up", id)
		} else {
			ids.add(id)
		}
	}
}

// TestIDsAheadCostOnlyTheirTenant: ids above all that the server draws make the writer look up the
// ids of their tenant, and of no other, also after the store was opened again. The ids themselves
// are found, and an id that the server draws later is not known.
func TestIDsAheadCostOnlyTheirTenant(t *testing.T) {
	path := filepath.Join(fast(t), "grapnel.db")
	at := time.Unix(1_700_000_000, 0)
	for open, bounds := range []Bounds{{IDs: 4}, {IDs: 4}, {IDs: 4, Names: 1}, {IDs: 4, Ahead: 1}} {
		s, err := Open(t.Context(), path, Options{Ballast: -1, Bounds: bounds})
		if err != nil {
			t.Fatal(err)
		}
		looked := func(tenant, id string) (is bool) {
			if err := s.write(t.Context(), looking(func(*sqlite3.Conn) error {
				is = s.writer.tx.knownIDs.mayHave(tenant, id)
				return nil
			})); err != nil {
				t.Fatal(err)
			}
			return is
		}
		put := func(tenant, id string) (duplicate bool) {
			done, err := s.Append(t.Context(), store.Batch{Config: 1, Events: []store.Incoming{{Event: &grapnel.Event{
				ID: id, Tenant: tenant, Type: "a.b", Data: []byte("{}"), AcceptedAt: at}}}})
			if err != nil {
				t.Fatal(err)
			}
			return done.Events[0].Duplicate
		}
		drawn := func() string {
			at = at.Add(time.Millisecond)
			return grapnel.NewID(grapnel.EventPrefix, at, rand.Reader)
		}
		later := grapnel.NewID(grapnel.EventPrefix, at.Add(time.Hour), rand.Reader)
		for _, id := range []string{"evt_zzzz", "evt_y", later} {
			if before := put("evil", id); before != (open > 0 && id != later) {
				t.Errorf("open %d: %s is a duplicate: %v", open, id, before)
			}
		}
		for range 20 {
			id := drawn()
			if all := bounds.Ahead+bounds.Names > 0; looked("acme", id) != all {
				t.Errorf("open %d: a new id of another tenant is looked up: %v", open, !all)
			}
			if !looked("evil", id) || put("acme", id) || !put("acme", id) || !put("evil", "evt_y") || !put("evil", later) {
				t.Errorf("open %d: %s or an id ahead is not looked up, or wrongly known", open, id)
			}
		}
		put("bolt", "evt_yy") // of a second tenant
		if !put("bolt", "evt_yy") || !put("evil", "evt_zzzz") {
			t.Errorf("open %d: an id ahead is not found", open)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
