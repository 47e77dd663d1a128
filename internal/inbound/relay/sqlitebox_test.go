package relay

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	_ "modernc.org/sqlite" // the driver of producers

	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/outbox"
)

// shop is a producer's SQLite database with an outbox.
func shop(t *testing.T) (db *sql.DB, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "shop.db")
	db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.ExecContext(t.Context(), outbox.InstallSQLite()); err != nil {
		t.Fatal(err)
	}
	return db, path
}

func waiting(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM grapnel_outbox").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestSQLiteOrder: eight producers compete for five keys, with usual and with tiny bounds, and two
// relays work on the file. The events of each key arrive in the order of the commits, once, and
// no event of a transaction that was rolled back arrives.
func TestSQLiteOrder(t *testing.T) {
	for name, b := range map[string]Bounds{"usual": {}, "tiny": bounds.Fill(bounds.Tiny[Bounds](1)), "tinier": bounds.Fill(bounds.Tiny[Bounds](2))} {
		t.Run(name, func(t *testing.T) {
			db, path := shop(t)
			s := newSink(t, "sqlite:"+path)
			for range 2 {
				relaying(t, Options{Bounds: b, Engine: s, Store: s.Store, Files: []string{path}})
			}
			var mu sync.Mutex // a key's counter rises with its commit
			counted := map[string]int{}
			var producers sync.WaitGroup
			for p := range 8 {
				producers.Go(func() {
					for i := range 20 {
						mu.Lock()
						key := fmt.Sprint("k", (p+i)%5)
						tx, err := db.BeginTx(t.Context(), nil)
						if err == nil {
							err = outbox.PublishSQLite(t.Context(), tx, outbox.Event{Type: "a.b", Key: key, Data: fmt.Append(nil, counted[key]+1)})
						}
						switch {
						case err != nil:
						case i%4 == 3:
							err = tx.Rollback()
						default:
							if err = tx.Commit(); err == nil {
								counted[key]++
							}
						}
						mu.Unlock()
						if err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			producers.Wait()
			until(t, "all is relayed", func() bool { return waiting(t, db) == 0 })
			s.ordered(counted)
		})
	}
}

// TestSQLiteRowsThatAreNoEvents: rows that are no events are set aside, each with its fault, and
// delay no others.
func TestSQLiteRowsThatAreNoEvents(t *testing.T) {
	db, path := shop(t)
	put := func(kind, key, id, data, metadata, at string) {
		t.Helper()
		_, err := db.ExecContext(t.Context(), "INSERT INTO grapnel_outbox (type, key, event_id, data, metadata, occurred_at, published_at) VALUES (?, ?, ?, ?, ?, ?, 0)",
			kind, key, id, data, metadata, at)
		if err != nil {
			t.Fatal(err)
		}
	}
	const at = "2026-11-29T12:00:00Z"
	put("a..b", "k", "e1", "1", "{}", at)
	put("a.b", "k\x01", "e2", "1", "{}", at)
	put("a.b", "k", "e3", "1", `{"n":1}`, at)
	put("a.b", "k", "e4", "1", "{}", "soon")
	put("a.b", "k", "e5", `"`+strings.Repeat("x", 600)+`"`, "{}", at)
	put("a.b", "k", "e6", "1", `{"n":"1"}`, at)
	s := newSink(t, "sqlite:"+path)
	r, _ := relaying(t, Options{Engine: s, Store: s.Store, Files: []string{path}, MaxEvent: 512})
	until(t, "all are gone", func() bool { return waiting(t, db) == 0 })
	if all := s.events(); len(all) != 1 || all[0].ID != "e6" || all[0].Metadata["n"] != "1" {
		t.Errorf("%d arrived: %+v", len(all), all)
	}
	until(t, "five are set aside", func() bool {
		now, _ := r.Status("src_1")
		return now.Moved == 6 && now.Aside == 5
	})
	for _, wrong := range []outbox.Event{{Type: "a b", Data: []byte("1")}, {Type: "a.b", Data: []byte("{")}, {Type: "a.b", Data: []byte("1"), ID: "a/b"}} {
		if err := outbox.PublishSQLite(t.Context(), db, wrong); err == nil {
			t.Errorf("%+v was taken", wrong)
		}
	}
}

// TestOnlyGivenFilesAreOpened: a source leads to no file that the server was not started with. It is
// neither opened nor created, and the state says the remedy.
func TestOnlyGivenFilesAreOpened(t *testing.T) {
	_, given := shop(t)
	other := filepath.Join(t.TempDir(), "other.db")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := newSink(t, "sqlite:"+other, "sqlite:"+given+".absent")
	r, stop := relaying(t, Options{Engine: s, Store: s.Store, Files: []string{given, given + ".absent"}})
	for source, want := range map[string]string{"src_1": "--outbox-file", "src_2": "unable to open"} {
		until(t, "it is refused", func() bool {
			now, _ := r.Status(source)
			return now.State == Away && strings.Contains(now.Detail, want)
		})
	}
	stop()
	if info, err := os.Stat(other); err != nil || info.Size() != 0 {
		t.Errorf("%v, %v", info, err)
	}
	for dsn, right := range map[string]bool{"sqlite:/var/lib/a.db": true, "sqlite:a.db": false, "sqlite:": false, "sqlite:/a/../b": false} {
		if err := CheckDSN(dsn); (err == nil) != right {
			t.Errorf("%s: %v", dsn, err)
		}
	}
}
