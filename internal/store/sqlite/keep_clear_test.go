package sqlite

import (
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
)

// TestClearKeepsANewReplay: when the newest replay is removed, SQLite gives its number to the next
// one. Here that one is created between two transactions of the same Clear.
func TestClearKeepsANewReplay(t *testing.T) {
	var s *Store
	committed := func() {} // the writer reads the clock after each commit
	put := func(id string, status grapnel.ReplayStatus) error {
		r := grapnel.Replay{ID: id, Tenant: "acme", Endpoint: "ep", Status: status, CreatedAt: time.UnixMicro(1), FinishedAt: time.UnixMicro(2)}
		_, err := s.PutReplay(t.Context(), store.Everyone(), r, store.With{})
		return err
	}
	s, err := Open(t.Context(), filepath.Join(fast(t), "grapnel.db"), Options{
		Ballast: -1, Bounds: Bounds{Cleared: 1},
		Now: func() time.Time { committed(); return time.Now() },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := put("rpl_over", grapnel.ReplayCompleted); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	if err := s.write(t.Context(), &change{do: func(tx *tx) error {
		committed = func() {
			n, err := rows.One(tx.conn, "SELECT count(*) FROM replay")
			if err != nil || n > 0 || tx.conn.InTransaction() {
				return
			}
			committed = func() {} // the old replay is removed, and Clear has not returned yet
			go func() { done <- put("rpl_new", grapnel.ReplayRunning) }()
			for s.writer.line.length() == 0 {
				runtime.Gosched()
			}
		}
		return nil
	}}); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Clear(t.Context(), store.Clearing{Replays: time.UnixMicro(3)}, 10); n != 1 || err != nil {
		t.Errorf("%d removed, want one: %v", n, err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if r, err := s.Replay(t.Context(), store.Everyone(), "rpl_new"); err != nil || r.ID != "rpl_new" {
		t.Errorf("the new replay is gone: %v", err)
	}
}
