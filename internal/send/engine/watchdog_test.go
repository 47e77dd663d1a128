package engine

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/nodes/ownership"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
)

// estate is the ownership of one shard, in memory, by the wall clock of a bubble.
type estate struct {
	mu      sync.Mutex
	is      store.Shard
	until   time.Time
	renewed int
	node    store.Node
	heads   []int64 // that Fresh finds
	read    int     // of them
	hang    func(ctx context.Context)
	late    time.Duration // how long after its number was given a delivery may be committed
}

func (*estate) ShardOf(string) int { return 0 }

func (o *estate) free() bool { return o.is.Owner == "" || time.Now().After(o.until) }

func (o *estate) Acquire(_ context.Context, node string, _ []int, lease time.Duration) ([]store.Owned, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.free() {
		return nil, nil
	}
	o.is.Owner, o.until = node, time.Now().Add(lease)
	o.is.Epoch++
	return []store.Owned{{Epoch: o.is.Epoch}}, nil
}

func (o *estate) Renew(_ context.Context, _ string, owned []store.Owned, lease time.Duration) ([]store.Owned, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.renewed++
	o.until = time.Now().Add(lease)
	return owned, nil
}

func (o *estate) Release(context.Context, string, []store.Owned) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.is.Owner = ""
	return nil
}

func (o *estate) ShardList(context.Context) ([]store.Shard, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	is := o.is
	is.Left = time.Until(o.until)
	return []store.Shard{is}, nil
}

func (o *estate) Acting(context.Context, time.Duration) ([]store.Node, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.free() {
		return nil, nil
	}
	return []store.Node{{ID: o.is.Owner}}, nil
}

func (o *estate) Fresh(ctx context.Context, _ []int, after int64, limit int) (all []store.Head, err error) {
	if o.hang != nil {
		o.hang(ctx)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, n := range o.heads {
		if n > after && len(all) < limit {
			all = append(all, store.Head{Delivery: n, Endpoint: "none"})
		}
	}
	o.read += len(all)
	return all, ctx.Err()
}

func (o *estate) Beat(_ context.Context, node store.Node, _ time.Duration) ([]store.Node, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.node = node
	return []store.Node{node}, nil
}

func (o *estate) Nodes(context.Context, time.Duration) ([]store.Node, error) { return nil, nil }
func (o *estate) Leave(context.Context, string) error                        { return nil }
func (o *estate) Secret(context.Context) (string, error)                     { return "", nil }

// renewals is how often the lease was renewed.
func (o *estate) renewals() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.renewed
}

// hanging is a store of which one call hangs while it is told to.
type hanging struct {
	store.Store
	call string
	mu   sync.Mutex
	hold chan struct{} // not nil: the call waits for it
	deaf bool          // whatever becomes of its context
}

func (h *hanging) wait(ctx context.Context, call string) error {
	h.mu.Lock()
	hold, deaf, applies := h.hold, h.deaf, h.call == call
	h.mu.Unlock()
	if !applies || hold == nil {
		return nil
	}
	if deaf {
		<-hold
		return nil
	}
	select {
	case <-hold:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *hanging) Record(ctx context.Context, changes []store.Change) ([]store.Changed, error) {
	if err := h.wait(ctx, "Record"); err != nil {
		return nil, err
	}
	return h.Store.Record(ctx, changes)
}

func (h *hanging) Heads(ctx context.Context, endpoint string, limit int) ([]store.Head, error) {
	if err := h.wait(ctx, "Heads"); err != nil {
		return nil, err
	}
	return h.Store.Heads(ctx, endpoint, limit)
}

func (h *hanging) Changes(ctx context.Context, since int64) (store.ConfigChanges, bool, error) {
	if err := h.wait(ctx, "Changes"); err != nil {
		return store.ConfigChanges{}, false, err
	}
	return h.Store.Changes(ctx, since)
}

func (h *hanging) hangs(call string, deaf bool) (goesOn func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.call, h.deaf, h.hold = call, deaf, make(chan struct{})
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		close(h.hold)
		h.hold = nil
	}
}

const leaseHere = 15 * time.Second

// shared runs a test with one node that shares its store, with default bounds and with tiny ones.
func shared(t *testing.T, test func(*testing.T, *bench, *hanging, *estate, *bytes.Buffer)) {
	for name, b := range map[string]struct {
		engine Bounds
		shards ownership.Bounds
	}{"": {}, "tiny": {bounds.Tiny[Bounds](7), bounds.Tiny[ownership.Bounds](7)}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, o, log := &hanging{Store: memory.New()}, &estate{late: lateness(b.shards)}, &bytes.Buffer{}
				bench := newTunedBench(t, s, func(options *Options) {
					options.Bounds, options.Log = b.engine, slog.New(slog.NewTextHandler(log, nil))
					options.Cluster = &ownership.Options{Ownership: o, Node: store.Node{ID: "me"}, Lease: leaseHere, Peers: neighbours{}, Bounds: b.shards}
				})
				defer bench.close()
				time.Sleep(3 * time.Second)
				test(t, bench, s, o, log)
			})
		})
	}
}

// TestALoopThatStandsStillGivesShardsUp: while outcomes cannot be recorded no lease is renewed, no
// attempt starts, and one line is logged. Once the loop moves the shard is taken again, and events
// accepted meanwhile arrive.
func TestALoopThatStandsStillGivesShardsUp(t *testing.T) {
	shared(t, func(t *testing.T, b *bench, s *hanging, o *estate, log *bytes.Buffer) {
		r := &receiver{}
		b.endpoint("ep", r, nil)
		goesOn := s.hangs("Record", true)
		b.publish("a", 1)
		time.Sleep(leaseHere)
		renewed := o.renewals()
		time.Sleep(2 * leaseHere)
		if n := o.renewals(); n != renewed || len(r.log()) != 1 {
			t.Errorf("%d renewals and %d requests while outcomes could not be recorded", n-renewed, len(r.log())-1)
		}
		if err := b.engine.shards.Reaches(); err == nil {
			t.Error("the node says that it does its part")
		}
		goesOn()
		time.Sleep(3 * leaseHere)
		b.publish("b", 1)
		time.Sleep(leaseHere)
		said := strings.Count(log.String(), "stands still")
		if ids := r.ids(); len(ids) < 2 || ids[len(ids)-1] == ids[0] || said != 1 || b.engine.shards.Reaches() != nil {
			t.Errorf("afterwards %d requests, it was said %d times, %v", len(ids), said, b.engine.shards.Reaches())
		}
	})
}

// TestAReadThatHangsIsGivenUp: a read of heads, or of the configuration, from which nothing comes
// any more ends with its deadline. Until then it costs no lease, and after that deliveries go on.
func TestAReadThatHangsIsGivenUp(t *testing.T) {
	shared(t, func(t *testing.T, b *bench, s *hanging, o *estate, log *bytes.Buffer) {
		b.endpoint("ep", &receiver{}, nil)
		for _, call := range []string{"Heads", "Changes"} {
			goesOn := s.hangs(call, false)
			elsewhere(t, s.Store, ofElsewhere("que_"+call)) // so there is something to read
			ctx, cancel := context.WithTimeout(t.Context(), leaseHere)
			err := b.engine.Lock(ctx) // its holder must release it
			if err == nil {
				b.engine.Unlock()
			}
			cancel()
			if err != nil {
				t.Errorf("%s: the lock of the configuration was not free within a lease", call)
			}
			time.Sleep(leaseHere / 2)
			goesOn()
			time.Sleep(leaseHere)
		}
		s.hangs("Changes", true)()
		goesOn := s.hangs("Changes", true)
		elsewhere(t, s.Store, ofElsewhere("que_deaf"))
		time.Sleep(2 * time.Second) // keep is at it
		ctx, cancel := context.WithTimeout(t.Context(), leaseHere)
		if err := b.engine.Lock(ctx); err != nil {
			t.Error("a read that takes no notice of its context has kept the lock")
		} else {
			b.engine.Unlock()
		}
		cancel()
		goesOn()
		time.Sleep(2 * leaseHere)
		if b.engine.shards.Share() != 1 {
			t.Error("the shard was not taken again")
		}
	})
}

// TestARemovedEndpointCostsNoShard: an endpoint that the core has left because another node removed
// it is no sign that another node has the shard. One that it left after the store refused a write
// is.
func TestARemovedEndpointCostsNoShard(t *testing.T) {
	for _, removed := range []bool{true, false} {
		shared(t, func(t *testing.T, b *bench, _ *hanging, _ *estate, _ *bytes.Buffer) {
			if removed {
				b.engine.removed.Store("ep", true)
			}
			b.engine.left("ep")
			if ctx, _ := b.engine.shards.Sending(t.Context(), "other"); (ctx != nil) != removed {
				t.Errorf("removed %v: the shard is kept %v", removed, ctx != nil)
			}
		})
	}
}

// lateness is how late a commit may be to be found: FreshBack reads pass before older numbers are
// read again, of which one may have begun already.
func lateness(b ownership.Bounds) time.Duration {
	b = bounds.Fill(b)
	return time.Duration(b.FreshBack-1) * b.FreshEvery
}

// TestFreshReadsLittle: a delivery that another node has accepted, and that waits, is read three
// times at most, and one that was committed late is found.
func TestFreshReadsLittle(t *testing.T) {
	shared(t, func(t *testing.T, b *bench, _ *hanging, o *estate, _ *bytes.Buffer) {
		const all = 100
		for n := range int64(all) {
			o.mu.Lock()
			o.heads = append(o.heads, 1000+n)
			o.mu.Unlock()
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		o.mu.Lock()
		if o.read < all || o.read > 3*all {
			t.Errorf("%d rows were read for %d deliveries", o.read, all)
		}
		o.heads = append([]int64{2000}, o.heads...)
		o.mu.Unlock()
		time.Sleep(o.late)
		o.mu.Lock()
		o.heads, o.read = []int64{1999}, 0 // committed after 2000 was seen
		o.mu.Unlock()
		time.Sleep(10 * time.Second)
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.read == 0 {
			t.Error("what was committed late was not found")
		}
	})
}
