package sqlite

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/journal"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// content is everything in the tables of a database, but its position in the journal. Data in a
// file of their own are as if they were in their rows.
func content(t *testing.T, conn *sqlite3.Conn, data *dataFile) string {
	t.Helper()
	var all strings.Builder
	q := conn.Query("SELECT seq, packed, data FROM event ORDER BY seq")
	var err error
	for q.More(&err) {
		there, packed, err := data.whole(q.Bytes(2), q.Integer(1))
		if err != nil {
			t.Errorf("the data of event %d: %v", q.Integer(0), err)
		}
		fmt.Fprintf(&all, "event %d: %d %x\n", q.Integer(0), packed, there)
	}
	if err != nil {
		t.Fatal(err)
	}
	const tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT IN ('journal', 'hole') ORDER BY name"
	for _, table := range allRows(t, conn, tables) {
		var columns []string
		for _, c := range allRows(t, conn, fmt.Sprintf("SELECT name FROM pragma_table_info('%s') WHERE '%[1]s' <> 'event' OR name NOT IN ('packed', 'data')", table)) {
			columns = append(columns, fmt.Sprintf("quote(\"%s\")", c))
		}
		list := allRows(t, conn, fmt.Sprintf("SELECT %s AS line FROM \"%s\" ORDER BY line", strings.Join(columns, "||','||"), table))
		fmt.Fprintf(&all, "%s:\n%s\n", table, strings.Join(list, "\n"))
	}
	return all.String()
}

func allRows(t *testing.T, conn *sqlite3.Conn, query string) (all []string) {
	t.Helper()
	q, err := conn.Prepare(query)
	if err != nil {
		t.Fatal(err)
	}
	for {
		more, err := q.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			return all
		}
		all = append(all, q.String(0))
	}
}

// contentAt opens a database as a later process does, and closes it.
func contentAt(t *testing.T, path string) string {
	t.Helper()
	return contentWith(t, path, Bounds{})
}

func contentWith(t *testing.T, path string, b Bounds) string {
	t.Helper()
	s, err := Open(t.Context(), path, Options{Ballast: -1, Bounds: b})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path + ".journal"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a closed database has a journal: %v", err)
	}
	conn, err := connect(path, sqlite3.ReadOnly, 64)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	p, err := readPosition(conn)
	data := &dataFile{path: path + ".data"}
	if err := errors.Join(err, data.open(p)); err != nil {
		t.Fatal(err)
	}
	defer data.close()
	return content(t, conn, data)
}

// TestTheJournalMakesTheSameTables lets a store work, and compares its tables with those that a
// later process makes of copies of its files: when it is killed, and when the machine loses its
// power, so that no flush since the last sync of the log is there. Other events come during
// flushes.
func TestTheJournalMakesTheSameTables(t *testing.T) {
	seeds, steps := 30, 150
	if slow() {
		seeds = 4
	}
	if os.Getenv("GRAPNEL_SOAK") != "" {
		seeds = 3000
	}
	replayed, light, inFile := 0, 0, int64(0)
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			needed, during, apart := worksAndIsCopied(t, seed, steps)
			replayed, light, inFile = replayed+needed, light+during, inFile+apart
		})
	}
	if replayed == 0 || light == 0 || inFile == 0 {
		t.Errorf("copies needed %d frames, %d were written during flushes, and %d events had their data in a file", replayed, light, inFile)
	}
}

// worksAndIsCopied returns how many frames copies have needed, how many were written during
// flushes, and how many events have their data in a file at the end.
func worksAndIsCopied(t *testing.T, seed, steps int) (replayed, light int, inFile int64) {
	t.Helper()
	r := &randomly{Rand: rand.New(rand.NewPCG(uint64(seed), 1)), t: t, config: 1, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	b := Bounds{Unflushed: 1 + r.IntN(40), Deferred: 1 + r.IntN(40), Behind: 1 + r.Int64N(40), FlushEvery: time.Hour,
		Apart: 1 << r.IntN(14), LeastApart: 1 << r.IntN(12), ApartStep: 4096, ApartWrite: 1 << r.IntN(14), Beside: 1 + r.IntN(4),
		Journal: journal.Bounds{Half: 1 << (14 + r.IntN(8)), Step: 4096}}
	later := Bounds{Behind: b.Behind} // of the process that opens a copy
	path := filepath.Join(fast(t), "grapnel.db")
	var err error
	if r.s, err = Open(t.Context(), path, Options{Ballast: -1, Bounds: b}); err != nil {
		t.Fatal(err)
	}
	r.s.checkpoints.at = 1 << 40 // only when this test says so
	o := &others{t: t, s: r.s}
	r.s.step = o.step
	var synced string // the tables as a loss of power leaves them
	for step := range steps {
		o.resume()
		r.step(t.Context())
		o.pause()
		switch r.IntN(20) {
		case 0: // killed
			killed := snapshot(t, path)
			compare(t, fmt.Sprintf("step %d, killed", step), contentWith(t, killed, later), r.s)
		case 1: // without power
			lost := snapshot(t, path)
			replayed += loosePower(t, r.s, synced, lost)
			compare(t, fmt.Sprintf("step %d, without power", step), contentWith(t, lost, later), r.s)
		case 2:
			// After a flush and a checkpoint the tables' file has everything, and is synced.
			_ = r.s.write(t.Context(), flushing{})
			copied := make(chan struct{})
			r.s.checkpoints.asked <- copied
			<-copied
			synced = snapshot(t, path)
		case 3:
			if _, err := r.s.Purge(t.Context(), store.Keep{Now: r.now, For: time.Duration(r.IntN(200)) * time.Second}, 1+r.IntN(10)); err != nil {
				t.Fatal(err)
			}
		}
		if t.Failed() {
			break
		}
	}
	inFile = apartRows(t, r.s)
	want := contentWith(t, snapshot(t, path), later)
	if err := r.s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := contentWith(t, path, later); got != want {
		t.Errorf("a closed database differs from a killed one: %s", difference(got, want))
	}
	return replayed, o.light, inFile
}

// TestCrashAtEveryStep copies the files at each step on the way to durability and in the middle of
// the last frame. A later process makes of each copy the tables from before the operation or those
// after it: after it, once the frame was synced. It does so too if the machine lost its power.
func TestCrashAtEveryStep(t *testing.T) {
	seeds, operations := 3, 60
	if slow() {
		seeds = 1
	}
	if os.Getenv("GRAPNEL_SOAK") != "" {
		seeds = 400
	}
	steps := make(map[string]int)
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { crashes(t, seed, operations, steps) })
	}
	t.Log(steps)
	for _, step := range []string{"the journal was created", "SQLite has committed", "data were synced", "a frame was written", "the tables were flushed",
		"the log was cut off", "the journal is not needed", "without power"} {
		if steps[step] == 0 {
			t.Errorf("no crash when %s", step)
		}
	}
}

// crashes counts its crashes by step.
func crashes(t *testing.T, seed, operations int, steps map[string]int) {
	t.Helper()
	r := &randomly{Rand: rand.New(rand.NewPCG(uint64(seed), 7)), t: t, config: 1, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	// How many crashes an operation has depends on when the writer goes on, so they have random
	// numbers of their own: the operations are always those of the seed.
	crash := rand.New(rand.NewPCG(uint64(seed), 8))
	path := filepath.Join(fast(t), "grapnel.db")
	var err error
	r.s, err = Open(t.Context(), path, Options{Ballast: -1, Bounds: Bounds{Unflushed: 1 + r.IntN(6), Deferred: 1 + r.IntN(6), Rows: 1 + r.IntN(3),
		FlushEvery: time.Hour, Journal: journal.Bounds{Half: 16 << 10, Step: 4096},
		Apart: 1 << r.IntN(12), LeastApart: 100, ApartStep: 4096, ApartWrite: 1 << r.IntN(12)}})
	if err != nil {
		t.Fatal(err)
	}
	r.s.checkpoints.at = 1 << 40
	type copied struct {
		step, path string
		durable    bool
	}
	var mu sync.Mutex // the writer goes on after it has answered
	var copies []copied
	durable := false
	var last int64 // where the last frame ends
	r.s.step = func(step string) {
		mu.Lock()
		defer mu.Unlock()
		steps[step]++
		durable = durable || step == "a frame was written" || step == "SQLite has committed"
		copies = append(copies, copied{step, snapshot(t, path), durable})
		if step != "a frame was written" {
			return
		}
		end := r.s.writer.unflushed.journal.End()
		frame := len(r.s.writer.unflushed.frames)
		if n := len(r.s.writer.unflushed.ends); n > 1 {
			frame -= r.s.writer.unflushed.ends[n-2]
		}
		cut := snapshot(t, path)
		clearFrom(t, cut+".journal", end-1-crash.Int64N(int64(frame)), end)
		copies = append(copies, copied{"a frame was written in part", cut, false})
		last = end
	}
	before, synced := contentAt(t, snapshot(t, path)), ""
	for operation := range operations {
		mu.Lock()
		copies, durable = nil, false
		mu.Unlock()
		switch {
		case operation == operations-1:
			if err := r.s.Close(); err != nil {
				t.Fatal(err)
			}
		case r.IntN(12) == 0:
			if err := r.s.empty(t.Context()); err != nil {
				t.Fatal(err)
			}
			synced = snapshot(t, path)
		default:
			r.step(t.Context())
		}
		mu.Lock()
		after := contentAt(t, snapshot(t, path))
		for _, c := range copies {
			when := fmt.Sprintf("operation %d, when %s", operation, c.step)
			check := func(path, when string) {
				if got := contentAt(t, path); got != after && (c.durable || got != before) {
					t.Fatalf("%s: %s", when, difference(got, after))
				}
			}
			if operation < operations-1 && c.step != "the log was cut off" {
				lost := snapshot(t, c.path)
				if needed := loosePower(t, r.s, synced, lost); needed > 0 {
					steps["without power"] += needed
					check(lost, when+", without power")
				}
			}
			check(c.path, when)
		}
		before = after
		mu.Unlock()
	}
	if last == 0 {
		t.Error("no frame was written")
	}
}

// TestAJournalThatIsNotNeededIsIgnored puts an earlier journal back, as after a crash between the
// commit that makes it needless and its removal, and opens a database that needs one without it.
func TestAJournalThatIsNotNeededIsIgnored(t *testing.T) {
	s, path := openNew(t)
	for i := range 3 { // the first is committed by SQLite, the others are unflushed
		if _, err := publish(t, s, fmt.Sprint("evt_", i), 100); err != nil {
			t.Fatal(err)
		}
	}
	killed, lacks := snapshot(t, path), snapshot(t, path)
	journaled := killed + ".kept"
	copyFile(t, killed+".journal", journaled)
	want := contentAt(t, killed)
	if n := strings.Count(want, "'evt_"); n != 3 {
		t.Errorf("%d of 3 events are there", n)
	}
	copyFile(t, journaled, killed+".journal")
	if got := contentAt(t, killed); got != want {
		t.Errorf("an earlier journal was applied: %s", difference(got, want))
	}
	if err := os.Remove(lacks + ".journal"); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), lacks, Options{Ballast: -1}); !errors.Is(err, journal.ErrMissing) {
		t.Errorf("without its journal it opens: %v", err)
	}
}

// clearFrom makes a part of a file zeros, as it was before it was written.
func clearFrom(t *testing.T, path string, from, to int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(make([]byte, to-from), from); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// loosePower puts the tables of an earlier copy into one, unless SQLite has synced its log since.
// It returns how many frames that makes necessary.
func loosePower(t *testing.T, s *Store, earlier, into string) int {
	t.Helper()
	if earlier == "" {
		return 0
	}
	number := func(path string) uint64 {
		conn, err := connect(path, sqlite3.ReadWrite, 64)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		p, err := readPosition(conn)
		if err != nil {
			t.Fatal(err)
		}
		return p.number
	}
	had := number(snapshot(t, earlier))
	if had < s.writer.unflushed.synced.Load() {
		return 0
	}
	has := number(snapshot(t, into))
	for _, suffix := range []string{"", "-wal"} {
		if err := os.RemoveAll(into + suffix); err != nil {
			t.Fatal(err)
		}
		copyFile(t, earlier+suffix, into+suffix)
	}
	return int(has - had)
}

func compare(t *testing.T, when, got string, s *Store) {
	t.Helper()
	err := s.read(t.Context(), func(r *sqlite3.Conn) error {
		if want := content(t, r, s.data); got != want {
			t.Errorf("%s: %s", when, difference(got, want))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func difference(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d is\n%.300s\nwant\n%.300s", i, a[i], b[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(a), len(b))
}
