package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
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
	for _, step := range found.Steps {
		if step.About == "" || step.Name == "" {
			t.Errorf("step %d does not say what it is about", step.Number)
		}
	}
	if left, err := os.ReadDir(filepath.Dir(path)); len(left) != 0 {
		t.Fatalf("a question has made %v, %v", left, err)
	}

	before, err := Migrate(t.Context(), path)
	if err != nil || before.Has != 0 || len(before.Steps) != all {
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

	altered(t, path, func(conn *sqlite3.Conn) error {
		return conn.Exec("INSERT INTO grapnel_schema VALUES (99, 'later', '')")
	})
	refused(t, path, "newer Grapnel: its schema is number 99")
}

// refused demands that nothing opens a database, for a reason, and that its file stays as it is.
func refused(t *testing.T, path, says string) {
	t.Helper()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, inspecting := Inspect(t.Context(), path)
	_, migrating := Migrate(t.Context(), path)
	_, opening := Open(t.Context(), path, Options{Ballast: -1})
	for what, err := range map[string]error{"inspecting": inspecting, "migrating": migrating, "opening": opening} {
		if grapnel.CodeOf(err) != grapnel.CodeConflict || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", what, err, says)
		}
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file has changed, %v", err)
	}
}

// TestUnreleasedBuilds: a database of a build from before the first release is refused with what to
// do. Such builds counted steps in user_version; later ones may have had another first step.
func TestUnreleasedBuilds(t *testing.T) {
	for name, change := range map[string]string{
		"without a list of steps":   "DROP TABLE grapnel_schema; PRAGMA user_version = 17",
		"with another first step":   "UPDATE grapnel_schema SET sum = 'x'",
		"with more steps, all else": "UPDATE grapnel_schema SET sum = 'x'; INSERT INTO grapnel_schema VALUES (2, 'b', 'y'), (3, 'c', 'z')",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "test.db")
			if _, err := Migrate(t.Context(), path); err != nil {
				t.Fatal(err)
			}
			altered(t, path, func(conn *sqlite3.Conn) error { return conn.Exec(change) })
			refused(t, path, "written by an unreleased build of Grapnel, whose schema this program ("+grapnel.Version+
				") does not know: start with an empty directory or database")
		})
	}
}

// TestMigrationsCommitTogether lets the last step fail, and then the check of the result. The
// database is unchanged, without the earlier steps too.
func TestMigrationsCommitTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	steps := fstest.MapFS{}
	add := func(sql string) {
		steps[fmt.Sprintf("migrations/%04d_step.sql", len(steps)+1)] = &fstest.MapFile{Data: []byte(sql)}
	}
	content := func(conn *sqlite3.Conn) string {
		text, err := rows.LookUpText(conn.Query(`SELECT (SELECT group_concat(sql, ';') FROM sqlite_schema) || (SELECT group_concat(i, ',') FROM a) ||
			(SELECT group_concat(name, ',') FROM grapnel_schema)`))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	add("CREATE TABLE a (i); INSERT INTO a VALUES (1)")
	altered(t, path, func(conn *sqlite3.Conn) error {
		if err := migrate(conn, steps, anySchema); err != nil {
			return err
		}
		before := content(conn)
		add("CREATE TABLE b (i); UPDATE a SET i = 2 -- and more")
		refuse := errors.New("of no use")
		err := migrate(conn, steps, func(*sqlite3.Conn) error { return refuse })
		if !errors.Is(err, refuse) || !strings.Contains(err.Error(), "left as it was") || content(conn) != before {
			t.Errorf("migrating to what is of no use: %v; the same as before: %v", err, content(conn) == before)
		}
		add("CREATE TABLE c (i); CREATE TABLE a (i)")
		if err := migrate(conn, steps, anySchema); err == nil || content(conn) != before {
			t.Errorf("migrating to a step that fails: %v; the same as before: %v", err, content(conn) == before)
		}
		return nil
	})
}

// TestASchemaOfItsOwn: a database whose tables were changed by hand is refused.
func TestASchemaOfItsOwn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	if _, err := Migrate(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	altered(t, path, func(conn *sqlite3.Conn) error {
		return conn.Exec("DROP INDEX event_key; ALTER TABLE event DROP COLUMN hash")
	})
	if _, err := Open(t.Context(), path, Options{Ballast: -1}); err == nil || !strings.Contains(err.Error(), "no such column") &&
		!strings.Contains(err.Error(), "no column named") {
		t.Errorf("opening what no program has written: %v", err)
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
