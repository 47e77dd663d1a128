package postgres

import (
	"context"
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
	url := database(t)
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	all := len(names)
	found, err := Inspect(t.Context(), url)
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

	first, err := fs.ReadFile(migrations, names[0])
	if err != nil {
		t.Fatal(err)
	}
	on(t, url, func(conn *pgx.Conn) error {
		return migrate(t.Context(), conn, fstest.MapFS{names[0]: {Data: first}})
	})
	if found, err = Inspect(t.Context(), url); err != nil || found.Has != 1 || len(found.Steps) != all-1 || found.Steps[0].About == "" {
		t.Fatalf("of the first: %+v, %v", found, err)
	}
	var several sync.WaitGroup
	for range 4 {
		several.Go(func() {
			if _, err := Migrate(t.Context(), url); err != nil {
				t.Error(err)
			}
		})
	}
	several.Wait()
	if found, err = Migrate(t.Context(), url); err != nil || found.Has != all || len(found.Steps) != 0 {
		t.Fatalf("migrating again: %+v, %v", found, err)
	}

	s := open(t, url, Options{})
	on(t, url, func(conn *pgx.Conn) error {
		_, err := conn.Exec(t.Context(), "INSERT INTO grapnel_schema VALUES (99)")
		return err
	})
	_, inspecting := Inspect(t.Context(), url)
	_, migrating := Migrate(t.Context(), url)
	_, opening := Open(t.Context(), url, Options{})
	for what, err := range map[string]error{"inspecting": inspecting, "migrating": migrating, "opening": opening} {
		if grapnel.CodeOf(err) != grapnel.CodeConflict || !strings.Contains(err.Error(), "newer Grapnel: its schema is number 99") {
			t.Errorf("%s what is newer: %v", what, err)
		}
	}
	if _, err := s.Config(t.Context()); err != nil {
		t.Errorf("a store that is open already: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestInspectRefuses: databases of another program are refused, and unreachable ones are named
// without their password.
func TestInspectRefuses(t *testing.T) {
	t.Parallel()
	url := database(t)
	on(t, url, func(conn *pgx.Conn) error {
		_, err := conn.Exec(t.Context(), "CREATE TABLE theirs (i int)")
		return err
	})
	for _, do := range []func(context.Context, string) (schema.Status, error){Inspect, Migrate} {
		if _, err := do(t.Context(), url); grapnel.CodeOf(err) != grapnel.CodeConflict {
			t.Errorf("another program's: %v", err)
		}
		_, err := do(t.Context(), "postgres://u:hunter2@127.0.0.1:1/grapnel?pool_max_conns=3")
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

// stepsUpTo are the steps before the one with a name.
func stepsUpTo(t *testing.T, name string) fstest.MapFS {
	t.Helper()
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	steps := fstest.MapFS{}
	for _, file := range names {
		if strings.HasSuffix(file, "_"+name+".sql") {
			return steps
		}
		text, err := fs.ReadFile(migrations, file)
		if err != nil {
			t.Fatal(err)
		}
		steps[file] = &fstest.MapFile{Data: text}
	}
	t.Fatalf("there is no step %s", name)
	return nil
}
