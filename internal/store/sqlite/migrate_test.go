package sqlite

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// TestInspectAndMigrate starts without a database, migrates it to the current schema, and then
// meets a schema of a newer program.
func TestInspectAndMigrate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	all := len(names)
	found, err := Inspect(t.Context(), path)
	if err != nil || found.Has != 0 || found.Knows != all || len(found.Steps) != all || found.Place != path {
		t.Fatalf("of none: %+v, %v", found, err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); len(left) != 0 {
		t.Fatalf("a question has made %v, %v", left, err)
	}

	first, err := fs.ReadFile(migrations, names[0])
	if err != nil {
		t.Fatal(err)
	}
	altered(t, path, func(conn *sqlite3.Conn) error {
		return migrate(conn, fstest.MapFS{names[0]: {Data: first}}, anySchema)
	})
	if found, err = Inspect(t.Context(), path); err != nil || found.Has != 1 || len(found.Steps) != all-1 {
		t.Fatalf("of the first: %+v, %v", found, err)
	}
	for _, step := range found.Steps {
		if step.About == "" || step.Name == "" {
			t.Errorf("step %d does not say what it is about", step.Number)
		}
		if step.Number == 5 && (!step.Heavy || !strings.Contains(strings.Join(step.Does, "; "),
			"rewrites rows of pending; reads all of finished")) {
			t.Errorf("step 5 is said to do %q", step.Does)
		}
	}

	before, err := Migrate(t.Context(), path)
	if err != nil || before.Has != 1 || len(before.Steps) != all-1 {
		t.Fatalf("migrating: %+v, %v", before, err)
	}
	if before, err = Migrate(t.Context(), path); err != nil || before.Has != all || len(before.Steps) != 0 {
		t.Fatalf("migrating again: %+v, %v", before, err)
	}

	s, err := Open(t.Context(), path, Options{Ballast: -1})
	if err != nil {
		t.Fatal(err)
	}
	if found, err = Inspect(t.Context(), path); err != nil || found.Has != all {
		t.Errorf("while it is used: %+v, %v", found, err)
	}
	if _, err = Migrate(t.Context(), path); grapnel.CodeOf(err) != grapnel.CodeConflict || !strings.Contains(err.Error(),
		"in use by another process") {
		t.Errorf("migrating while it is used: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	altered(t, path, func(conn *sqlite3.Conn) error { return conn.Exec("PRAGMA user_version = 99") })
	_, inspecting := Inspect(t.Context(), path)
	_, migrating := Migrate(t.Context(), path)
	_, opening := Open(t.Context(), path, Options{Ballast: -1})
	for what, err := range map[string]error{"inspecting": inspecting, "migrating": migrating, "opening": opening} {
		if grapnel.CodeOf(err) != grapnel.CodeConflict || !strings.Contains(err.Error(), "newer Grapnel: its schema is number 99") {
			t.Errorf("%s what is newer: %v", what, err)
		}
	}
}

// anySchema is for tests that stop at some step.
func anySchema(*sqlite3.Conn) error { return nil }

func altered(t *testing.T, path string, do func(*sqlite3.Conn) error) {
	t.Helper()
	if err := create(path); err != nil {
		t.Fatal(err)
	}
	conn, err := connect(path, sqlite3.ReadWrite, 64)
	if err != nil {
		t.Fatal(err)
	}
	if err := do(conn); err != nil {
		t.Error(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
}

// asBefore creates a database that lacks a migration, named by the end of its file's name, and all
// after it.
func asBefore(t *testing.T, migration string) (path string, conn *sqlite3.Conn) {
	t.Helper()
	path = filepath.Join(fast(t), "grapnel.db")
	if err := create(path); err != nil {
		t.Fatal(err)
	}
	conn, err := connect(path, sqlite3.ReadWrite, 64)
	if err != nil {
		t.Fatal(err)
	}
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	before := fstest.MapFS{}
	for _, name := range names {
		if strings.HasSuffix(name, migration) {
			break
		}
		step, err := fs.ReadFile(migrations, name)
		if err != nil {
			t.Fatal(err)
		}
		before[name] = &fstest.MapFile{Data: step}
	}
	if err := migrate(conn, before, anySchema); err != nil {
		t.Fatal(err)
	}
	return path, conn
}
