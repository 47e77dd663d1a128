package sqlite

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/storetest"
)

// TestStore runs the suite of the contract. A store ends without any preparation by having its files copied as they are at that
// moment: that is what a machine finds after the process was killed.
func TestStore(t *testing.T) {
	histories, readers := 60, 4
	if slow {
		histories, readers = 3, 2
	}
	paths := make(map[store.Store]string)
	start := func(t *testing.T, path string) store.Store {
		t.Helper()
		s, err := Open(t.Context(), path, Options{Ballast: -1, Readers: readers})
		if err != nil {
			t.Fatal(err)
		}
		paths[s] = path
		// So few that there are mostly some in the index and some in memory.
		if err := s.write(t.Context(), &change{do: func(tx *tx) error { tx.recent.most = 3; return nil }}); err != nil {
			t.Fatal(err)
		}
		return s
	}
	// What a first start makes is made once: with the race detector its migrations take longer than most cases.
	empty := filepath.Join(fast(t), "grapnel.db")
	if err := start(t, empty).Close(); err != nil {
		t.Fatal(err)
	}
	storetest.Run(t, storetest.Harness{
		Histories: histories,
		Open:      func(t *testing.T) store.Store { return start(t, snapshot(t, empty)) },
		Reopen: func(t *testing.T, s store.Store) store.Store {
			path := snapshot(t, paths[s])
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return start(t, path)
		},
	})
}

// fast is a directory in memory where there is one. What tests of many small transactions wait for is the disk, and they are not
// about the disk.
func fast(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "grapnel")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// snapshot copies a database with its log, without asking the process that uses it.
func snapshot(t *testing.T, path string) string {
	t.Helper()
	to := filepath.Join(fast(t), filepath.Base(path))
	for _, suffix := range []string{"", "-wal"} {
		copyFile(t, path+suffix, to+suffix)
	}
	return to
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if os.IsNotExist(err) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	// A log that grows as fast as it is copied would never end.
	info, err := in.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, io.LimitReader(in, info.Size())); err != nil {
		t.Fatal(err)
	}
}
