package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
)

// documentWrites counts the writes of documents, and refuses some.
type documentWrites struct {
	*memory.Store
	writes atomic.Int64
	refuse atomic.Bool
}

func (s *documentWrites) PutDocuments(ctx context.Context, scope store.Scope, w []store.DocumentWrite, with store.With) (store.Put, error) {
	s.writes.Add(1)
	if s.refuse.Load() {
		return store.Put{}, grapnel.Errorf(grapnel.CodeConflict, "another node was first")
	}
	return s.Store.PutDocuments(ctx, scope, w, with)
}

func (s *documentWrites) named(t *testing.T) []grapnel.Duplicate {
	t.Helper()
	docs, err := s.DocumentList(t.Context(), store.Everyone(), store.DocumentQuery{Kind: store.DuplicatesKind, Limit: 9})
	if err != nil || len(docs) > 1 {
		t.Fatal(docs, err)
	}
	if len(docs) == 0 {
		return nil
	}
	all, err := store.DecodeDuplicates(docs[0].Body)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestDuplicatesAreRecorded: an event that is published again is named, with number and times. A
// new event causes no write, a thousand repetitions cause one, and refused writes are repeated.
func TestDuplicatesAreRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &documentWrites{Store: memory.New()}
		b := newTunedBench(t, s, func(o *Options) { o.Bounds.Duplicates.Events = 3 })
		defer b.close()
		publish := func(id string) {
			ev := &grapnel.Event{ID: id, Tenant: "default", Type: "a.b", Data: []byte("1"), ContentType: grapnel.JSONType,
				OccurredAt: time.Now(), AcceptedAt: time.Now()}
			if _, err := b.engine.Publish(context.Background(), []store.Incoming{{Event: ev}}, nil); err != nil {
				t.Error(err)
			}
		}
		// The notes are written at each fifth second. This ends between two of those.
		pass := func(d time.Duration) {
			time.Sleep(d + time.Second)
			synctest.Wait()
		}
		for i := range 5 {
			publish(fmt.Sprintf("evt_%d", i))
		}
		pass(time.Minute)
		if n := s.writes.Load(); n != 0 {
			t.Fatalf("%d writes although nothing came again", n)
		}
		began := time.Now()
		for range 1000 {
			publish("evt_0")
		}
		pass(time.Minute)
		all := s.named(t)
		if s.writes.Load() != 1 || len(all) != 1 || all[0].Event != "evt_0" || all[0].Times != 1000 || !all[0].First.Equal(began) {
			t.Errorf("after %d writes the duplicates are %+v", s.writes.Load(), all)
		}
		s.refuse.Store(true)
		publish("evt_0")
		pass(20 * time.Second)
		s.refuse.Store(false)
		for _, id := range []string{"evt_0", "evt_1", "evt_2", "evt_3"} { // one more than is noted at once
			publish(id)
		}
		pass(time.Minute)
		all = s.named(t)
		if len(all) != 3 || all[0].Times+all[1].Times+all[2].Times != 1004 {
			t.Errorf("the duplicates are %+v", all)
		}
	})
}

// TestDuplicatesAreBounded: a document names the events that came again last.
func TestDuplicatesAreBounded(t *testing.T) {
	var before []grapnel.Duplicate
	for i := range 3 * store.MostDuplicates {
		body, err := store.EncodeDuplicates(before, []grapnel.Duplicate{{Event: fmt.Sprint("evt_", i), Tenant: "default", Times: 1,
			First: time.Unix(int64(i), 0), Last: time.Unix(int64(i), 0)}})
		if err != nil {
			t.Fatal(err)
		}
		if before, err = store.DecodeDuplicates(body); err != nil {
			t.Fatal(err)
		}
	}
	if len(before) != store.MostDuplicates || before[0].Event != fmt.Sprint("evt_", 3*store.MostDuplicates-1) {
		t.Errorf("%d events, the first %+v", len(before), before[0])
	}
}
