package sqlite

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
)

// TestCallsThatNeedNoFlush makes calls of which there are thousands when many endpoints recover
// together. They see unflushed writes, and commit nothing to the tables.
func TestCallsThatNeedNoFlush(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(fast(t), "grapnel.db"), Options{Ballast: -1, Bounds: Bounds{FlushEvery: time.Hour, MadeDue: 2}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var heads []store.Head
	for i := range 9 {
		h, err := publish(t, s, fmt.Sprint("evt_", i), 10)
		if err != nil {
			t.Fatal(err)
		}
		heads = append(heads, h)
	}
	before := s.Stats().Flushes
	for i, h := range heads { // the first fails for its own sake
		done, err := s.Record(t.Context(), []store.Change{{Delivery: h.Delivery, At: time.Unix(10, 0), Status: grapnel.Pending,
			Due: time.Unix(100+int64(i), 0), Attempt: &grapnel.Attempt{Number: 1}, EndpointWide: i > 0}})
		if err != nil || !done[0].Applied {
			t.Fatalf("got %+v, %v", done, err)
		}
	}
	n, err := s.MakeDue(t.Context(), "ep", store.MakingDue{Before: time.Unix(20, 0), At: time.Unix(50, 0)}, 7)
	if err != nil || n != 7 {
		t.Errorf("%d deliveries of 7 are due: %v", n, err)
	}
	page, err := s.Heads(t.Context(), "ep", 20)
	if err != nil || len(page) != 9 || page[6].Due != time.Unix(50, 0).UTC() || page[7].Delivery != heads[0].Delivery ||
		page[8].Delivery != heads[8].Delivery {
		t.Errorf("the heads are %+v: %v", page, err)
	}
	doc := store.Document{Tenant: "acme", Kind: "issue", ID: "a", At: time.Unix(1, 0), Body: []byte("x")}
	if _, err := s.PutDocuments(t.Context(), store.Everyone(), []store.DocumentWrite{{Document: doc}}, store.With{}); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Document(t.Context(), store.Everyone(), "acme", "issue", "a"); err != nil || string(got.Body) != "x" {
		t.Errorf("the document is %+v: %v", got, err)
	}
	if n := s.Stats().Flushes - before; n != 0 {
		t.Errorf("the tables were flushed %d times", n)
	}
}

// TestMemoryOfFramesGoesBack: the writer's memory for unflushed frames goes back at Rest, also
// after a load that ends before FlushEvery.
func TestMemoryOfFramesGoesBack(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(fast(t), "grapnel.db"), Options{Ballast: -1,
		Bounds: Bounds{FlushEvery: time.Hour, Rest: 100 * time.Millisecond, Apart: 1 << 30}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	room := func() (n int) {
		err := s.write(t.Context(), &change{shrinks: true, do: func(*tx) error { n = cap(s.writer.unflushed.frames); return nil }})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if _, err := publish(t, s, "evt_0", 10); err != nil { // all its reads are before the load
		t.Fatal(err)
	}
	flushed := make(chan struct{}, 1)
	s.step = func(step string) {
		if step == "the tables were flushed" {
			select {
			case flushed <- struct{}{}:
			default:
			}
		}
	}
	if _, err := publish(t, s, "evt_1", 200_000); err != nil {
		t.Fatal(err)
	}
	<-flushed // at Rest
	if n := room(); n >= 200_000 {
		t.Errorf("%d bytes are kept for frames while nothing is written", n)
	}
}

// TestFlushesHaveAPagesLimit: operations that change many pages are flushed a few at a time.
func TestFlushesHaveAPagesLimit(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(fast(t), "grapnel.db"), Options{Ballast: -1,
		Bounds: Bounds{FlushEvery: time.Hour, FlushPages: 40, FlushLeast: 4, Apart: 1 << 30}}) // data are in rows
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	version, _, err := s.Version(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, 40_000) // five pages
	for i := range 400 {
		_, _ = rand.NewChaCha8([32]byte{byte(i), byte(i >> 8)}).Read(data)
		e := &grapnel.Event{ID: fmt.Sprint("evt_", i), Tenant: "acme", Type: "a.b", Data: slices.Clone(data)}
		if _, err := s.Append(t.Context(), store.Batch{Config: version, Events: []store.Incoming{{Event: e}}}); err != nil {
			t.Fatal(err)
		}
	}
	// UnflushedBytes alone would flush after each 200. The first flush knows no number of pages.
	if n := s.Stats().Flushes; n < 20 || n > 80 {
		t.Errorf("the tables were flushed %d times with 400 events of five pages, at most 40 pages each", n)
	}
}

// TestReadsDoNotMakeFlushesSmaller: a flush for a read, which has few operations and so many pages
// for each, leaves the number of operations with which the tables are flushed as it is.
func TestReadsDoNotMakeFlushesSmaller(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(fast(t), "grapnel.db"), Options{Ballast: -1,
		Bounds: Bounds{FlushEvery: time.Hour, Unflushed: 4000, FlushPages: 500}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for n := range 20 {
		if _, err := publish(t, s, fmt.Sprint("evt_", n), 100); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Waiting(t.Context(), "ep", 1); err != nil {
			t.Fatal(err)
		}
	}
	most := 0
	if err := s.write(t.Context(), &change{shrinks: true, do: func(*tx) error {
		most = s.writer.unflushed.most
		return nil
	}}); err != nil {
		t.Fatal(err)
	}
	if n := s.Stats().Flushes; most != 1000 || n < 15 {
		t.Errorf("after %d flushes for reads the tables are flushed with %d operations, not with 1000", n, most)
	}
}

// TestLookingForReplaysFlushesNothing: it is done each second.
func TestLookingForReplaysFlushesNothing(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(fast(t), "grapnel.db"), Options{Ballast: -1, Bounds: Bounds{FlushEvery: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for n := range 3 {
		h, err := publish(t, s, fmt.Sprint("evt_", n), 100)
		if err == nil {
			err = settle(t, s, h, 10)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	before := s.Stats().Flushes
	if _, err := s.ReplayList(t.Context(), store.Everyone(), store.ReplayQuery{Active: true, Limit: 10}); err != nil {
		t.Fatal(err)
	}
	if n := s.Stats().Flushes - before; n != 0 || !s.writer.unflushed.owes.Load() {
		t.Errorf("the tables were flushed %d times", n)
	}
}

// TestFlushesWidenTheCache: the writer keeps more pages in memory while flushes change more pages
// than they have operations.
func TestFlushesWidenTheCache(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(fast(t), "grapnel.db"), Options{Ballast: -1,
		Bounds: Bounds{FlushEvery: time.Hour, WriterCache: 64 << 10, WideCache: 128 << 10}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c, err := s.Config(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range []int64{128, 64, 128, 64} {
		for i := range []int{2, 100}[n%2] {
			e := &grapnel.Event{ID: fmt.Sprint("evt_", n, "_", i), Tenant: "acme", Type: "a", AcceptedAt: time.Unix(1, 0)}
			if _, err := s.Append(t.Context(), store.Batch{Config: c.Version, Events: []store.Incoming{{Event: e,
				Targets: []store.Target{{Endpoint: "ep"}}}}}); err != nil {
				t.Fatal(err)
			}
		}
		var kib int64
		err := s.write(t.Context(), &change{shrinks: true, do: func(t *tx) (err error) {
			kib, err = rows.One(t.conn, "PRAGMA cache_size")
			return err
		}})
		if err != nil || -kib != want {
			t.Errorf("after flush %d the connection may keep %d KiB of pages, want %d: %v", n, -kib, want, err)
		}
	}
}
