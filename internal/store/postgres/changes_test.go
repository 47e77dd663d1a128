package postgres

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/storetest"
)

// TestChanges makes random changes in stores that retain the changes of the last 1, 3, 8 and 1,024
// versions.
func TestChanges(t *testing.T) {
	for _, kept := range []int{1, 3, 8, 1024} {
		t.Run(fmt.Sprint(kept), func(t *testing.T) {
			url := blank(t)
			s := open(t, url, Options{Bounds: Bounds{Changes: kept}})
			storetest.RunChanges(t, s, kept, 5)
			on(t, url, func(conn *pgx.Conn) error {
				var rows int
				err := conn.QueryRow(t.Context(), "SELECT count(*) FROM configuration_change").Scan(&rows)
				if rows > kept {
					t.Errorf("%d changes are kept, not %d", rows, kept)
				}
				return err
			})
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestChangesThatAreNotListed: a version whose change is not listed must not be passed over.
func TestChangesThatAreNotListed(t *testing.T) {
	t.Parallel()
	url := blank(t)
	s := open(t, url, Options{})
	since := version(t, s)
	put := func(id string) {
		t.Helper()
		if _, err := s.PutKey(t.Context(), store.Everyone(), grapnel.Key{ID: id, Tenant: "acme"}, store.With{}); err != nil {
			t.Fatal(err)
		}
	}
	changes := func(since int64, keys string, complete bool) {
		t.Helper()
		is, all, err := s.Changes(t.Context(), since)
		var ids []string
		for _, k := range is.Keys.Written {
			ids = append(ids, k.ID)
		}
		if got := strings.Join(ids, " "); err != nil || all != complete || got != keys || is.Version != version(t, s) {
			t.Errorf("since %d: keys %q of version %d, complete %v, %v; want %q, %v", since, got, is.Version, all, err, keys, complete)
		}
	}
	changes(since, "", true)
	put("key_1")
	changes(since, "key_1", true)
	on(t, url, func(conn *pgx.Conn) error {
		_, err := conn.Exec(t.Context(), "UPDATE configuration SET version = version + 1")
		return err
	})
	changes(since, "", false)
	put("key_2")
	changes(since, "", false)
	changes(since+2, "key_2", true)
	changes(since+99, "", false) // a database that went back
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestChangesReadLittle: the number of rows that another node reads after a change does not grow
// with the configuration.
func TestChangesReadLittle(t *testing.T) {
	t.Parallel()
	url := blank(t)
	s := open(t, url, Options{})
	add := func(from, to int) {
		for i := from; i < to; i++ {
			if _, err := s.PutKey(t.Context(), store.Everyone(), grapnel.Key{ID: fmt.Sprintf("key_%04d", i), Tenant: "acme"},
				store.With{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	// read is the number of table rows that the server reads for one question. To plan it, the server
	// reads the highest version too if the list has statistics, so it gets them each time.
	read := func() (rows int64) {
		since := version(t, s) - 1
		on(t, url, func(conn *pgx.Conn) error {
			count := func() (n int64, err error) {
				err = conn.QueryRow(t.Context(), `SELECT coalesce(sum(seq_tup_read + idx_tup_fetch), 0) FROM pg_stat_xact_user_tables
					WHERE relname IN ('api_key', 'access_record', 'endpoint', 'policy', 'source', 'event_type', 'configuration_change')`).Scan(&n)
				return n, err
			}
			for _, sql := range []string{"ANALYZE", "begin", "SELECT " + planned} {
				if _, err := conn.Exec(t.Context(), sql); err != nil {
					return err
				}
			}
			before, err := count()
			if err != nil {
				return err
			}
			if _, err := conn.Exec(t.Context(), changesQuery, since); err != nil {
				return err
			}
			after, err := count()
			rows = after - before
			return err
		})
		return rows
	}
	add(0, 50)
	few := read()
	add(50, 500)
	if many := read(); few > 10 || many > few {
		t.Errorf("%d rows are read for one change among 50, %d among 500", few, many)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
