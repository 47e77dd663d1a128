package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/nodes/ownership"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
)

// pair is an estate where another node owns a shard.
type pair struct{ *estate }

func (p pair) Beat(ctx context.Context, node store.Node, within time.Duration) ([]store.Node, error) {
	nodes, err := p.estate.Beat(ctx, node, within)
	return append(nodes, store.Node{ID: "other", Address: "other", Draining: true}), err
}

func (p pair) Acting(ctx context.Context, within time.Duration) ([]store.Node, error) {
	acting, err := p.estate.Acting(ctx, within)
	return append(acting, store.Node{ID: "other", Address: "other"}), err
}

// asking is the other node: requests to it wait to be let through.
type asking struct {
	neighbours
	began chan int64 // version of the store when a request begins
	end   chan error
	store store.Store
}

func (a *asking) CatchUp(ctx context.Context, _ string) error {
	version, _, err := a.store.Version(ctx)
	if err != nil {
		return err
	}
	a.began <- version
	return <-a.end
}

// bystander is an estate at which another node, which owns nothing and does not answer, was some
// time ago.
type bystander struct {
	*estate
	neighbours
	seen time.Time
}

func (b bystander) Acting(_ context.Context, within time.Duration) ([]store.Node, error) {
	if ago := time.Since(b.seen); ago < within {
		return []store.Node{{ID: "other", Address: "other", Ago: ago}}, nil
	}
	return nil, nil
}

func (bystander) CatchUp(context.Context, string) error { return errors.New("away") }

// TestChangesWaitForWhoOwnsNothing: a node without shards answers requests from memory as others
// do. So a change is not answered before it has taken that in, or was not at the store for as long
// as a lease lasts.
func TestChangesWaitForWhoOwnsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := bystander{estate: &estate{}, seen: time.Now()}
		bench := newTunedBench(t, memory.New(), func(o *Options) {
			o.Cluster = &ownership.Options{Ownership: other, Node: store.Node{ID: "me"}, Lease: leaseHere, Peers: other}
		})
		defer bench.close()
		time.Sleep(time.Second)
		if _, err := bench.engine.PutKey(t.Context(), store.Everyone(), grapnel.Key{ID: "key_1"}, store.With{}); err != nil {
			t.Fatal(err)
		}
		if ago := time.Since(other.seen); ago < leaseHere || ago > leaseHere+leaseHere/10 {
			t.Errorf("the change was answered %s after the other node was there; a lease is %s", ago, leaseHere)
		}
	})
}

// recording is a node that owns nothing and does not answer, but is at the store all the time. From
// a moment on its row has the version of the configuration, less a number.
type recording struct {
	bystander
	store store.Store
	from  time.Time
	less  int64
}

func (r recording) Acting(ctx context.Context, _ time.Duration) ([]store.Node, error) {
	is := store.Node{ID: "other", Address: "other"}
	if time.Now().After(r.from) {
		version, _, err := r.store.Version(ctx)
		if err != nil {
			return nil, err
		}
		is.Version = version - r.less
	}
	return []store.Node{is}, nil
}

// TestChangesWaitForTheRowOfWhoDoesNotAnswer: a change is answered once the row of a node that does
// not answer says that the node has applied it, and not before.
func TestChangesWaitForTheRowOfWhoDoesNotAnswer(t *testing.T) {
	for less, want := range map[int64]time.Duration{0: leaseHere / 3, 1: leaseHere} {
		synctest.Test(t, func(t *testing.T) {
			s, began := memory.New(), time.Now()
			other := recording{bystander: bystander{estate: &estate{}}, store: s, from: began.Add(leaseHere / 3), less: less}
			bench := newTunedBench(t, s, func(o *Options) {
				o.Cluster = &ownership.Options{Ownership: other, Node: store.Node{ID: "me"}, Lease: leaseHere, Peers: other}
			})
			defer bench.close()
			if _, err := bench.engine.PutKey(t.Context(), store.Everyone(), grapnel.Key{ID: "key_1"}, store.With{}); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took < want || took > want+leaseHere/10 {
				t.Errorf("with a row that is %d behind, the change was answered after %s, not after %s", less, took, want)
			}
		})
	}
}

// TestChangesShareARequest: changes that are committed while the other node is being asked are told
// to it together, by one request that begins after the last of them; and none is answered before a
// request has succeeded that began after its commit.
func TestChangesShareARequest(t *testing.T) {
	for name, b := range map[string]Bounds{"": {}, "tiny": bounds.Tiny[Bounds](7)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memory.New()
				other := &asking{began: make(chan int64, 100), end: make(chan error), store: s}
				bench := newTunedBench(t, s, func(o *Options) {
					o.Bounds = b
					o.Cluster = &ownership.Options{Ownership: pair{&estate{}}, Node: store.Node{ID: "me"}, Lease: leaseHere, Peers: other}
				})
				defer bench.close()
				time.Sleep(3 * time.Second)
				var mu sync.Mutex
				answered := map[int]bool{}
				var making sync.WaitGroup
				change := func(n int) {
					making.Go(func() {
						k := grapnel.Key{ID: fmt.Sprint("key_", n), Hash: [32]byte{byte(n)}}
						if _, err := bench.engine.PutKey(t.Context(), store.Everyone(), k, store.With{}); err != nil {
							t.Error(err)
						}
						mu.Lock()
						defer mu.Unlock()
						answered[n] = true
					})
					synctest.Wait()
				}
				let := func(err error, now int) {
					t.Helper()
					other.end <- err
					synctest.Wait()
					mu.Lock()
					defer mu.Unlock()
					if len(answered) != now {
						t.Errorf("%d changes are answered, not %d: %v", len(answered), now, answered)
					}
				}
				change(0)
				first := <-other.began
				for n := 1; n <= 20; n++ {
					change(n)
				}
				if len(other.began) != 0 {
					t.Errorf("%d more requests while one is under way", len(other.began))
				}
				let(nil, 1)
				if version := <-other.began; version != first+20 {
					t.Errorf("the second request began at version %d, the first at %d", version, first)
				}
				let(errors.New("away"), 1)
				time.Sleep(time.Second) // they ask again, each by its own clock
				for requests := 1; len(other.began) > 0; requests++ {
					if version := <-other.began; version != first+20 || requests > 3 {
						t.Errorf("request %d for 20 changes began at version %d, the first at %d", requests, version, first)
					}
					other.end <- nil
					synctest.Wait()
				}
				mu.Lock()
				if len(answered) != 21 {
					t.Errorf("%d changes are answered: %v", len(answered), answered)
				}
				mu.Unlock()
				making.Wait()
			})
		})
	}
}

// erratic is a store whose answers about changes arrive when the test says so, in any order, and
// which now and then cannot tell the changes.
type erratic struct {
	store.Store
	random *rand.Rand
	mu     sync.Mutex
	held   []chan struct{}
}

func (e *erratic) Changes(ctx context.Context, since int64) (store.ConfigChanges, bool, error) {
	d, complete, err := e.Store.Changes(ctx, since)
	e.mu.Lock()
	if e.random.IntN(8) == 0 {
		d, complete = store.ConfigChanges{Version: d.Version, Newest: d.Newest}, false
	}
	first, ok := ctx.Value(onRequest{}).(*atomic.Bool)
	if !ok || first.Swap(true) { // a second read of one request is made under the lock
		e.mu.Unlock()
		return d, complete, err
	}
	hold := make(chan struct{})
	e.held = append(e.held, hold)
	e.mu.Unlock()
	<-hold
	return d, complete, err
}

// release lets one answer through; false: none is held.
func (e *erratic) release() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.held) == 0 {
		return false
	}
	at := e.random.IntN(len(e.held))
	close(e.held[at])
	e.held = append(e.held[:at], e.held[at+1:]...)
	return true
}

// TestChangesInAnyOrder: changes are made here and elsewhere while reads of earlier ones are in
// flight. They arrive late, twice and in any order; at each moment the configuration is what the
// store had at its version, versions only rise, and a caller that has caught up sees all that was
// committed before.
func TestChangesInAnyOrder(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			s := &erratic{Store: memory.New(), random: rand.New(rand.NewPCG(seed, 2))}
			b := newTunedBench(t, s, func(o *Options) {
				if seed%2 == 1 {
					o.Bounds = bounds.Tiny[Bounds](seed)
				}
			})
			defer b.close()
			was := map[int64]string{} // contents by version
			last := int64(0)
			look := func() {
				t.Helper()
				synctest.Wait()
				read := readAnew(t, s)
				was[read.Snapshot().Version] = fmt.Sprint(contents(read))
				version := b.engine.Snapshot().Version
				if got := fmt.Sprint(contents(b.engine.Book)); got != was[version] || version < last {
					t.Fatalf("seed %d: after version %d the engine has\n%s\nand the store had\n%s", seed, last, got, was[version])
				}
				last = version
			}
			look()
			var waiting sync.WaitGroup
			for range 80 {
				id := fmt.Sprint("que_", random.IntN(5))
				ep := ofElsewhere(id)
				c, _ := s.Config(t.Context())
				for i := range c.Endpoints {
					if c.Endpoints[i].ID == id {
						ep = c.Endpoints[i]
					}
				}
				ep.Description = fmt.Sprint("after ", c.Version)
				switch random.IntN(6) {
				case 0, 1:
					elsewhere(t, s, ep)
				case 2:
					_, err := b.engine.PutEndpoint(t.Context(), store.Everyone(), ep, store.With{})
					if err != nil {
						t.Fatal(err)
					}
				case 3, 4:
					waiting.Go(func() {
						committed, _, _ := s.Version(t.Context())
						if err := b.engine.CatchUp(context.WithValue(context.Background(), onRequest{}, new(atomic.Bool))); err != nil {
							t.Error(err)
						}
						if have := b.engine.Settled().Version; have < committed {
							t.Errorf("seed %d: caught up to version %d, when %d was committed before", seed, have, committed)
						}
					})
				default:
					s.release()
				}
				look()
			}
			for s.release() {
				look()
			}
			waiting.Wait()
			look()
		})
	}
}
