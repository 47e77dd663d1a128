package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

func TestCommitsAreSynced(t *testing.T) {
	s, path := openNew(t)
	for name, conn := range map[string]*sqlite3.Conn{"writer": s.writer.tx.conn, "checkpoints": s.checkpoints.conn} {
		if level, err := rows.One(conn, "PRAGMA synchronous"); err != nil || level != 2 {
			t.Errorf("%s: synchronous is %d: %v", name, level, err)
		}
		if err := verify(conn); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	conn, err := connect(path, sqlite3.ReadWrite, 64)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, level := range []string{"OFF", "NORMAL"} {
		if err := conn.Exec("PRAGMA synchronous = " + level); err != nil {
			t.Fatal(err)
		}
		if err := verify(conn); err == nil {
			t.Errorf("synchronous = %s was taken for FULL", level)
		}
	}
}

func TestTheLogIsAskedFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	if err := create(path); err != nil {
		t.Fatal(err)
	}
	conn, err := sqlite3.Open(path, sqlite3.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := verify(conn); err == nil {
		t.Error("a database without a write-ahead log was taken")
	}
}

func TestOneProcessAtATime(t *testing.T) {
	s, path := openNew(t)
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("in use by another process (number %d", os.Getpid())
	for _, name := range []string{path, link} {
		if _, err := Open(t.Context(), name, Options{Ballast: -1}); err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("opened twice, as %s: %v does not say %q", name, err, want)
		}
		if _, err := Migrate(t.Context(), name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("migrated while open, as %s: %v does not say %q", name, err, want)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(t.Context(), path, Options{Ballast: -1})
	if err != nil {
		t.Fatalf("after it was closed: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

// TestTheLockIsRemoved: without the lock file a second process is refused all the same, where the
// file of the tables can be locked.
func TestTheLockIsRemoved(t *testing.T) {
	s, path := openNew(t)
	if err := os.Remove(path + ".lock"); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), path, Options{Ballast: -1}); runtime.GOOS == "linux" && grapnel.CodeOf(err) != grapnel.CodeConflict {
		t.Errorf("opened twice: %v", err)
	}
	if _, err := publish(t, s, "evt_1", 10); err != nil {
		t.Error(err)
	}
}

// TestTheJournalLosesItsName: a frame in a file that the next process would not find is not
// acknowledged, and the store ends.
func TestTheJournalLosesItsName(t *testing.T) {
	for name, lose := range map[string]func(string) error{
		"removed": os.Remove,
		"moved":   func(path string) error { return os.Rename(path, path+".away") },
		"replaced": func(path string) error {
			return errors.Join(os.Rename(path, path+".away"), os.WriteFile(path, nil, 0o600))
		},
	} {
		s, path := openNew(t)
		for i := range 2 { // the second one is a frame
			if _, err := publish(t, s, fmt.Sprint("evt_", i), 10); err != nil {
				t.Fatal(err)
			}
		}
		if err := lose(path + ".journal"); err != nil {
			t.Fatal(err)
		}
		if _, err := publish(t, s, "evt_2", 10); err == nil || grapnel.CodeOf(err) != "" {
			t.Errorf("%s: an event was accepted: %v", name, err)
		}
		failed(t, s)
	}
}

func TestOnlyTheOwnerMayRead(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "grapnel.db")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), path, Options{Ballast: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	seen := 0
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
		seen++
		return err
	})
	if err != nil || seen < 5 { // the database, its log, the log's index, the lock, the ballast
		t.Errorf("saw %d files: %v", seen, err)
	}
}

func TestSchemaGoesForward(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	if err := create(path); err != nil {
		t.Fatal(err)
	}
	conn, err := connect(path, sqlite3.ReadWrite, 64)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	steps := fstest.MapFS{"migrations/0001_a.sql": {Data: []byte("CREATE TABLE a (i)")}}
	if err := migrate(conn, steps, anySchema); err != nil {
		t.Fatal(err)
	}
	if err := migrate(conn, steps, anySchema); err != nil {
		t.Fatalf("again: %v", err)
	}
	steps["migrations/0002_b.sql"] = &fstest.MapFile{Data: []byte("CREATE TABLE b (i); INSERT INTO b VALUES (1); CREATE TABLE a (i)")}
	if err := migrate(conn, steps, anySchema); err == nil {
		t.Fatal("a step that fails was taken")
	}
	if n, err := rows.One(conn, "SELECT count(*) FROM sqlite_schema WHERE name <> 'grapnel_schema'"); err != nil || n != 1 {
		t.Errorf("a part of a step is there: %d tables, %v", n, err)
	}
	steps["migrations/0002_b.sql"] = &fstest.MapFile{Data: []byte("CREATE TABLE b (i)")}
	if err := migrate(conn, steps, anySchema); err != nil {
		t.Fatal(err)
	}
	if taken, err := stepsTaken(conn); err != nil || len(taken) != 2 || taken[1].Name != "b" {
		t.Errorf("steps taken: %+v, %v", taken, err)
	}
	other := maps.Clone(steps)
	other["migrations/0001_a.sql"] = &fstest.MapFile{Data: []byte("CREATE TABLE a (i, j)")}
	if err := migrate(conn, other, anySchema); err == nil || !strings.Contains(err.Error(), "unreleased build") {
		t.Errorf("a step with another text: %v", err)
	}
	delete(steps, "migrations/0002_b.sql")
	if err := migrate(conn, steps, anySchema); err == nil || !strings.Contains(err.Error(), "newer Grapnel") {
		t.Errorf("a newer schema: %v", err)
	}
}

func TestOtherFilesAreLeftAlone(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "other.db")
	if err := create(other); err != nil {
		t.Fatal(err)
	}
	conn, err := sqlite3.Open(other, sqlite3.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Exec("CREATE TABLE theirs (i)"); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	before := read(t, other)
	if _, err := Open(t.Context(), other, Options{Ballast: -1}); err == nil || !strings.Contains(err.Error(), "another program") {
		t.Errorf("a database of another program: %v", err)
	}
	if !bytes.Equal(before, read(t, other)) {
		t.Error("a database of another program was changed")
	}
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("this is no database\n", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), text, Options{Ballast: -1}); err == nil {
		t.Error("a text was opened")
	}
	if _, err := Open(t.Context(), filepath.Join(dir, "absent", "grapnel.db"), Options{}); err == nil {
		t.Error("a directory was made")
	}
}

// A database was moved away after a crash, without its log and its journal. Another in its place
// would delete both, and with them the last writes.
func TestWritesOfADatabaseThatWasMovedAreKept(t *testing.T) {
	s, open := openNew(t)
	if _, err := publish(t, s, "evt_1", 100); err != nil {
		t.Fatal(err)
	}
	path := snapshot(t, open)
	before := map[string][]byte{}
	for _, end := range []string{"-wal", ".journal"} {
		before[end] = read(t, path+end)
	}
	if err := os.Rename(path, path+".moved"); err != nil {
		t.Fatal(err)
	}
	refused := func(when string, err error) {
		if err == nil || !strings.Contains(err.Error(), "put the database back") {
			t.Errorf("%s: %v", when, err)
		}
		for end, content := range before {
			if !bytes.Equal(read(t, path+end), content) {
				t.Errorf("%s: %s was changed", when, end)
			}
		}
	}
	for range 2 {
		_, err := Open(t.Context(), path, Options{Ballast: -1})
		refused("opened", err)
		_, err = Migrate(t.Context(), path)
		refused("migrated", err)
	}
	if err := os.Remove(path + "-wal"); err != nil {
		t.Fatal(err)
	}
	delete(before, "-wal")
	_, err := Open(t.Context(), path, Options{Ballast: -1})
	refused("opened without the log", err)
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
