package sqlite

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/base/seal"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/journal"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
	"github.com/grapnelhq/grapnel/internal/store/storetest"
)

// slow says that tests with much random data take less of it: the race detector makes SQLite, which
// is one goroutine's at a time, twenty times slower, and with -short a person waits for the result.
func slow() bool { return underRace || testing.Short() }

// TestStore runs the suite of the contract. It ends a store without preparation by copying its
// files: that is the state after the process was killed.
func TestStore(t *testing.T) {
	histories, readers := 60, 4
	if slow() {
		histories, readers = 3, 2
	}
	conforms(t, storetest.Run, histories, Options{Ballast: -1, Bounds: Bounds{Readers: readers, Recent: 3}})
}

// TestStoreTiny runs the suite with bounds so small that every case crosses many of them.
// GRAPNEL_SOAK=1 tries more seeds, and longer.
func TestStoreTiny(t *testing.T) {
	seeds, histories := 2, 10
	if slow() {
		seeds, histories = 1, 3
	}
	if os.Getenv("GRAPNEL_SOAK") != "" {
		seeds = 12
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			conforms(t, storetest.Run, histories, Options{Ballast: -1, Bounds: bounds.Tiny[Bounds](uint64(seed))})
		})
	}
}

// TestStoreSealed runs the suite on a database that is sealed, payloads included, with usual bounds
// and with tiny ones.
func TestStoreSealed(t *testing.T) {
	sealed := Options{Ballast: -1, Master: masterKey(t, "a"), Payloads: true}
	t.Run("usual", func(t *testing.T) { conforms(t, storetest.Run, 3, sealed) })
	sealed.Bounds = bounds.Tiny[Bounds](5)
	t.Run("tiny", func(t *testing.T) { conforms(t, storetest.Drawn, 3, sealed) })
}

// masterKey is the source of a master key made of a letter.
func masterKey(t *testing.T, letter string) seal.Source {
	t.Helper()
	path := filepath.Join(t.TempDir(), "master.key")
	if err := os.WriteFile(path, []byte(strings.Repeat(letter, seal.MinLength)), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := seal.ParseSource("file:" + path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// wrongLettersQuery compares the table of dead letters with what it is derived from, and their
// numbers with the table.
const wrongLettersQuery = `WITH dead AS (SELECT target, seq FROM finished WHERE status = 4
		AND NOT EXISTS (SELECT 1 FROM mark WHERE delivery = seq AND (discarded_at IS NOT NULL OR replay_result = 3)))
	SELECT (SELECT count(*) FROM (SELECT target, seq FROM letter EXCEPT SELECT * FROM dead)) +
		(SELECT count(*) FROM (SELECT * FROM dead EXCEPT SELECT target, seq FROM letter)) +
		(SELECT count(*) FROM letter l WHERE tenant <> (SELECT tenant FROM finished WHERE seq = l.seq)) +
		(SELECT count(*) FROM tally y WHERE letters <> (SELECT count(*) FROM letter
			WHERE y.status = 1 AND target = y.target AND tenant = y.tenant)) +
		(SELECT coalesce(sum(letters), 0) <> (SELECT count(*) FROM letter) FROM tally)`

// conforms runs the suite on stores with these options.
func conforms(t *testing.T, run func(*testing.T, storetest.Harness), histories int, o Options) {
	paths := make(map[store.Store]string)
	start := func(t *testing.T, path string) store.Store {
		t.Helper()
		s, err := Open(t.Context(), path, small(o))
		if err != nil {
			t.Fatal(err)
		}
		paths[s] = path
		return s
	}
	// A new database is created once: with the race detector its migrations take longer than most
	// cases.
	empty := filepath.Join(fast(t), "grapnel.db")
	if err := start(t, empty).Close(); err != nil {
		t.Fatal(err)
	}
	run(t, storetest.Harness{
		Histories: histories,
		Open:      func(t *testing.T) store.Store { return start(t, snapshot(t, empty)) },
		Reopen: func(t *testing.T, s store.Store) store.Store {
			if n := numberIn(t, s.(*Store), wrongLettersQuery); n != 0 {
				t.Errorf("%d dead letters are stored but are none, or the reverse", n)
			}
			// While the writer waits, the log is not restarted: otherwise the database copied
			// before the restart and the log copied after it would lack the pages in between.
			release := hold(t, s.(*Store))
			path := snapshot(t, paths[s])
			release()
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return start(t, path)
		},
	})
}

// TestChanges: the only node has made all changes itself, so the store need not report any.
func TestChanges(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(fast(t), "grapnel.db"), Options{Ballast: -1})
	if err != nil {
		t.Fatal(err)
	}
	storetest.RunChanges(t, s, 0, 10)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// fast is a directory in memory, if available. Tests of many small transactions would wait for the
// disk, and they do not test the disk.
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

// small gives a store a journal of 8 MiB, unless its test has a size. In memory the kernel clears
// what a journal reserves: for the usual 64 MiB that takes 23 ms of a processor, most of the time of
// most tests.
func small(o Options) Options {
	if o.Bounds.Journal == (journal.Bounds{}) {
		o.Bounds.Journal = journal.Bounds{Half: 4 << 20, First: 1 << 20}
	}
	return o
}

// snapshot copies a database with its log and its journal, without asking the process that uses it.
// The journal comes first: a frame that was copied may then be in the copied tables already, but
// none that they lack can be missing. The data come last: those that rows and frames refer to were
// written before.
func snapshot(t *testing.T, path string) string {
	t.Helper()
	to := filepath.Join(fast(t), filepath.Base(path))
	for _, suffix := range []string{".journal", "", "-wal", ".data"} {
		copyFile(t, path+suffix, to+suffix)
	}
	return to
}

// killed copies the files as a process leaves them that is killed at the writer's next step of a
// name, or at any; a flush is asked for. now is called before.
func killed(t *testing.T, s *Store, path, step string, now func()) string {
	t.Helper()
	copied := make(chan string, 1)
	err := s.write(t.Context(), looking(func(*sqlite3.Conn) error {
		s.step = func(at string) {
			if step == "" || at == step {
				s.step = nil
				now()
				copied <- snapshot(t, path)
			}
		}
		return nil
	}))
	if err == nil {
		err = s.write(t.Context(), flushing{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return <-copied
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
