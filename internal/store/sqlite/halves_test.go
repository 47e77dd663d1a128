package sqlite

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// TestAHalfIsReusedOnceItsFramesAreSynced loses the power after each event, with halves of four
// operations and no checkpoint. The tables are those of the last sync then, and all later events
// are in the journal: the writer overwrites no frame of the other half before SQLite has synced
// its log.
func TestAHalfIsReusedOnceItsFramesAreSynced(t *testing.T) {
	s, path := openWith(t, Bounds{Half: 4, Unflushed: 2, FlushEvery: time.Hour, Rest: time.Hour})
	s.checkpoints.at = 1 << 40
	synced, tables, syncs := uint64(0), "", 0
	for n := 1; n <= 20 && !t.Failed(); n++ {
		if _, err := publish(t, s, fmt.Sprintf("evt_%03d", n), 10); err != nil {
			t.Fatal(err)
		}
		if now := s.writer.unflushed.synced.Load(); now != synced || tables == "" {
			synced, tables, syncs = now, snapshot(t, path), syncs+1
		}
		lost := snapshot(t, path)
		for _, suffix := range []string{"", "-wal"} {
			if err := os.RemoveAll(lost + suffix); err != nil {
				t.Fatal(err)
			}
			copyFile(t, tables+suffix, lost+suffix)
		}
		later, err := Open(t.Context(), lost, Options{Ballast: -1})
		if err != nil {
			t.Fatalf("after event %d, without power: %v", n, err)
		}
		err = later.read(t.Context(), func(r *sqlite3.Conn) error {
			if has := allRows(t, r, "SELECT count(*) FROM event"); has[0] != fmt.Sprint(n) {
				t.Errorf("after event %d, without power: the tables have %s", n, has[0])
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		if err := later.Close(); err != nil {
			t.Error(err)
		}
	}
	if syncs < 3 {
		t.Errorf("SQLite has synced its log %d times; the halves were not used in turn", syncs)
	}
}
