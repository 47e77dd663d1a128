package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
)

// TestBackup copies databases in each state that they may be in.
func TestBackup(t *testing.T) {
	for name, b := range map[string]Bounds{"rows": {}, "file": apart} {
		t.Run(name, func(t *testing.T) { isBackedUp(t, b) })
	}
}

func isBackedUp(t *testing.T, b Bounds) {
	b.FlushEvery, b.Rest = time.Hour, time.Hour // the last events are in the journal alone
	s, path := openWith(t, b)
	publishOne := func(id string) {
		t.Helper()
		if _, err := publish(t, s, id, 100); err != nil {
			t.Fatal(err)
		}
	}
	copied := func(from string) (content string, whole bool) {
		t.Helper()
		to := filepath.Join(fast(t), "copy.db")
		whole, err := Backup(t.Context(), from, to)
		if err != nil {
			t.Fatal(err)
		}
		if left, err := os.ReadDir(filepath.Dir(to)); err != nil || len(left) != 1 {
			t.Errorf("the backup left %v, %v", left, err)
		}
		return contentAt(t, to), whole
	}
	for i := range 5 {
		publishOne(fmt.Sprint("evt_", i))
		want := contentAt(t, snapshot(t, path))
		if got, whole := copied(path); !whole || got != want {
			t.Errorf("of a store that is open, after %d events: whole %v, %s", i+1, whole, difference(got, want))
		}
	}
	killed := snapshot(t, path)
	want := contentAt(t, snapshot(t, path))
	if got, whole := copied(killed); !whole || got != want {
		t.Errorf("of a store that was killed: whole %v, %s", whole, difference(got, want))
	}
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(killed, link); err != nil {
		t.Fatal(err)
	}
	if got, whole := copied(link); !whole || got != want {
		t.Errorf("by a symbolic link: whole %v, %s", whole, difference(got, want))
	}
	if err := os.Remove(killed + ".journal"); err != nil {
		t.Fatal(err)
	}
	if got, whole := copied(killed); whole || got == want {
		t.Errorf("of a store without its journal: whole %v", whole)
	}
	if n := apartRows(t, s); (n > 0) != (b.Apart > 0) {
		t.Errorf("the data of %d events are in a file", n)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got, whole := copied(path); !whole || got != want {
		t.Errorf("of a store that was closed: whole %v, %s", whole, difference(got, want))
	}
	if _, err := Backup(t.Context(), path, path); grapnel.CodeOf(err) != grapnel.CodeConflict {
		t.Errorf("onto itself: %v", err)
	}
	none := filepath.Join(filepath.Dir(path), "none")
	if _, err := Backup(t.Context(), path, filepath.Join(none, "x.db")); grapnel.CodeOf(err) != grapnel.CodeNotFound ||
		!strings.Contains(err.Error(), none+";") {
		t.Errorf("into a directory that does not exist: %v", err)
	}
	if _, err := Backup(t.Context(), path+".none", path+".new"); grapnel.CodeOf(err) != grapnel.CodeNotFound {
		t.Errorf("of nothing: %v", err)
	}
}

// A backup was put where a server was killed, beside the log of that server's database. SQLite
// would take the log's pages for the backup's.
func TestBackupBesideTheLogOfAnotherDatabase(t *testing.T) {
	s, path := openWith(t, Bounds{})
	copied := filepath.Join(fast(t), "copy.db")
	if _, err := Backup(t.Context(), path, copied); err != nil {
		t.Fatal(err)
	}
	if _, err := publish(t, s, "evt_later", 100); err != nil {
		t.Fatal(err)
	}
	killed := snapshot(t, path)
	want, log := read(t, copied), read(t, killed+"-wal")
	if err := os.WriteFile(killed, want, 0o600); err != nil || len(log) == 0 {
		t.Fatalf("%v, and the log has %d bytes", err, len(log))
	}
	attempts := map[string]func() error{
		"opened":    func() error { _, err := Open(t.Context(), killed, Options{Ballast: -1}); return err },
		"migrated":  func() error { _, err := Migrate(t.Context(), killed); return err },
		"backed up": func() error { _, err := Backup(t.Context(), killed, killed+".copy"); return err },
	}
	for name, attempt := range attempts {
		if err := attempt(); err == nil || !strings.Contains(err.Error(), "move all other files") {
			t.Errorf("%s: %v", name, err)
		}
		if !bytes.Equal(read(t, killed), want) || !bytes.Equal(read(t, killed+"-wal"), log) {
			t.Errorf("%s: the files were changed", name)
		}
	}
	for _, suffix := range []string{"-wal", ".journal", ".data"} {
		_ = os.Remove(killed + suffix)
	}
	if got := contentAt(t, killed); got != contentAt(t, copied) {
		t.Errorf("alone: %s", difference(got, contentAt(t, copied)))
	}
}

// TestBackupsAtOnce: of several backups to one file one is made, and it is whole; the others fail.
func TestBackupsAtOnce(t *testing.T) {
	s, path := openWith(t, Bounds{})
	for i := range 50 {
		if _, err := publish(t, s, fmt.Sprint("evt_", i), 20_000); err != nil {
			t.Fatal(err)
		}
	}
	want := contentAt(t, snapshot(t, path))
	for range 5 {
		to := filepath.Join(fast(t), "copy.db")
		errs := make(chan error, 4)
		for range cap(errs) {
			go func() {
				whole, err := Backup(t.Context(), path, to)
				if err == nil && !whole {
					err = errors.New("it is not whole")
				}
				errs <- err
			}()
		}
		made := 0
		for range cap(errs) {
			switch err := <-errs; {
			case err == nil:
				made++
			case grapnel.CodeOf(err) != grapnel.CodeConflict:
				t.Error(err)
			}
		}
		if made != 1 {
			t.Fatalf("%d backups were made", made)
		}
		if left, err := os.ReadDir(filepath.Dir(to)); err != nil || len(left) != 1 {
			t.Errorf("the backups left %v, %v", left, err)
		}
		if got := contentAt(t, to); got != want {
			t.Error(difference(got, want))
		}
	}
}

// TestBackupToAFullDisk: a backup that says that it is whole has everything, however small the disk
// is.
func TestBackupToAFullDisk(t *testing.T) {
	for name, b := range map[string]Bounds{"rows": {}, "file": apart} {
		t.Run(name, func(t *testing.T) {
			s, path := openWith(t, b)
			for i := range 40 {
				if _, err := publish(t, s, fmt.Sprint("evt_", i), 20_000); err != nil {
					t.Fatal(err)
				}
			}
			want := contentAt(t, snapshot(t, path))
			made, failed := 0, 0
			for size := 256 << 10; made < 3; size += 64 << 10 {
				dir := t.TempDir()
				mountSmall(t, dir, size)
				to := filepath.Join(dir, "copy.db")
				if whole, err := Backup(t.Context(), path, to); err != nil || !whole {
					failed++
					continue
				}
				made++
				if got := contentAt(t, snapshot(t, to)); got != want {
					t.Errorf("with %d bytes: %s", size, difference(got, want))
				}
			}
			if failed == 0 {
				t.Error("none of the disks was too small")
			}
		})
	}
}
