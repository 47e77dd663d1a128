package sqlite

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
	"github.com/grapnelhq/grapnel/internal/store/storetest"
)

// TestEndedTenantsBytesAreGone: a tenant's name is in each of its texts. The process is stopped
// after any number of calls of EraseTenant, and the next one goes on: then no file has the name.
func TestEndedTenantsBytesAreGone(t *testing.T) {
	for name, b := range map[string]Bounds{"rows": {}, "file": apart, "parts": {Purged: 1, Cleared: 2, Unlearned: 1, Names: 2}} {
		t.Run(name, func(t *testing.T) { endedTenantsBytesAreGone(t, b) })
	}
}

func endedTenantsBytesAreGone(t *testing.T, b Bounds) {
	const canary = "canary-of-somebody"
	stops := 20
	if slow() {
		stops = 4
	}
	b.Behind = 4
	s, path := openWith(t, b)
	random := rand.New(rand.NewPCG(5, 6))
	storetest.NewTenant(t, s, "other", 5000)
	gone := storetest.NewTenant(t, s, canary, 5000)
	storetest.NewTenant(t, s, "third", 5000)
	gone.Leave()
	later := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC) // totals of long ago become those of days
	if _, err := s.Purge(t.Context(), store.Keep{Now: later, For: 1000 * 24 * time.Hour}, 1); err != nil {
		t.Fatal(err)
	}
	if found := filesWith(t, path, canary); len(found) == 0 {
		t.Fatal("the files have nothing of the tenant before: this test shows nothing")
	}
	e := store.TenantErasure{Tenant: canary}
	for stop := range stops {
		if stop > 0 {
			e.Limit = 1 + random.IntN(12)
			done, err := s.EraseTenant(t.Context(), e)
			if err != nil {
				t.Fatal(err)
			}
			e.After = done.After
		}
		copied := snapshot(t, path)
		next, err := Open(t.Context(), copied, Options{Ballast: -1, Bounds: b})
		if err != nil {
			t.Fatal(err)
		}
		left := store.TenantErasure{Tenant: canary, Limit: 1 + random.IntN(200), After: e.After}
		for more := true; more; {
			done, err := next.EraseTenant(t.Context(), left)
			if err != nil {
				t.Fatal(err)
			}
			more, left.After = done.More, done.After
		}
		if _, err := next.Reclaim(t.Context()); err != nil {
			t.Fatal(err)
		}
		if found := filesWith(t, copied, canary); len(found) > 0 {
			t.Fatalf("stop %d: the tenant is in %q", stop, found)
		}
		if off, err := next.Imbalance(t.Context()); off != 0 || err != nil {
			t.Errorf("stop %d: imbalance %d, %v", stop, off, err)
		}
		if err := next.read(t.Context(), func(r *sqlite3.Conn) error {
			for _, of := range []string{"SELECT target FROM tally", "SELECT target FROM lane", "SELECT target FROM target_outcome", "SELECT target FROM letter",
				"SELECT target FROM total_day WHERE target > 0", "SELECT target FROM total_hour WHERE target > 0"} {
				if rows := allRows(t, r, of+" EXCEPT SELECT number FROM target"); len(rows) > 0 {
					t.Errorf("stop %d: %s has targets without a name: %q", stop, of, rows)
				}
			}
			for _, of := range []string{"tally", "total_hour", "total_day", "total_type", "finished", "pending"} {
				if rows := allRows(t, r, "SELECT tenant FROM "+of+" EXCEPT SELECT number FROM tenant"); len(rows) > 0 {
					t.Errorf("stop %d: %s has tenants without a name: %q", stop, of, rows)
				}
			}
			for _, of := range []string{"replay_item", "replay_progress"} {
				if rows := allRows(t, r, "SELECT replay FROM "+of+" EXCEPT SELECT number FROM replay"); len(rows) > 0 {
					t.Errorf("stop %d: %s has rows of no replay: %q", stop, of, rows)
				}
			}
			for _, of := range []string{"attempt", "mark", "redelivery"} {
				if rows := allRows(t, r, "SELECT delivery FROM "+of+" EXCEPT SELECT seq FROM finished EXCEPT SELECT seq FROM pending"); len(rows) > 0 {
					t.Errorf("stop %d: %s has rows of no delivery: %q", stop, of, rows)
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if text := strings.Join(integrity(t, copied), "; "); text != "ok" {
			t.Errorf("stop %d: the database is damaged: %s", stop, text)
		}
		if err := next.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// filesWith are the files of a database that have a text.
func filesWith(t *testing.T, path, text string) (found []string) {
	t.Helper()
	for name, b := range files(t, path) {
		if bytes.Contains(b, []byte(text)) {
			found = append(found, name)
		}
	}
	return found
}

// TestIDsLeaveNoCopies: ids and keys that come in no order split pages of indexes. That leaves
// copies of them in pages that an erasure need not touch.
func TestIDsLeaveNoCopies(t *testing.T) {
	s, path := openNew(t)
	random := rand.New(rand.NewPCG(1, 1))
	for range 60 {
		b := store.Batch{Config: 1}
		for i := range 60 {
			e := &grapnel.Event{ID: fmt.Sprintf("%08x", random.Uint32()), Tenant: "other", Type: "a"}
			if i%10 == 0 {
				e.ID, e.Tenant = e.ID+"-canary", "acme"
			}
			e.Key = e.ID
			b.Events = append(b.Events, store.Incoming{Event: e, Targets: []store.Target{{Endpoint: e.Tenant, Ordered: true}}})
		}
		if _, err := s.Append(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.empty(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.End(t.Context(), "acme", store.Ending{Status: grapnel.Skipped}, 1<<30); err != nil {
		t.Fatal(err)
	}
	e := store.TenantErasure{Tenant: "acme", Limit: 500}
	for more := true; more; {
		done, err := s.EraseTenant(t.Context(), e)
		if err != nil {
			t.Fatal(err)
		}
		more, e.After = done.More, done.After
		if err := s.empty(t.Context()); err != nil { // as if other writes came meanwhile: the log tells nothing about earlier pages
			t.Fatal(err)
		}
	}
	if _, err := s.Reclaim(t.Context()); err != nil {
		t.Fatal(err)
	}
	if found := filesWith(t, path, "-canary"); len(found) > 0 {
		t.Errorf("ids are in %q", found)
	}
}

// TestEndedTenantsDataKeyIsDeleted: in a sealed database, and the other tenant keeps its own.
func TestEndedTenantsDataKeyIsDeleted(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(fast(t), "grapnel.db"), Options{Ballast: -1, Master: masterKey(t, "a")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	storetest.EndedTenantsDataKey(t, s)
}
