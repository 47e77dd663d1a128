package sqlite

import (
	"fmt"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// TestRowsThatCannotBeWritten: between two batches SQLite rolls the transaction back because it can
// not write a row, as it may when the disk is full. The tables then have all operations that were
// answered, each once.
func TestRowsThatCannotBeWritten(t *testing.T) {
	s, path := openWith(t, Bounds{Deferred: 1, FlushEvery: time.Hour})
	for n := range 4 {
		if n == 3 { // the rollback removes the trigger too
			if err := s.write(t.Context(), looking(func(conn *sqlite3.Conn) error {
				return conn.Exec("CREATE TEMP TRIGGER full BEFORE INSERT ON event BEGIN SELECT RAISE(ROLLBACK, 'no space'); END")
			})); err != nil {
				t.Fatal(err)
			}
		}
		e := &grapnel.Event{ID: fmt.Sprint("evt_", n), Tenant: fmt.Sprint("tenant ", n%3), Type: "a.b", Key: "key", Data: []byte("1"),
			AcceptedAt: time.Unix(1_700_000_000, 0)}
		if _, err := s.Append(t.Context(), store.Batch{Config: 1, Events: []store.Incoming{{Event: e,
			Targets: []store.Target{{Endpoint: "ep", Ordered: true}}}}}); err != nil {
			t.Fatal(err)
		}
	}
	killed := snapshot(t, path)
	compare(t, "killed", contentAt(t, killed), s)
}
