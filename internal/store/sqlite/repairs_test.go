package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/schema"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// written creates a database of an earlier program, with all later steps applied but no repair, as
// a program without repairs left it.
func written(t *testing.T, number int, stepped bool) (path string) {
	t.Helper()
	path = filepath.Join(fast(t), "grapnel.db")
	if err := create(path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(fmt.Sprintf("testdata/schema_%d.sql", number))
	if err != nil {
		t.Fatal(err)
	}
	steps, err := schema.Read(migrations)
	if err != nil {
		t.Fatal(err)
	}
	altered(t, path, func(conn *sqlite3.Conn) error {
		if err := conn.Exec(string(text)); err != nil || !stepped {
			return err
		}
		for _, step := range steps[number:] {
			if err := conn.Exec(fmt.Sprintf("%s; PRAGMA user_version = %d", step.SQL, step.Number)); err != nil {
				return err
			}
		}
		return nil
	})
	return path
}

// TestDatabasesOfEarlierFormsAreOpened opens and uses the databases of three earlier commits, whose
// steps 3, 5 and 7 had other texts. Each has four events with a key of its own: delivered, failed,
// tried once, and pending.
func TestDatabasesOfEarlierFormsAreOpened(t *testing.T) {
	for _, number := range []int{4, 5, 7} {
		for _, stepped := range []bool{false, true} {
			t.Run(fmt.Sprintf("of schema %d, steps taken %v", number, stepped), func(t *testing.T) {
				path := written(t, number, stepped)
				for range 2 { // the second time no repair is needed
					s, err := Open(t.Context(), path, Options{Ballast: -1})
					if err != nil {
						t.Fatal(err)
					}
					goesOn(t, s, number)
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
				}
			})
		}
	}
}

// goesOn reads the rows written before, in every way that the earlier forms concern, and purges
// nothing.
func goesOn(t *testing.T, s *Store, number int) {
	t.Helper()
	ctx, all := t.Context(), store.Everyone()
	if n, err := s.Imbalance(ctx); n != 0 || err != nil {
		t.Errorf("imbalance %d, %v", n, err)
	}
	for id, want := range map[string]grapnel.Status{"evt_delivered": grapnel.Delivered, "evt_failed": grapnel.Failed,
		"evt_tried": grapnel.Pending, "evt_waits": grapnel.Pending} {
		e, ds, err := s.Event(ctx, all, "acme", id)
		if err != nil || len(ds) != 1 || string(e.Data) != `{"id":"`+id+`"}` {
			t.Fatalf("%s: %+v, %+v, %v", id, e, ds, err)
		}
		d, err := s.Delivery(ctx, all, ds[0].Seq)
		if tried := id != "evt_waits"; err != nil || d.Status != want || (len(d.Attempts) == 1) != tried {
			t.Errorf("the delivery of %s: %+v, %v", id, d, err)
		}
		for _, q := range []store.DeliveryQuery{{Status: []grapnel.Status{want}, Limit: 5}, {StatusCode: ds[0].Last.StatusCode, Limit: 5}} {
			if list, err := s.DeliveryList(ctx, all, q); err != nil || !has(list, ds[0].Seq) {
				t.Errorf("a list by %v and %d has not the delivery of %s: %v", q.Status, q.StatusCode, id, err)
			}
		}
	}
	if number == 7 {
		if list, err := s.EventList(ctx, all, store.EventQuery{Source: "src_1", Limit: 5}); err != nil || len(list) != 4 {
			t.Errorf("%d events of the source, %v", len(list), err)
		}
	}
	heads, err := s.Heads(ctx, "ep_a", 10)
	if err != nil || len(heads) == 0 {
		t.Fatalf("heads %v, %v", heads, err)
	}
	h := heads[len(heads)-1]
	done, err := s.Record(ctx, []store.Change{{Delivery: h.Delivery, Expect: h.Attempts, At: time.Unix(1_700_009_000, 0),
		Status: grapnel.Pending,
		Due:    time.Unix(1_700_010_000, 0)}})
	if err != nil || !done[0].Applied {
		t.Errorf("recording: %+v, %v", done, err)
	}
	if _, err := s.Totals(ctx, all, store.TotalsQuery{}); err != nil {
		t.Errorf("totals: %v", err)
	}
	if _, err := s.Purge(ctx, store.Keep{Now: time.Unix(1_700_000_000, 0), For: time.Hour}, 10); err != nil {
		t.Errorf("purging: %v", err)
	}
}

func has(list []grapnel.Delivery, seq int64) bool {
	for _, d := range list {
		if d.Seq == seq {
			return true
		}
	}
	return false
}

// TestMigrationsCommitTogether lets the last step fail, and then the check of the result. The
// database is unchanged byte for byte, without the earlier steps too.
func TestMigrationsCommitTogether(t *testing.T) {
	path := written(t, 4, false)
	content := func(conn *sqlite3.Conn) string {
		q, err := conn.Prepare(`SELECT (SELECT group_concat(sql, ';') FROM sqlite_schema) || (SELECT group_concat(n, ',') FROM tally) ||
			(SELECT user_version FROM pragma_user_version)`)
		if err != nil {
			t.Fatal(err)
		}
		if found, err := q.Row(); !found || err != nil {
			t.Fatal(found, err)
		}
		defer q.Reset()
		return q.String(0)
	}
	altered(t, path, func(conn *sqlite3.Conn) error {
		before := content(conn)
		steps := fstest.MapFS{}
		all, err := schema.Read(migrations)
		if err != nil {
			return err
		}
		for _, step := range all {
			steps[fmt.Sprintf("migrations/%04d_%s.sql", step.Number, step.Name)] = &fstest.MapFile{Data: []byte(step.SQL)}
		}
		refuse := errors.New("of no use")
		err = migrate(conn, steps, func(*sqlite3.Conn) error { return refuse })
		if !errors.Is(err, refuse) || !strings.Contains(err.Error(), "left as it was") || content(conn) != before {
			t.Errorf("migrating to what is of no use: %v; the same as before: %v", err, content(conn) == before)
		}
		last := fmt.Sprintf("migrations/%04d_last.sql", len(all)+1)
		steps[last] = &fstest.MapFile{Data: []byte("CREATE TABLE more (i); CREATE TABLE event (i)")}
		if err := migrate(conn, steps, anySchema); err == nil || content(conn) != before {
			t.Errorf("migrating to a step that fails: %v; the same as before: %v", err, content(conn) == before)
		}
		return nil
	})
	// A schema that no program made is refused.
	altered(t, path, func(conn *sqlite3.Conn) error {
		return conn.Exec("DROP INDEX event_key; ALTER TABLE event DROP COLUMN hash")
	})
	if _, err := Open(t.Context(), path, Options{Ballast: -1}); err == nil || !strings.Contains(err.Error(), "left as it was") {
		t.Errorf("opening what no program has written: %v", err)
	}
	altered(t, path, func(conn *sqlite3.Conn) error {
		if v, err := one(conn, "PRAGMA user_version"); v != 4 || err != nil {
			t.Errorf("its schema is number %d, %v", v, err)
		}
		return nil
	})
}
