package sqlite

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// TestCopiedInTheMiddle copies the files while publishers and a recorder write, in the state that a
// killed process leaves, such as a log that ends inside a transaction. Every write acknowledged
// before the copy began is in it, lanes have no gaps and one head each, and counts agree with the
// rows.
func TestCopiedInTheMiddle(t *testing.T) {
	s, path := openNew(t)
	s.checkpoints.at = 1 << 40   // no checkpoint: the copy of two files during a checkpoint differs from the state after a kill
	var answered [4]atomic.Int64 // events of each publisher that were accepted
	var recorded sync.Map        // deliveries whose recording was acknowledged
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	heads := make(chan store.Head, 100_000)
	for p := range answered {
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				e := &grapnel.Event{ID: fmt.Sprintf("evt_%d_%d", p, i), Tenant: "acme", Type: "a.b", Key: fmt.Sprint("k", i%3), Data: make([]byte, 200),
					AcceptedAt: time.UnixMicro(int64(i))}
				done, err := s.Append(t.Context(), store.Batch{Config: 1, Events: []store.Incoming{{Event: e, Targets: []store.Target{
					{Endpoint: fmt.Sprint("ep_", p), Ordered: true}}}}})
				if err != nil {
					t.Error(err)
					return
				}
				answered[p].Store(int64(i) + 1)
				for _, h := range done.Heads {
					heads <- h
				}
			}
		})
	}
	all.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case h := <-heads:
				done, err := s.Record(t.Context(), []store.Change{{Delivery: h.Delivery, Status: grapnel.Delivered, At: h.Due}})
				if err != nil || !done[0].Applied {
					t.Errorf("record: %+v, %v", done, err)
					return
				}
				recorded.Store(h.Delivery, true)
				if done[0].Next != nil {
					heads <- *done[0].Next
				}
			}
		}
	})

	type copied struct {
		path     string
		answered []int64
		finished map[int64]bool
	}
	var copies []copied
	for range 5 {
		began := answered[0].Load()
		for answered[0].Load() < began+40 && !t.Failed() {
			select {
			case <-time.After(time.Millisecond):
			case <-t.Context().Done():
			}
		}
		var before [len(answered)]int64
		finished := make(map[int64]bool)
		path := killed(t, s, path, []string{"a flush is being committed", "a frame was written"}[len(copies)%2], func() {
			for p := range before {
				before[p] = answered[p].Load()
			}
			recorded.Range(func(d, _ any) bool { finished[d.(int64)] = true; return true })
		})
		copies = append(copies, copied{path, before[:], finished})
	}
	stop()
	all.Wait()
	if slow() {
		copies = copies[3:]
	}
	for _, c := range copies {
		inspect(t, c.path, c.answered, c.finished)
	}
}

func inspect(t *testing.T, path string, answered []int64, finished map[int64]bool) {
	t.Helper()
	s, err := Open(t.Context(), path, Options{Ballast: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for p, n := range answered {
		for i := range n {
			if _, ds, err := s.Event(t.Context(), store.Everyone(), "", fmt.Sprintf("evt_%d_%d", p, i)); err != nil || len(ds) != 1 {
				t.Fatalf("event %d of publisher %d was accepted: %v", i, p, err)
			}
		}
	}
	for _, d := range deliveriesOf(t, s) {
		if finished[d.Seq] && d.Status != grapnel.Delivered {
			t.Errorf("delivery %d was recorded as delivered and is %s", d.Seq, d.Status)
		}
	}
	for _, wrong := range disagreements(t, s) {
		t.Error(wrong)
	}
}

func deliveriesOf(t *testing.T, s *Store) []grapnel.Delivery {
	t.Helper()
	all, err := s.DeliveryList(t.Context(), store.Everyone(), store.DeliveryQuery{Limit: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// disagreements says which lanes have gaps or not one head, and which counts differ from the rows.
func disagreements(t *testing.T, s *Store) (wrong []string) {
	t.Helper()
	counts, err := s.Counts(t.Context(), store.Everyone())
	if err != nil {
		t.Fatal(err)
	}
	positions, leads := make(map[string]map[int64]bool), make(map[string]int64)
	pending := make(map[string]int64) // the lowest pending position
	for _, d := range deliveriesOf(t, s) {
		counts[d.EndpointID][d.Status]--
		if d.Position == 0 {
			continue
		}
		lane := d.EndpointID + " " + d.Key
		if positions[lane] == nil {
			positions[lane] = make(map[int64]bool)
		}
		positions[lane][d.Position] = true
		if d.Status == grapnel.Pending && (pending[lane] == 0 || d.Position < pending[lane]) {
			pending[lane] = d.Position
		}
		if d.Waiting.Head && leads[lane] != 0 {
			wrong = append(wrong, fmt.Sprintf("lane %s has two heads", lane))
		}
		if d.Waiting.Head {
			leads[lane] = d.Position
		}
	}
	for lane, taken := range positions {
		for p := range int64(len(taken)) {
			if !taken[p+1] {
				wrong = append(wrong, fmt.Sprintf("lane %s has no position %d", lane, p+1))
			}
		}
		if leads[lane] != pending[lane] {
			wrong = append(wrong, fmt.Sprintf("the head of lane %s has position %d where %d is the lowest", lane, leads[lane], pending[lane]))
		}
	}
	for endpoint, statuses := range counts {
		for status, n := range statuses {
			if n != 0 {
				wrong = append(wrong, fmt.Sprintf("%s: the count of %s is off by %d", endpoint, status, n))
			}
		}
	}
	return wrong
}
