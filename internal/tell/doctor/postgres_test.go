//go:build prove

package doctor

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel/internal/store/postgres"
	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
)

// TestFaultsOfARealPostgres: each fault planted in a real PostgreSQL has exactly its finding, and
// the server as it comes has none.
func TestFaultsOfARealPostgres(t *testing.T) {
	ctx := t.Context()
	pg := pgtest.For(t, pgtest.Options{})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	create := func(name string) string {
		t.Helper()
		at, err := pg.Create(ctx, name)
		must(err)
		return at
	}
	look := func(at string, b Bounds, want ...string) {
		t.Helper()
		w := healthy(t)
		w.Database, w.Bounds = "", b
		w.Postgres = func(ctx context.Context) (postgres.Condition, error) {
			return postgres.Examine(ctx, at, postgres.Password{})
		}
		var found []string
		for _, f := range Examine(ctx, w.Subject).Findings {
			found = append(found, f.Check)
			t.Log(f.What)
		}
		if !slices.Equal(found, want) {
			t.Errorf("found %v, not %v", found, want)
		}
	}
	at := create("healthy")
	look(at, Bounds{})
	look(strings.Replace(at, "/healthy", "/absent", 1), Bounds{}, "postgres")
	look(at, Bounds{Node: 197}, "postgres_connections")

	must(pg.Exec(ctx, "CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"))
	look(pg.URL("latin"), Bounds{}, "postgres")

	must(pg.Exec(ctx, "CREATE ROLE weak LOGIN"))
	u, err := url.Parse(at)
	must(err)
	u.User = url.User("weak")
	if q := u.Query(); q.Has("user") {
		q.Set("user", "weak")
		u.RawQuery = q.Encode()
	}
	look(u.String(), Bounds{}, "postgres_rights")

	for setting, check := range map[string]string{"full_page_writes": "postgres_durable", "synchronous_commit": "postgres_durable", "fsync": "postgres_durable", "autovacuum": "postgres_care"} {
		for value, want := range map[string][]string{"off": {check}, "on": nil} {
			must(pg.Exec(ctx, "ALTER SYSTEM SET "+setting+" = "+value))
			must(pg.Exec(ctx, "SELECT pg_reload_conf()"))
			for now := ""; now != value; { // the reload reaches a connection a moment later
				now, err = pg.Ask(ctx, "SHOW "+setting)
				must(err)
			}
			look(at, Bounds{}, want...)
			must(pg.Exec(ctx, "ALTER SYSTEM RESET "+setting))
			must(pg.Exec(ctx, "SELECT pg_reload_conf()"))
			for now := ""; now != "on"; {
				now, err = pg.Ask(ctx, "SHOW "+setting)
				must(err)
			}
		}
	}

	standby, err := pg.Standby(ctx, false)
	must(err)
	defer func() { must(standby.Stop()) }()
	look(standby.URL("healthy"), Bounds{}, "postgres")
	must(pg.Exec(ctx, "CREATE TABLE little ()"))
	for heard := "f"; heard != "t"; { // the primary knows no position before the standby's first answer
		heard, err = pg.Ask(ctx, "SELECT CASE WHEN EXISTS (SELECT FROM pg_stat_replication WHERE replay_lsn IS NOT NULL) THEN 't' ELSE 'f' END")
		must(err)
	}
	standby.Link.Stall(true)
	must(pg.Exec(ctx, "SELECT pg_create_physical_replication_slot('unused', true)"))
	must(pg.Exec(ctx, "CREATE TABLE much AS SELECT repeat('x', 1000) FROM generate_series(1, 3000)"))
	look(at, Bounds{Lag: 1 << 20}, "postgres_replication", "postgres_replication")
}
