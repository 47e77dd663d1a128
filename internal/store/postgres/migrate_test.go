package postgres

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store/schema"
)

// TestInspectAndMigrate migrates an empty database to the current schema, with several programs at
// once, and then meets a schema of a newer program.
func TestInspectAndMigrate(t *testing.T) {
	t.Parallel()
	url := blank(t)
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	all := len(names)
	found, err := Inspect(t.Context(), url, Password{})
	if err != nil || found.Has != 0 || found.Knows != all || len(found.Steps) != all || !strings.Contains(found.Place, " test") {
		t.Fatalf("of an empty one: %+v, %v", found, err)
	}
	var there bool
	on(t, url, func(conn *pgx.Conn) error {
		return conn.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_tables WHERE schemaname = 'public')").Scan(&there)
	})
	if there {
		t.Fatal("a question has made tables")
	}

	if step := found.Steps[0]; step.About == "" || step.Name == "" {
		t.Errorf("a step does not say what it is about: %+v", step)
	}
	var several sync.WaitGroup
	for range 4 {
		several.Go(func() {
			if _, err := Migrate(t.Context(), url, Password{}); err != nil {
				t.Error(err)
			}
		})
	}
	several.Wait()
	if found, err = Migrate(t.Context(), url, Password{}); err != nil || found.Has != all || len(found.Steps) != 0 {
		t.Fatalf("migrating again: %+v, %v", found, err)
	}

	s := open(t, url, Options{})
	refused(t, url, "INSERT INTO grapnel_schema VALUES (99, 'later', '')", "newer Grapnel: its schema is number 99")
	if _, err := s.Config(t.Context()); err != nil {
		t.Errorf("a store that is open already: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// refused changes a database, and demands that nothing opens it then, for a reason.
func refused(t *testing.T, url, change, says string) {
	t.Helper()
	on(t, url, func(conn *pgx.Conn) error {
		_, err := conn.Exec(t.Context(), change, pgx.QueryExecModeSimpleProtocol)
		return err
	})
	_, inspecting := Inspect(t.Context(), url, Password{})
	_, migrating := Migrate(t.Context(), url, Password{})
	_, opening := Open(t.Context(), url, Options{})
	for what, err := range map[string]error{"inspecting": inspecting, "migrating": migrating, "opening": opening} {
		if grapnel.CodeOf(err) != grapnel.CodeConflict || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", what, err, says)
		}
	}
}

// TestUnreleasedBuilds: a database of a build from before the first release is refused with what to
// do. Such builds stored the numbers of their steps alone; later ones may have had another first
// step.
func TestUnreleasedBuilds(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"with steps that have no names": `DROP TABLE grapnel_schema; CREATE TABLE grapnel_schema (step integer PRIMARY KEY);
			INSERT INTO grapnel_schema SELECT generate_series(1, 15)`,
		"with another first step": "UPDATE grapnel_schema SET sum = 'x'",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := blank(t)
			if _, err := Migrate(t.Context(), url, Password{}); err != nil {
				t.Fatal(err)
			}
			refused(t, url, change, "written by an unreleased build of Grapnel, whose schema this program ("+grapnel.Version+
				") does not know: start with an empty directory or database")
		})
	}
}

// TestSchemaGoesForward: later steps are taken with all of their effects or none, and a step that
// was taken may not change.
func TestSchemaGoesForward(t *testing.T) {
	t.Parallel()
	steps := fstest.MapFS{}
	add := func(sql string) {
		steps[fmt.Sprintf("migrations/%04d_step.sql", len(steps)+1)] = &fstest.MapFile{Data: []byte(sql)}
	}
	on(t, blank(t), func(conn *pgx.Conn) error {
		forward := func() error { return migrate(t.Context(), conn, steps) }
		add("CREATE TABLE a (i integer); INSERT INTO a VALUES (1)")
		if err := forward(); err != nil {
			return err
		}
		add("CREATE TABLE b (i integer); UPDATE a SET i = 2; CREATE TABLE a (i integer)")
		if err := forward(); err == nil {
			t.Error("a step that fails was taken")
		}
		var i int
		var there bool
		if err := conn.QueryRow(t.Context(), "SELECT i, to_regclass('b') IS NOT NULL FROM a").Scan(&i, &there); err != nil || i != 1 || there {
			t.Errorf("a part of a step is there: %d, %v, %v", i, there, err)
		}
		steps["migrations/0002_step.sql"] = &fstest.MapFile{Data: []byte("CREATE TABLE b (i integer)")}
		if err := forward(); err != nil {
			return err
		}
		if taken, err := stepsTaken(t.Context(), conn); err != nil || len(taken) != 2 || taken[1].Name != "step" {
			t.Errorf("steps taken: %+v, %v", taken, err)
		}
		steps["migrations/0001_step.sql"] = &fstest.MapFile{Data: []byte("CREATE TABLE a (i integer, j integer)")}
		if err := forward(); err == nil || !strings.Contains(err.Error(), "unreleased build") {
			t.Errorf("a step with another text: %v", err)
		}
		return nil
	})
}

// TestInspectRefuses: databases of another program are refused, and unreachable ones are named
// without their password.
func TestInspectRefuses(t *testing.T) {
	t.Parallel()
	url := blank(t)
	on(t, url, func(conn *pgx.Conn) error {
		_, err := conn.Exec(t.Context(), "CREATE TABLE theirs (i int)")
		return err
	})
	for _, do := range []func(context.Context, string, Password) (schema.Status, error){Inspect, Migrate} {
		if _, err := do(t.Context(), url, Password{}); grapnel.CodeOf(err) != grapnel.CodeConflict {
			t.Errorf("another program's: %v", err)
		}
		_, err := do(t.Context(), "postgres://u:hunter2@127.0.0.1:1/grapnel?pool_max_conns=3", Password{})
		if grapnel.CodeOf(err) != grapnel.CodeUnavailable || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("one that is not there: %v", err)
		}
	}
}

// on runs a function with a connection of its own.
func on(t *testing.T, url string, do func(*pgx.Conn) error) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if err := do(conn); err != nil {
		t.Error(err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
