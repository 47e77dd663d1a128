package engine

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
)

// slowRead is a store whose configuration takes a while to arrive once it is asked for.
type slowRead struct {
	store.Store
	mu    sync.Mutex
	hold  chan struct{} // not nil: a finished read waits here
	reads int           // of everything
}

func (s *slowRead) Config(ctx context.Context) (store.Config, error) {
	c, err := s.Store.Config(ctx)
	s.mu.Lock()
	s.reads++
	s.mu.Unlock()
	s.wait()
	return c, err
}

func (s *slowRead) Changes(ctx context.Context, since int64) (store.ConfigChanges, bool, error) {
	d, complete, err := s.Store.Changes(ctx, since)
	s.wait()
	return d, complete, err
}

func (s *slowRead) wait() {
	s.mu.Lock()
	hold := s.hold
	s.mu.Unlock()
	if hold != nil {
		<-hold
	}
}

// TestAChangeElsewhereCostsOnlyItself: of a change that another node makes only what it has changed
// is read, prepared and told the core. Where too much has changed for the store to tell, everything
// is read, once.
func TestAChangeElsewhereCostsOnlyItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowRead{Store: memory.New()}
		b := newBench(t, s)
		defer b.close()
		all := map[string]grapnel.Endpoint{}
		for i := range 50 {
			id := fmt.Sprintf("ep_%02d", i)
			all[id] = elsewhere(t, s, ofElsewhere(id))
			before := b.engine.Snapshot()
			if err := b.engine.CatchUp(t.Context()); err != nil {
				t.Fatal(err)
			}
			conf := b.engine.Snapshot()
			if changed, _, _ := conf.Differs(before); len(changed) != 1 || changed[0].ID != id || b.engine.Settled() != conf {
				t.Fatalf("after %s was made elsewhere %d endpoints differ", id, len(changed))
			}
		}
		if s.reads != 1 {
			t.Errorf("everything was read %d times, not only at the start", s.reads)
		}
		for id, ep := range all { // more than the store can tell
			for range 2 {
				ep = elsewhere(t, s, ep)
			}
			all[id] = ep
		}
		if err := b.engine.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s.reads != 2 {
			t.Errorf("everything was read %d times, not at the start and once after too many changes", s.reads)
		}
		if has, have := fmt.Sprint(contents(readAnew(t, s))), fmt.Sprint(contents(b.engine.Book)); has != have {
			t.Errorf("the engine has\n%s\nand the store\n%s", have, has)
		}
	})
}

// elsewhere changes an endpoint as another node does: past the engine.
func elsewhere(t *testing.T, s store.Store, ep grapnel.Endpoint) grapnel.Endpoint {
	t.Helper()
	put, err := s.PutEndpoint(t.Context(), store.Everyone(), ep, store.With{})
	if err != nil {
		t.Fatal(err)
	}
	ep.Revision = put.Revision
	return ep
}

func ofElsewhere(id string) grapnel.Endpoint {
	return grapnel.Endpoint{ID: id, Tenant: "default", PolicyName: "hooque", Ordering: grapnel.OrderByKey, Status: grapnel.EndpointEnabled,
		MaxConcurrency: grapnel.DefaultMaxConcurrency, Format: grapnel.FormatStandard,
		Queue: &grapnel.Queue{Name: id, Lease: 30 * time.Second, MaxLeased: 100}, CreatedAt: time.Now(), UpdatedAt: time.Now()}
}

// TestCatchingUpTogether: a catch-up that runs beside another one must not take the rows that the
// other has read for its own answer. Two changes that other nodes make one right after the other
// are answered once both are known here.
func TestCatchingUpTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowRead{Store: memory.New()}
		b := newBench(t, s)
		defer b.close()
		hold := make(chan struct{})
		s.mu.Lock()
		s.hold = hold
		s.mu.Unlock()
		var both sync.WaitGroup
		for _, id := range []string{"que_1", "que_2"} {
			elsewhere(t, s, ofElsewhere(id))
			both.Go(func() {
				if err := b.engine.CatchUp(context.Background()); err != nil {
					t.Error(err)
				}
				if _, there := b.engine.Queue(store.Everyone(), "", id); !there {
					t.Errorf("%s is not known after catching up", id)
				}
			})
			synctest.Wait() // the first has read, the second waits for the first
		}
		close(hold)
		both.Wait()
	})
}

// TestWhoWaitsHearsOfOtherNodes: a queue that another node has paused, resumed or deleted wakes
// who waits at it here, and no other queue does.
func TestWhoWaitsHearsOfOtherNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		var mu sync.Mutex
		var woken []string
		b := newTunedBench(t, s, func(o *Options) {
			o.Ready = func(id string) {
				mu.Lock()
				defer mu.Unlock()
				woken = append(woken, id)
			}
		})
		defer b.close()
		one, two := elsewhere(t, s, ofElsewhere("que_1")), ofElsewhere("que_2")
		elsewhere(t, s, two)
		for _, change := range []func(){
			func() { one.Status = grapnel.EndpointPaused },
			func() { one.Status = grapnel.EndpointEnabled },
			func() { one.DeletedAt = time.Now() },
		} {
			if err := b.engine.CatchUp(t.Context()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			mu.Lock()
			woken = nil
			mu.Unlock()
			change()
			one = elsewhere(t, s, one)
			if err := b.engine.CatchUp(t.Context()); err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			if !slices.Contains(woken, "que_1") || slices.Contains(woken, "que_2") {
				t.Errorf("woken: %v", woken)
			}
			mu.Unlock()
		}
	})
}

// TestARemovalElsewhere: a node stood still while another one deleted an endpoint and ended its
// deliveries. The core forgets the endpoint, and the deliveries it remembers.
func TestARemovalElsewhere(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		r := &receiver{}
		r.answer(func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
		b.endpoint("a", r, nil)
		b.publish("k", 2)
		synctest.Wait()
		ep, _ := b.engine.Endpoint(store.Everyone(), "a")
		ep.DeletedAt = time.Now()
		_, err := b.store.PutEndpoint(t.Context(), store.Everyone(), ep, store.With{})
		n, failed := b.store.End(t.Context(), "a", store.Ending{Status: grapnel.Dropped, At: ep.DeletedAt}, 10)
		if err = errors.Join(err, failed, b.store.RemoveEndpoint(t.Context(), "a"), b.engine.CatchUp(t.Context())); err != nil || n != 2 {
			t.Fatal(n, err)
		}
		if err := b.engine.forget(t.Context(), "a"); err != nil {
			t.Errorf("removing it once more: %v", err)
		}
		synctest.Wait()
		has := true
		if err := b.engine.inputs.ask(t.Context(), func(c *core.Core, _ time.Time) { has = c.Has("a") }); err != nil {
			t.Fatal(err)
		}
		if _, leaving := b.engine.removed.Load("a"); has || leaving {
			t.Errorf("the core has the endpoint: %v; it is being left: %v", has, leaving)
		}
	})
}
