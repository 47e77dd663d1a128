package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// TestTheReserveIsEaten: on a full disk another program takes each byte that becomes free, the
// reserve too. Outcomes go on, reads see them, and a process that is killed then has recorded all
// of them.
func TestTheReserveIsEaten(t *testing.T) {
	dir := t.TempDir()
	mountSmall(t, dir, 24<<20)
	path := filepath.Join(dir, "grapnel.db")
	s, err := Open(t.Context(), path, Options{Ballast: 2 << 20, Bounds: Bounds{Retry: time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	other, err := os.Create(filepath.Join(dir, "other"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	eat := func() {
		for b := make([]byte, 1<<20); len(b) > 0; {
			if n, _ := other.Write(b); n < len(b) {
				b = b[:len(b)/2]
			}
		}
	}
	var heads []store.Head
	for range 20 {
		b := store.Batch{Config: 1}
		for i := range 50 {
			b.Events = append(b.Events, store.Incoming{Targets: []store.Target{{Endpoint: "ep"}}, Event: &grapnel.Event{
				ID: fmt.Sprint("evt_", len(heads)+i), Tenant: "acme", Type: "invoice.paid", Data: make([]byte, 500), AcceptedAt: time.UnixMicro(1)}})
		}
		done, err := s.Append(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		heads = append(heads, done.Heads...)
	}
	eat()
	until(t, "a refusal", func() bool {
		_, err := publish(t, s, "evt_refused", 100_000)
		return grapnel.CodeOf(err) == grapnel.CodeStorageFull
	})
	for i, h := range heads {
		eat()
		if err := settle(t, s, h, 300); err != nil {
			t.Fatalf("outcome %d on a full disk: %v", i, err)
		}
		if i%100 > 0 {
			continue
		}
		if n, err := s.Waiting(t.Context(), "ep", 1<<30); err != nil || n != len(heads)-i-1 {
			t.Fatalf("%d deliveries wait after outcome %d: %v", n, i, err)
		}
	}
	var copied string
	if err := s.write(t.Context(), looking(func(*sqlite3.Conn) error { copied = snapshot(t, path); return nil })); err != nil {
		t.Fatal(err)
	}
	if n, err := openAt(t, copied, Bounds{}).Waiting(t.Context(), "ep", 1<<30); err != nil || n != 0 {
		t.Errorf("%d deliveries would be repeated: %v", n, err)
	}
}
