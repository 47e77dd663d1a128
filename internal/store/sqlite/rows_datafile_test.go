package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/journal"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// apart are bounds with which the data of almost all events are in a file of their own.
var apart = Bounds{Apart: 1, LeastApart: 16, ApartStep: 4096, ApartWrite: 2048}

// apartRows is the number of events whose data are in the file.
func apartRows(t *testing.T, s *Store) (n int64) {
	t.Helper()
	if err := s.read(t.Context(), func(r *sqlite3.Conn) (err error) {
		n, err = rows.One(r, "SELECT count(*) FROM event WHERE packed & 2")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestDataAreWrittenOnce: the data of large batches are in their file, and in no other one after
// the tables were flushed. The data of small ones are not.
func TestDataAreWrittenOnce(t *testing.T) {
	s, path := openWith(t, Bounds{LeastApart: 900})
	base := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	stocked(t, s, base, 2, 1)
	stockedFrom(t, s, base, 2, 302, 100)
	// SQLite commits the first large batch, and notes with it that the database has a file of data.
	if n := apartRows(t, s); n != 200 {
		t.Errorf("the data of %d events are in the file", n)
	}
	for name, b := range files(t, path) {
		for i := range secretsIn(b) {
			if inFile := i >= 102; inFile != (name == ".data") {
				t.Errorf("the data of event %d are in the file %q", i, name)
			}
		}
	}
	all, err := s.EventList(t.Context(), store.Everyone(), store.EventQuery{Limit: 1000})
	if err != nil || len(all) != 302 {
		t.Fatalf("%d events, %v", len(all), err)
	}
	for _, e := range all {
		if !strings.HasPrefix(string(e.Data), secret(int(e.Seq)-1)) {
			t.Errorf("event %d has %.30q", e.Seq, e.Data)
		}
	}
}

// TestAPurgeCutOff copies the files at each step of purges. In each copy all events that have a row
// have their data, and after the next purge no file has a byte of the others.
func TestAPurgeCutOff(t *testing.T) {
	s, path := openWith(t, apart)
	base := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	const n = 60
	stocked(t, s, base, n, 5)
	var mu sync.Mutex // the writer and the purge call step
	copies, purged := make(map[string]string), 0
	watch := func(step func(string)) {
		t.Helper()
		if err := s.write(t.Context(), looking(func(*sqlite3.Conn) error { s.step = step; return nil })); err != nil {
			t.Fatal(err)
		}
	}
	watch(func(step string) {
		mu.Lock()
		defer mu.Unlock()
		copies[fmt.Sprint(purged, " ", step)] = snapshot(t, path)
	})
	keep := store.Keep{Now: base.Add(time.Hour)}
	for range 3 {
		if removed, err := s.Purge(t.Context(), keep, 20); removed != 20 || err != nil {
			t.Fatalf("removed %d: %v", removed, err)
		}
		mu.Lock()
		purged += 20
		mu.Unlock()
	}
	watch(nil)
	given := 0
	for when, copied := range copies {
		if strings.Contains(when, "holes were made") {
			given++
		}
		next, err := Open(t.Context(), copied, Options{Ballast: -1, Bounds: apart})
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		all, err := next.EventList(t.Context(), store.Everyone(), store.EventQuery{Limit: n})
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		if rows, err := rows.One(next.writer.tx.conn, "SELECT count(*) FROM event"); int(rows) != len(all) || err != nil {
			t.Errorf("%s: %d of %d events can be read, %v", when, len(all), rows, err)
		}
		left := make(map[int]bool)
		for _, e := range all {
			left[int(e.Seq)-1] = true
		}
		if _, err := next.Purge(t.Context(), keep, 0); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		for name, b := range files(t, copied) {
			for i := range secretsIn(b) {
				if !left[i] {
					t.Errorf("%s: event %d is found in the file %q", when, i, name)
				}
			}
		}
		if err := next.Close(); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
	if given != 3 {
		t.Errorf("%d purges made holes", given)
	}
}

// TestPurgedDataReturnTheirBlocks purges events in another order than they came: of every four the
// first ones, then the second ones, and so on. Each block of the file system has data of several.
// In between are events whose data are in their rows, and data without a row.
func TestPurgedDataReturnTheirBlocks(t *testing.T) {
	s, path := openWith(t, apart)
	base := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	const n = 200
	for i := range n {
		e := &grapnel.Event{ID: fmt.Sprint("evt_", i), Tenant: "acme", Type: fmt.Sprint("t", i%4), Data: make([]byte, 1000), AcceptedAt: base}
		if i%7 == 0 {
			e.Data = e.Data[:8]
		}
		for range 1 + i%2 { // every other event is published twice
			if _, err := s.Append(t.Context(), store.Batch{Config: 1, Events: []store.Incoming{{Event: e}}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	blocks := func() int64 {
		t.Helper()
		info, err := os.Stat(path + ".data")
		if err != nil {
			t.Fatal(err)
		}
		return journal.Size(info)
	}
	if there := blocks(); there < n*1000 {
		t.Fatalf("the file has %d bytes", there)
	}
	for gone := range 4 {
		keep := store.Keep{Now: base.Add(time.Hour), For: 2 * time.Hour, Rules: []store.KeepRule{{Type: fmt.Sprint("t", gone), For: time.Minute}}}
		for {
			removed, err := s.Purge(t.Context(), keep, 3)
			if err != nil {
				t.Fatal(err)
			}
			if removed == 0 {
				break
			}
		}
		all, err := s.EventList(t.Context(), store.Everyone(), store.EventQuery{Limit: n})
		if err != nil || len(all) != n*(3-gone)/4 {
			t.Errorf("%d events are left after %d purges, %v", len(all), gone+1, err)
		}
	}
	if there := blocks(); there > dataHeader+apart.ApartStep+2*dataHeader {
		t.Errorf("the file has %d bytes after everything was purged", there)
	}
}

// TestTheFileOfDataIsMissing: a database that has data in a file is not opened without it. A copy
// without it has the other events, and a later purge of the lost ones leaves new data alone.
func TestTheFileOfDataIsMissing(t *testing.T) {
	s, path := openWith(t, apart)
	base := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	stocked(t, s, base, 20, 5)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	whole := snapshot(t, path)
	other, otherPath := openWith(t, apart)
	stocked(t, other, base, 20, 5)
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(string) error{
		"removed":   os.Remove,
		"empty":     func(p string) error { return os.Truncate(p, 0) },
		"another's": func(p string) error { copyFile(t, otherPath+".data", p); return nil },
	} {
		copied := snapshot(t, path)
		if err := spoil(copied + ".data"); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), copied, Options{Ballast: -1}); err == nil || !strings.Contains(err.Error(), "Put that file back") {
			t.Errorf("%s: %v", name, err)
		}
	}
	restored := snapshot(t, path) // a backup takes the place of its database, whose other files stay
	if err := os.Remove(restored); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), restored, Options{Ballast: -1}); err == nil || !strings.Contains(err.Error(), "put the database back") {
		t.Errorf("without the database: %v", err)
	}
	if _, err := Backup(t.Context(), path, restored+".backup"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(restored+".backup", restored); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), restored, Options{Ballast: -1}); err == nil || !strings.Contains(err.Error(), "put its database back") {
		t.Errorf("a backup beside the data of its database: %v", err)
	}
	if err := os.Remove(whole + ".data"); err != nil {
		t.Fatal(err)
	}
	usable := filepath.Join(fast(t), "usable.db")
	if complete, err := Backup(t.Context(), whole, usable); complete || err != nil {
		t.Fatalf("a copy without data is complete: %v, %v", complete, err)
	}
	s = openAt(t, usable, apart)
	if n := apartRows(t, s); n != 0 {
		t.Errorf("the copy refers to a file in %d rows", n)
	}
	stockedFrom(t, s, base.Add(time.Hour), 20, 40, 5)
	if n, err := s.Purge(t.Context(), store.Keep{Now: base.Add(time.Hour), For: 30 * time.Minute}, 100); n != 20 || err != nil {
		t.Errorf("removed %d, %v", n, err)
	}
	all, err := s.EventList(t.Context(), store.Everyone(), store.EventQuery{Limit: 100})
	if err != nil || len(all) != 20 {
		t.Errorf("%d of 20 events are left, %v", len(all), err)
	}
}

// TestNoHolesDuringABackup: while a backup has its snapshot, a purge waits before it makes holes of
// data that rows of the snapshot refer to.
func TestNoHolesDuringABackup(t *testing.T) {
	s, path := openWith(t, apart)
	base := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	stocked(t, s, base, 40, 5)
	if err := s.write(t.Context(), flushing{}); err != nil {
		t.Fatal(err)
	}
	held, err := openSnapshot(path)
	if err != nil {
		t.Fatal(err)
	}
	before := len(secretsIn(files(t, path)[".data"]))
	keep := store.Keep{Now: base.Add(time.Hour)}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := s.Purge(ctx, keep, 100)
		done <- err
	}()
	until(t, "the purge's rows to be removed", func() bool {
		n, err := s.Waiting(t.Context(), "ep0", 1)
		list, failed := s.EventList(t.Context(), store.Everyone(), store.EventQuery{Limit: 1})
		return n == 0 && len(list) == 0 && errors.Join(err, failed) == nil
	})
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the purge ended with %v", err)
	}
	if now := len(secretsIn(files(t, path)[".data"])); now != before || before == 0 {
		t.Errorf("the file has the data of %d of %d events", now, before)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Purge(t.Context(), keep, 100); err != nil {
		t.Fatal(err)
	}
	if now := len(secretsIn(files(t, path)[".data"])); now > 0 {
		t.Errorf("the file has the data of %d events after the snapshot has ended", now)
	}
}

// TestDataRise: a row whose data are before those of an earlier one is refused, because a purge
// would remove them with the earlier ones.
func TestDataRise(t *testing.T) {
	s, _ := openWith(t, apart)
	stocked(t, s, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), 20, 5)
	s.data.at.Store(dataHeader)
	err := s.write(t.Context(), nothing{})
	if err == nil {
		_, err = publish(t, s, "evt_low", 100)
	}
	if !errors.Is(err, errNotRising) {
		t.Errorf("it was accepted: %v", err)
	}
}
