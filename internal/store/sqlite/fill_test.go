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
)

// TestCallsThatNeedNoFill makes calls of which there are thousands when many endpoints recover
// together. They see young writes, and commit nothing to the tables.
func TestCallsThatNeedNoFill(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(fast(t), "grapnel.db"), Options{Ballast: -1, Bounds: Bounds{FillEvery: time.Hour, MadeDue: 2}})
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
	before := s.Stats().Fills
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
	if n := s.Stats().Fills - before; n != 0 {
		t.Errorf("the tables were filled %d times", n)
	}
}

// TestMemoryOfFramesGoesBack: the writer's memory for young frames goes back at Rest, also after a
// load that ends before FillEvery.
func TestMemoryOfFramesGoesBack(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(fast(t), "grapnel.db"), Options{Ballast: -1,
		Bounds: Bounds{FillEvery: time.Hour, Rest: 100 * time.Millisecond, Apart: 1 << 30}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	room := func() (n int) {
		err := s.write(t.Context(), &change{shrinks: true, do: func(*tx) error { n = cap(s.writer.young.frames); return nil }})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if _, err := publish(t, s, "evt_0", 10); err != nil { // all its reads are before the load
		t.Fatal(err)
	}
	filled := make(chan struct{}, 1)
	s.step = func(step string) {
		if step == "the tables were filled" {
			select {
			case filled <- struct{}{}:
			default:
			}
		}
	}
	if _, err := publish(t, s, "evt_1", 200_000); err != nil {
		t.Fatal(err)
	}
	<-filled // at Rest
	if n := room(); n >= 200_000 {
		t.Errorf("%d bytes are kept for frames while nothing is written", n)
	}
}

// TestFillsHaveAPagesLimit: operations that change many pages are filled a few at a time.
func TestFillsHaveAPagesLimit(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(fast(t), "grapnel.db"), Options{Ballast: -1,
		Bounds: Bounds{FillEvery: time.Hour, FillPages: 40, FillLeast: 4, Apart: 1 << 30}}) // data are in rows
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
	// YoungBytes alone would fill after each 200. The first fill knows no number of pages.
	if n := s.Stats().Fills; n < 20 || n > 80 {
		t.Errorf("the tables were filled %d times with 400 events of five pages, at most 40 pages each", n)
	}
}

// TestReadsDoNotMakeFillsSmaller: a fill for a read, which has few operations and so many pages for
// each, leaves the number of operations with which the tables are filled as it is.
func TestReadsDoNotMakeFillsSmaller(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(fast(t), "grapnel.db"), Options{Ballast: -1,
		Bounds: Bounds{FillEvery: time.Hour, Young: 4000, FillPages: 500}})
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
		most = s.writer.young.most
		return nil
	}}); err != nil {
		t.Fatal(err)
	}
	if n := s.Stats().Fills; most != 1000 || n < 15 {
		t.Errorf("after %d fills for reads the tables are filled with %d operations, not with 1000", n, most)
	}
}

// TestLookingForReplaysFillsNothing: it is done each second.
func TestLookingForReplaysFillsNothing(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(fast(t), "grapnel.db"), Options{Ballast: -1, Bounds: Bounds{FillEvery: time.Hour}})
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
	before := s.Stats().Fills
	if _, err := s.ReplayList(t.Context(), store.Everyone(), store.ReplayQuery{Active: true, Limit: 10}); err != nil {
		t.Fatal(err)
	}
	if n := s.Stats().Fills - before; n != 0 || !s.writer.young.owes.Load() {
		t.Errorf("the tables were filled %d times", n)
	}
}

// TestFillsWidenTheCache: the writer keeps more pages in memory while fills change more pages than
// they have operations.
func TestFillsWidenTheCache(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(fast(t), "grapnel.db"), Options{Ballast: -1,
		Bounds: Bounds{FillEvery: time.Hour, WriterCache: 64 << 10, WideCache: 128 << 10}})
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
			kib, err = one(t.conn, "PRAGMA cache_size")
			return err
		}})
		if err != nil || -kib != want {
			t.Errorf("after fill %d the connection may keep %d KiB of pages, want %d: %v", n, -kib, want, err)
		}
	}
}
