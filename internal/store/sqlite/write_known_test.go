package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// knowing opens a store that keeps at most `most` entries in memory.
func knowing(t *testing.T, path string, most int) *Store {
	t.Helper()
	s, err := Open(t.Context(), path, Options{Ballast: -1, Bounds: Bounds{Retry: time.Millisecond, Recent: most}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// receives appends an event with a numbered Known.
func receives(t *testing.T, s *Store, id string, by int, at time.Time) store.Placed {
	t.Helper()
	e := &grapnel.Event{ID: id, Tenant: "acme", Type: "a.b", AcceptedAt: at}
	k := &store.Known{Source: "src_1", By: fmt.Append(nil, by), Until: at.Add(time.Hour)}
	done, err := s.Append(t.Context(), store.Batch{Config: 1, Events: []store.Incoming{{Event: e, Known: k}}})
	if err != nil {
		t.Fatal(err)
	}
	return done.Events[0]
}

// numberIn reads a number from a store, on a connection for reading.
func numberIn(t *testing.T, s *Store, query string) (n int64) {
	t.Helper()
	err := s.snapshot(t.Context(), func(r *sqlite3.Conn) (err error) {
		n, err = rows.One(r, query)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// inMemory is the number of entries in the writer's memory.
func inMemory(t *testing.T, s *Store) (n int) {
	t.Helper()
	count := func(tx *tx) error { n = len(tx.dedupe.fresh) + len(tx.dedupe.moving); return nil }
	if err := s.write(t.Context(), &change{do: count}); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestWhatIsKnownGoesToTheIndex has a cache of few entries. Every Known is recognized: in memory,
// on its way to the index, in the index, and after each restart with the files of that moment.
func TestWhatIsKnownGoesToTheIndex(t *testing.T) {
	n, most := 2000, 100
	if slow() {
		n, most = 400, 20
	}
	path := filepath.Join(fast(t), "grapnel.db")
	s := knowing(t, path, most)
	base := time.UnixMicro(1e15)
	for i := range n {
		if placed := receives(t, s, fmt.Sprint("evt_", i), i, base); placed.Duplicate {
			t.Fatalf("event %d is a duplicate of %s", i, placed.ID)
		}
		if i%(n/4) != n/4-1 {
			continue
		}
		if i > n/2 {
			until(t, "all but a few in the index", func() bool { return inMemory(t, s) < 2*most })
		}
		copied := snapshot(t, path)
		var indexed int64 // in a separate copy, because an open store may be moving its entries to the index
		altered(t, snapshot(t, copied), func(conn *sqlite3.Conn) (err error) {
			indexed, err = rows.One(conn, "SELECT seq FROM known_moved")
			return err
		})
		next := knowing(t, copied, most)
		if got := inMemory(t, next); int64(got) != int64(i+1)-indexed {
			t.Errorf("%d entries were read, of %d events the first %d are in the index", got, i+1, indexed)
		}
		for j := range i + 1 {
			if placed := receives(t, next, "again", j, base); placed.ID != fmt.Sprint("evt_", j) {
				t.Fatalf("after %d events and a restart, event %d is %+v", i+1, j, placed)
			}
		}
		if err := next.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got := numberIn(t, s, "SELECT count(*) FROM known_key"); got < int64(n-2*most) {
		t.Errorf("%d of %d are in the index", got, n)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestWhatWasRolledBackIsNotKnown: a transaction fails after an event in it stored a Known, alone
// and in place of another one.
func TestWhatWasRolledBackIsNotKnown(t *testing.T) {
	s := knowing(t, filepath.Join(fast(t), "grapnel.db"), 1000)
	defer s.Close()
	base := time.UnixMicro(1e15)
	first := receives(t, s, "first", 1, base)
	poison := errors.New("poison")
	late := base.Add(2 * time.Hour)
	err := s.write(t.Context(), &change{do: func(tx *tx) error {
		for i, by := range []int{1, 2, 2} {
			e := &grapnel.Event{ID: fmt.Sprint("lost_", i), Tenant: "acme", Type: "a.b", AcceptedAt: late}
			b, err := s.batch(t.Context(), &store.Batch{Events: []store.Incoming{{Event: e,
				Known: &store.Known{Source: "src_1", By: fmt.Append(nil, by), Until: late.Add(1)}}}})
			if err == nil {
				_, err = b.told(tx)
			}
			if err != nil {
				return err
			}
		}
		return poison
	}})
	if !errors.Is(err, poison) {
		t.Fatal(err)
	}
	if got := inMemory(t, s); got != 1 {
		t.Errorf("%d entries in memory", got)
	}
	again := receives(t, s, "again", 1, base)
	first.Duplicate = true
	if again != first {
		t.Errorf("got %+v, want %+v", again, first)
	}
	if placed := receives(t, s, "second", 2, base); placed.Duplicate {
		t.Errorf("what was rolled back is known: %+v", placed)
	}
}

// TestTheIndexIsRidOfWhatIsForgotten deletes most Known records. The next entries that go to the
// index remove the stale ones.
func TestTheIndexIsRidOfWhatIsForgotten(t *testing.T) {
	const n, most = 600, 50
	s := knowing(t, filepath.Join(fast(t), "grapnel.db"), most)
	defer s.Close()
	base := time.UnixMicro(1e15)
	for i := range n {
		receives(t, s, fmt.Sprint("evt_", i), i, base.Add(time.Duration(i)*time.Minute))
	}
	until(t, "all but a few in the index", func() bool { return inMemory(t, s) < 2*most })
	before := numberIn(t, s, "SELECT count(*) FROM known_key")
	forgotten, err := s.Unlearn(t.Context(), base.Add((n-100)*time.Minute+time.Hour), time.Time{}, n)
	if err != nil || forgotten != n-100 {
		t.Fatalf("forgot %d: %v", forgotten, err)
	}
	// Each is new again, and gets another row id.
	for i := range n - 100 {
		if placed := receives(t, s, fmt.Sprint("new_", i), i, base.Add((n-100)*time.Minute)); placed.Duplicate {
			t.Fatalf("event %d is still known: %+v", i, placed)
		}
	}
	until(t, "old entries are gone", func() bool {
		return numberIn(t, s, "SELECT count(*) FROM known_key WHERE seq <= 500") == 0
	})
	if before < n-2*most {
		t.Errorf("only %d were in the index", before)
	}
	for i := range n {
		want := fmt.Sprint("evt_", i)
		if i < n-100 {
			want = fmt.Sprint("new_", i)
		}
		if placed := receives(t, s, "again", i, base.Add((n-100)*time.Minute)); placed.ID != want {
			t.Fatalf("event %d is %+v", i, placed)
		}
	}
}

// TestTheIndexWaitsForRoom flushes the memory while the disk is full. Closing does not wait for
// space.
func TestTheIndexWaitsForRoom(t *testing.T) {
	s := knowing(t, filepath.Join(fast(t), "grapnel.db"), 1<<20)
	base := time.UnixMicro(1e15)
	for i := range 10 {
		receives(t, s, fmt.Sprint("evt_", i), i, base)
	}
	// From here on the writer believes that the disk is full, and tries again much later.
	err := s.write(t.Context(), &change{do: func(tx *tx) error {
		tx.dedupe.most = 1
		s.bounds.Retry = time.Hour
		s.writer.headroom.full = true
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan error)
	go func() { closed <- s.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("closing waits for room on the disk")
	}
	if err := s.write(context.Background(), nothing{}); err == nil {
		t.Error("the store is not closed")
	}
}
