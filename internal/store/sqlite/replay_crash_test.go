package sqlite

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// TestReplayCopiedInTheMiddle copies the files while a replay creates deliveries, and others finish
// them, in the state that a killed process leaves. Every copy is sound, and the replay continues
// from there to its end: no delivery is skipped or created twice, and counts, outcomes and marks
// agree.
func TestReplayCopiedInTheMiddle(t *testing.T) {
	const lanes = 25
	events := 1200
	if slow() {
		events = 100
	}
	s, path := openNew(t)
	s.checkpoints.at = 1 << 40 // no checkpoint: the copy of two files during a checkpoint differs from the state after a kill
	p, _ := policy.Preset("standard")
	if _, err := s.PutEndpoint(t.Context(), store.Everyone(), grapnel.Endpoint{ID: "ep", Tenant: "acme", Policy: p},
		store.With{}); err != nil {
		t.Fatal(err)
	}
	batch := store.Batch{Config: 2}
	for i := range events {
		batch.Events = append(batch.Events, store.Incoming{
			Event: &grapnel.Event{ID: fmt.Sprint("evt_", i), Tenant: "acme", Type: "a.b", Key: fmt.Sprint("k", i%lanes),
				Data: []byte("{}"), AcceptedAt: time.UnixMicro(1)},
			Targets: []store.Target{{Endpoint: "ep", Ordered: true}},
		})
	}
	if _, err := s.Append(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	ending := store.Ending{Status: grapnel.Failed, ReasonCode: grapnel.ReasonExhausted, At: time.UnixMicro(2)}
	if n, err := s.End(t.Context(), "ep", ending, events); n != events || err != nil {
		t.Fatal(n, err)
	}
	r := grapnel.Replay{ID: "rpl_1", Tenant: "acme", Endpoint: "ep", Status: grapnel.ReplayRunning, CreatedAt: time.UnixMicro(3)}
	if _, err := s.PutReplay(t.Context(), store.Everyone(), r, store.With{}); err != nil {
		t.Fatal(err)
	}

	ctx, stop := context.WithCancel(t.Context())
	var runner sync.WaitGroup
	runner.Go(func() { goOn(ctx, t, s, nil) })
	var copies []string
	for n := range 6 {
		for at := 0; at < events*(n+1)/8 && !t.Failed(); {
			now, err := s.Replay(t.Context(), store.Everyone(), "rpl_1")
			if err != nil {
				t.Fatal(err)
			}
			at = now.Started
		}
		copies = append(copies, killed(t, s, path, "", func() {}))
	}
	stop()
	runner.Wait()
	if slow() {
		copies = copies[:2]
	}
	middle := 0
	for _, path := range copies {
		s, err := Open(t.Context(), path, Options{Ballast: -1})
		if err != nil {
			t.Fatal(err)
		}
		at := agrees(t, s)
		pending, err := s.Heads(t.Context(), "ep", 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		goOn(t.Context(), t, s, pending)
		if end := agrees(t, s); end.Started != events || end.Done != events {
			t.Errorf("the replay was at %d when it was copied and has made %d, of which %d are over", at.Started, end.Started, end.Done)
		}
		if at.Done < events {
			middle++
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if middle == 0 {
		t.Error("the replay was over before it was copied")
	}
}

// goOn makes the steps of a replay and finishes the deliveries, two of three as delivered, until
// all are finished.
func goOn(ctx context.Context, t *testing.T, s *Store, heads []store.Head) {
	for ctx.Err() == nil {
		r, err := s.Replay(t.Context(), store.Everyone(), "rpl_1")
		if err != nil {
			t.Error(err)
			return
		}
		list, resume, err := s.Candidates(t.Context(), store.Everyone(), store.CandidateQuery{Endpoint: "ep", OverBy: r.CreatedAt, UpTo: r.UpTo,
			After: r.Cursor, Limit: 3})
		if err != nil {
			t.Error(err)
			return
		}
		step := store.ReplayStep{Replay: r.ID, From: r.Cursor, To: max(r.Cursor, resume), At: time.UnixMicro(4)}
		for _, d := range list {
			step.Items, step.To = append(step.Items, store.Redelivery{Of: d.Seq, Ordered: true}), max(step.To, d.Seq)
		}
		made, err := s.Advance(t.Context(), step)
		if err != nil {
			t.Error(err)
			return
		}
		for _, one := range made {
			if one.Head != nil {
				heads = append(heads, *one.Head)
			}
		}
		var changes []store.Change
		for _, h := range heads[:min(len(heads), 4)] {
			c := store.Change{Delivery: h.Delivery, Status: grapnel.Delivered, At: time.UnixMicro(5)}
			if h.Delivery%3 == 0 {
				c.Status = grapnel.Skipped
			}
			changes = append(changes, c)
		}
		heads = heads[len(changes):]
		if len(changes) == 0 && len(list) == 0 {
			return
		}
		done, err := s.Record(t.Context(), changes)
		if err != nil {
			t.Error(err)
			return
		}
		for _, one := range done {
			if one.Next != nil {
				heads = append(heads, *one.Next)
			}
		}
	}
}

// agrees checks that a replay's counts, its deliveries and the marks on the originals agree.
func agrees(t *testing.T, s *Store) grapnel.Replay {
	t.Helper()
	r, err := s.Replay(t.Context(), store.Everyone(), "rpl_1")
	if err != nil {
		t.Fatal(err)
	}
	items, err := s.ReplayItems(t.Context(), store.Everyone(), "rpl_1", 0, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	originals, err := s.DeliveryList(t.Context(), store.Everyone(), store.DeliveryQuery{Status: []grapnel.Status{grapnel.Failed},
		Before: r.UpTo + 1, Limit: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(originals)
	var done, delivered int
	for i, item := range items {
		of := originals[i]
		made, err := s.Delivery(t.Context(), store.Everyone(), item.Made)
		if err != nil {
			t.Fatal(err)
		}
		if item.Original != of.Seq || made.ReplayOf != of.Seq || made.Status != item.Status {
			t.Fatalf("item %d is %+v, of delivery %d, made %+v", i, item, of.Seq, made)
		}
		if of.Mark.ReplayedBy != r.ID || of.Mark.ReplayedAs != item.Made || of.Mark.ReplayResult != item.Status {
			t.Fatalf("item %+v is marked %+v", item, of.Mark)
		}
		if i >= 25 && items[i-25].Made >= item.Made {
			t.Fatalf("item %+v comes behind %+v in its lane", items[i-25], item)
		}
		if item.Status.Final() {
			done++
		}
		if item.Status == grapnel.Delivered {
			delivered++
		}
	}
	for _, of := range originals[len(items):] {
		if of.Mark != (grapnel.Mark{}) {
			t.Fatalf("delivery %d is marked %+v", of.Seq, of.Mark)
		}
	}
	if r.Started != len(items) || r.Done != done || r.Delivered != delivered || r.Failed != done-delivered {
		t.Fatalf("the replay counts %+v where %d were made, %d are over and %d delivered", r, len(items), done, delivered)
	}
	return r
}
