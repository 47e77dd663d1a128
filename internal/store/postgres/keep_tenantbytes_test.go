//go:build prove

package postgres

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
	"github.com/grapnelhq/grapnel/internal/store/storetest"
)

// TestEndedTenantsBytesAreGone: a tenant's name is in each of its texts. The process is stopped
// after any number of calls of EraseTenant, and the next one goes on. Then neither a row of any
// table nor the server's statistics have the name. Once the tables have been written anew, as
// Reclaim asks for, no file of the database has it. The server's log (WAL) is not searched.
func TestEndedTenantsBytesAreGone(t *testing.T) {
	t.Parallel()
	const canary = "canary-of-somebody"
	own := pgtest.For(t, pgtest.Options{})
	url, err := own.Create(t.Context(), "ended")
	if err != nil {
		t.Fatal(err)
	}
	begin := func() *Store { return open(t, url, Options{CallersClock: true}) }
	s := begin()
	storetest.NewTenant(t, s, "other", 5000)
	gone := storetest.NewTenant(t, s, canary, 5000)
	storetest.NewTenant(t, s, "third", 5000)
	do := func(statements ...string) {
		on(t, url, func(conn *pgx.Conn) error {
			for _, sql := range statements {
				if _, err := conn.Exec(t.Context(), sql); err != nil {
					return fmt.Errorf("%s: %w", sql, err)
				}
			}
			return nil
		})
	}
	// A name may be left of an event whose day was dropped.
	do("INSERT INTO event_name VALUES ('"+canary+"-purged', '"+canary+"', 1)", "ANALYZE", "CHECKPOINT")
	rows, files := rowsWith(t, url, canary), databaseFilesWith(t, url, canary)
	if len(rows) < 15 || !slices.Contains(rows, "pg_stats") || len(files) < 15 {
		t.Fatalf("before, only %q and %d files have something of the tenant: this test shows nothing", rows, len(files))
	}
	gone.Leave()
	random := rand.New(rand.NewPCG(5, 6))
	e := store.TenantErasure{Tenant: canary}
	for stops, more := 0, true; more; stops++ {
		if stops < 20 {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = begin()
		}
		e.Limit = 1 + random.IntN(12)
		done, err := s.EraseTenant(t.Context(), e)
		if err != nil {
			t.Fatal(err)
		}
		if more, e.After = done.More, done.After; random.IntN(4) == 0 {
			e.After = 0
		}
	}
	left, err := s.Reclaim(t.Context())
	if err != nil || left == "" || strings.Contains(left, "failed") {
		t.Errorf("Reclaim says %q, %v", left, err)
	}
	balanced(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if rows = rowsWith(t, url, canary); len(rows) > 0 {
		t.Errorf("the tenant is in %q", rows)
	}
	on(t, url, func(conn *pgx.Conn) error {
		var orphans int
		err := conn.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM (SELECT replay FROM replay_item UNION ALL SELECT replay FROM replay_progress) x
				WHERE replay NOT IN (SELECT number FROM replay))
			+ (SELECT count(*) FROM (SELECT target FROM lane UNION ALL SELECT target FROM tally UNION ALL SELECT target FROM total) x
				WHERE target NOT IN (SELECT number FROM target))`).Scan(&orphans)
		if orphans > 0 {
			t.Errorf("%d rows are of no replay, or of no target", orphans)
		}
		return err
	})
	do("VACUUM FULL", "CHECKPOINT")
	if files = databaseFilesWith(t, url, canary); len(files) > 0 {
		t.Errorf("the tenant is in the files of %q", files)
	}
}

// rowsWith are the tables, and the view of statistics, with a row that has a text, also as bytes.
func rowsWith(t *testing.T, url, text string) (found []string) {
	t.Helper()
	on(t, url, func(conn *pgx.Conn) error {
		got, err := conn.Query(t.Context(), "SELECT tablename::text FROM pg_tables WHERE schemaname = 'public' UNION ALL SELECT 'pg_stats'")
		if err != nil {
			return err
		}
		tables, err := pgx.CollectRows(got, pgx.RowTo[string])
		for _, table := range tables {
			var has bool
			if err == nil {
				err = conn.QueryRow(t.Context(), fmt.Sprintf("SELECT EXISTS (SELECT FROM %s x WHERE x::text LIKE '%%%s%%' OR x::text LIKE '%%%x%%')",
					pgx.Identifier{table}.Sanitize(), text, text)).Scan(&has)
			}
			if has {
				found = append(found, table)
			}
		}
		return err
	})
	return found
}

// databaseFilesWith are the tables and indexes with a file that has a text.
func databaseFilesWith(t *testing.T, url, text string) (found []string) {
	t.Helper()
	on(t, url, func(conn *pgx.Conn) error {
		var dir string
		if err := conn.QueryRow(t.Context(), `SELECT current_setting('data_directory') || '/base/' || oid FROM pg_database
			WHERE datname = current_database()`).Scan(&dir); err != nil {
			return err
		}
		files, err := filepath.Glob(dir + "/*")
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			if !bytes.Contains(b, []byte(text)) {
				continue
			}
			name := filepath.Base(file)
			if err := conn.QueryRow(t.Context(), "SELECT coalesce(max(relname), $1) FROM pg_class WHERE pg_relation_filenode(oid)::text = split_part($1, '.', 1)",
				name).Scan(&name); err != nil {
				return err
			}
			found = append(found, name)
		}
		return err
	})
	return found
}
