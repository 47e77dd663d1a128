package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/journal"
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
	eat := eater(t, dir)
	heads := owing(t, s, 1000)
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

// TestTheJournalIsUsedUp: a store is opened, and before its first write another program takes all
// of the disk, and then each byte that becomes free. Outcomes are recorded until both halves of the
// journal are used up. A process that is killed then has recorded all of them. Once the disk has
// space again all go on.
func TestTheJournalIsUsedUp(t *testing.T) {
	dir := t.TempDir()
	mountSmall(t, dir, 24<<20)
	path := filepath.Join(dir, "grapnel.db")
	small := journal.Bounds{Half: 1 << 20, Step: 64 << 10, First: 64 << 10}
	o := Options{Ballast: 1 << 20, Bounds: Bounds{Retry: time.Millisecond, Journal: small}}
	s, err := Open(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	heads := owing(t, s, 3000)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(t.Context(), path, o); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	eat := eater(t, dir)
	eat()
	const size = 1000
	recorded := 0
	for err == nil && recorded < len(heads) {
		eat()
		if err = settle(t, s, heads[recorded], size); err == nil {
			recorded++
		}
		if recorded%200 == 0 { // some while flushes fail
			purgeFull(t, s)
		}
	}
	if least := (2 << 20) * 8 / 10 / (size + 100); recorded < least || grapnel.CodeOf(err) != grapnel.CodeStorageFull {
		t.Errorf("%d outcomes were recorded, want at least %d, and then %v", recorded, least, err)
	}
	if n, err := openAt(t, snapshot(t, path), Bounds{}).Waiting(t.Context(), "ep", 1<<30); err != nil || n != len(heads)-recorded {
		t.Errorf("%d outcomes were recorded, and after a kill %d of %d wait: %v", recorded, n, len(heads), err)
	}
	if err := os.Truncate(filepath.Join(dir, "other"), 0); err != nil {
		t.Fatal(err)
	}
	until(t, "room", func() bool { return settle(t, s, heads[recorded], size) == nil })
	if n, err := s.Waiting(t.Context(), "ep", 1<<30); err != nil || n != len(heads)-recorded-1 {
		t.Errorf("%d of %d wait: %v", n, len(heads), err)
	}
}

// purgeFull purges on the full disk. It is refused, unless the log has room for it, and returns.
func purgeFull(t *testing.T, s *Store) {
	t.Helper()
	purged := make(chan error, 1)
	go func() {
		_, err := s.Purge(t.Context(), store.Keep{Now: time.Unix(1_700_000_100, 0), For: time.Second}, 10)
		purged <- err
	}()
	select {
	case err := <-purged:
		if err != nil && grapnel.CodeOf(err) != grapnel.CodeStorageFull {
			t.Errorf("a purge on the full disk: %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("a purge on the full disk does not return: the writer waits for itself")
	}
}

// owing publishes events of one endpoint, 50 in each batch.
func owing(t *testing.T, s *Store, n int) (heads []store.Head) {
	t.Helper()
	for len(heads) < n {
		b := store.Batch{Config: 1}
		for i := range 50 {
			b.Events = append(b.Events, store.Incoming{Targets: []store.Target{{Endpoint: "ep"}}, Event: &grapnel.Event{
				ID: fmt.Sprint("evt_", len(heads)+i), Tenant: "acme", Type: "invoice.paid", Data: make([]byte, 500),
				AcceptedAt: time.Unix(1_700_000_000, 0)}})
		}
		done, err := s.Append(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		heads = append(heads, done.Heads...)
	}
	return heads
}

// eater returns a function that takes all free space of the file system of a directory, as a log
// file of another program does.
func eater(t *testing.T, dir string) func() {
	t.Helper()
	other, err := os.Create(filepath.Join(dir, "other"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	return func() {
		for b := make([]byte, 1<<20); len(b) > 0; {
			if n, _ := other.Write(b); n < len(b) {
				b = b[:len(b)/2]
			}
		}
	}
}
