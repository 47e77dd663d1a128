package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// at is a time, in seconds after the tests' epoch.
func at(seconds int) time.Time {
	return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).Add(time.Duration(seconds) * time.Second)
}

func incomingTo(id, key string, endpoints ...string) store.Incoming {
	in := store.Incoming{Event: &grapnel.Event{ID: id, Tenant: "acme", Type: "invoice.paid", Key: key, Data: []byte(`{"id":"` + id + `"}`),
		ContentType: grapnel.JSONType, OccurredAt: at(0), AcceptedAt: at(1)}}
	for _, endpoint := range endpoints {
		in.Targets = append(in.Targets, store.Target{Endpoint: endpoint, Ordered: true, Trigger: grapnel.TriggerSchedule})
	}
	return in
}

func deliver(h store.Head) store.Change {
	return store.Change{Delivery: h.Delivery, Expect: h.Attempts, Lone: h.Lane == "", Status: grapnel.Delivered, At: at(5),
		Attempt: &grapnel.Attempt{Number: h.Attempts + 1, StatusCode: 200, Duration: time.Millisecond}}
}

// nodes are several stores on one database.
func nodes(t *testing.T, n int) []*Store {
	t.Helper()
	return nodesAt(t, blank(t), n)
}

func nodesAt(t *testing.T, url string, n int) []*Store {
	t.Helper()
	return nodesWith(t, url, n, func() Bounds { return Bounds{} })
}

func nodesWith(t *testing.T, url string, n int, next func() Bounds) []*Store {
	t.Helper()
	all := make([]*Store, n)
	for i := range all {
		all[i] = open(t, url, Options{CallersClock: true, Bounds: next()})
		t.Cleanup(func() {
			if err := all[i].Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return all
}

func version(t *testing.T, s *Store) int64 {
	t.Helper()
	v, _, err := s.Version(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestNodesShareLanes: publishers at several nodes compete for few keys, and name them in different
// orders, while recorders at all nodes finish the deliveries they find. Every lane must end with
// positions 1, 2, 3 … in the order of the commits, and no transaction may have met a deadlock.
func TestNodesShareLanes(t *testing.T) {
	t.Parallel()
	shareLanes(t, nodes(t, 3))
}

// TestNodesShareLanesThroughAPooler does the same with no connection held for longer than a
// transaction.
func TestNodesShareLanesThroughAPooler(t *testing.T) {
	shareLanes(t, nodesAt(t, pooler(t).URL(made(t)), 3))
}

func shareLanes(t *testing.T, all []*Store) {
	t.Helper()
	const (
		publishers = 6
		batches    = 25
		keys       = 7
	)
	config := version(t, all[0])
	var clock, published atomic.Int64
	type span struct{ began, returned int64 }
	var mu sync.Mutex
	spans := make(map[string]span)
	endpoints := []string{"ep_a", "ep_b", "ep_c"}

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var publishing, recording sync.WaitGroup
	for p := range publishers {
		publishing.Go(func() {
			random := rand.New(rand.NewPCG(7, uint64(p)))
			for i := range batches {
				b := store.Batch{Config: config}
				for j := range 1 + random.IntN(4) {
					order := random.Perm(len(endpoints))
					b.Events = append(b.Events, incomingTo(fmt.Sprintf("e%d_%d_%d", p, i, j), fmt.Sprint("k", random.IntN(keys)),
						endpoints[order[0]], endpoints[order[1]]))
				}
				s := span{began: clock.Add(1)}
				if _, err := all[p%len(all)].Append(ctx, b); err != nil {
					t.Errorf("Append: %v", err)
					return
				}
				s.returned = clock.Add(1)
				mu.Lock()
				for _, e := range b.Events {
					spans[e.Event.ID] = s
					published.Add(2)
				}
				mu.Unlock()
			}
		})
	}
	var recorded atomic.Int64
	done := make(chan struct{})
	for r := range len(all) {
		recording.Go(func() {
			for ctx.Err() == nil {
				var changes []store.Change
				for _, endpoint := range endpoints {
					heads, err := all[r].Heads(ctx, endpoint, 5)
					if err != nil {
						t.Errorf("Heads: %v", err)
						return
					}
					for _, h := range heads {
						changes = append(changes, deliver(h))
					}
				}
				is, err := all[r].Record(ctx, changes)
				if err != nil {
					t.Errorf("Record: %v", err)
					return
				}
				for _, c := range is {
					if c.Applied {
						recorded.Add(1)
					}
				}
				select {
				case <-done:
					if recorded.Load() >= published.Load() {
						return
					}
				default:
				}
			}
		})
	}
	publishing.Wait()
	close(done)
	recording.Wait()
	if recorded.Load() != published.Load() {
		t.Fatalf("%d deliveries were recorded, %d made", recorded.Load(), published.Load())
	}

	lanes := make(map[string][]grapnel.Delivery)
	list, err := all[0].DeliveryList(t.Context(), store.Everyone(), store.DeliveryQuery{Limit: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range list {
		lanes[d.EndpointID+d.Key] = append(lanes[d.EndpointID+d.Key], d)
	}
	for lane, line := range lanes {
		given := make(map[int64]bool)
		for _, d := range line {
			given[d.Position] = true
		}
		for i := range line {
			if !given[int64(i+1)] {
				t.Fatalf("lane %s has no position %d of %d", lane, i+1, len(line))
			}
		}
		for _, a := range line {
			for _, b := range line {
				if spans[a.EventID].returned < spans[b.EventID].began && (a.Position > b.Position || a.Seq > b.Seq || a.EventSeq > b.EventSeq) {
					t.Fatalf("lane %s: %s was committed before %s was sent, and comes after it", lane, a.EventID, b.EventID)
				}
			}
		}
	}
	for i, s := range all {
		if spoiled := s.Stats().Spoiled; spoiled != 0 {
			t.Errorf("node %d made %d transactions again", i, spoiled)
		}
		if n, err := s.Imbalance(t.Context()); n != 0 || err != nil {
			t.Errorf("imbalance %d, %v", n, err)
		}
	}
}

// TestNodesAgree: callers at several nodes send the same id, the same idempotency key and the same
// dedupe key at once.
func TestNodesAgree(t *testing.T) { agree(t, nodes(t, 3)) }

func agree(t *testing.T, all []*Store) {
	t.Helper()
	config := version(t, all[0])
	for _, c := range []struct {
		name  string
		batch func(round, caller int) store.Batch
	}{
		{"id", func(round, _ int) store.Batch {
			return store.Batch{Config: config, Events: []store.Incoming{incomingTo(fmt.Sprint("same", round), "k", "ep_a")}}
		}},
		{"idempotency key", func(round, caller int) store.Batch {
			return store.Batch{Config: config, Events: []store.Incoming{incomingTo(fmt.Sprint("once", round, "_", caller), "k", "ep_a")},
				Once: &store.Once{Key: fmt.Sprint("key", round), Now: at(1), Expires: at(99),
					Answer: func(any) store.Answer { return store.Answer{Status: 202} }}}
		}},
		{"known", func(round, caller int) store.Batch {
			in := incomingTo(fmt.Sprint("known", round, "_", caller), "k", "ep_a")
			in.Known = &store.Known{Source: "src", By: fmt.Append(nil, round), Until: at(99)}
			return store.Batch{Config: config, Events: []store.Incoming{in}}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for round := range 10 {
				var fresh atomic.Int64
				var callers sync.WaitGroup
				for caller := range 6 {
					callers.Go(func() {
						done, err := all[caller%len(all)].Append(t.Context(), c.batch(round, caller))
						switch {
						case err != nil:
							t.Errorf("Append: %v", err)
						case done.Answer == nil && !done.Events[0].Duplicate:
							fresh.Add(1)
						}
					})
				}
				callers.Wait()
				if fresh.Load() != 1 {
					t.Fatalf("round %d: %d callers were the first", round, fresh.Load())
				}
			}
		})
	}
	list, err := all[0].DeliveryList(t.Context(), store.Everyone(), store.DeliveryQuery{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 30 {
		t.Errorf("%d deliveries, want 30", len(list))
	}
	for i, d := range list {
		if want := int64(30 - i); d.Position != want {
			t.Errorf("position %d where %d was to be: what was not accepted has left a hole", d.Position, want)
		}
	}
}

// TestNodesSeeConfiguration appends at one node while another changes the configuration: an event
// matched against an earlier version is never committed after the change.
func TestNodesSeeConfiguration(t *testing.T) {
	all := nodes(t, 2)
	var appended, refused, ids atomic.Int64
	stop := make(chan struct{})
	var publishing sync.WaitGroup
	for range 4 {
		publishing.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				before, _, err := all[0].Version(context.WithoutCancel(t.Context()))
				if err != nil {
					t.Errorf("Version: %v", err)
					return
				}
				_, err = all[0].Append(context.WithoutCancel(t.Context()), store.Batch{Config: before, Events: []store.Incoming{
					incomingTo(fmt.Sprint("e", ids.Add(1)), fmt.Sprint("matched", before), "ep_a")}})
				switch {
				case err == nil:
					appended.Add(1)
				case errors.Is(err, store.ErrStale):
					refused.Add(1)
				default:
					t.Errorf("Append: %v", err)
					return
				}
			}
		})
	}
	matched := func(version int64) int {
		list, err := all[1].EventList(context.WithoutCancel(t.Context()), store.Everyone(),
			store.EventQuery{Key: fmt.Sprint("matched", version), Limit: 1 << 20})
		if err != nil {
			t.Error(err)
		}
		return len(list)
	}
	committed := make(map[int64]int)
	for last, i := version(t, all[1]), 0; i < 30 || appended.Load() < 30; i++ {
		put, err := all[1].PutKey(t.Context(), store.Everyone(), grapnel.Key{ID: fmt.Sprint("key_", i), Tenant: "acme"}, store.With{})
		if err != nil || put.Version != last+1 {
			t.Errorf("version %d after %d, %v", put.Version, last, err)
			break
		}
		committed[last] = matched(last)
		last = put.Version
	}
	close(stop)
	publishing.Wait()
	for version, n := range committed {
		if now := matched(version); now != n {
			t.Errorf("version %d was over with %d events, then had %d", version, n, now)
		}
	}
	if appended.Load() == 0 || refused.Load() == 0 {
		t.Errorf("%d appended, %d refused: the test says nothing", appended.Load(), refused.Load())
	}
}
