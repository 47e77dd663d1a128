package ownership

import (
	"bytes"
	"context"
	"io"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

const lease = 15 * time.Second

// registry is a store's part in ownership, for one shard and any number of nodes, by the bubble's
// clock.
type registry struct {
	store.Ownership
	mu    sync.Mutex
	shard store.Shard
	until time.Time
	nodes []store.Node
	away  bool          // the store is unreachable
	still chan struct{} // not nil: calls return only once it is closed, whatever their contexts say
	blind bool          // deliveries cannot be read
	log   bytes.Buffer  // of the node
}

func (*registry) ShardOf(string) int { return 0 }

func (r *registry) ask() error {
	r.mu.Lock()
	still := r.still
	r.mu.Unlock()
	if still != nil {
		<-still
	}
	r.mu.Lock()
	if r.away {
		r.mu.Unlock()
		return context.DeadlineExceeded
	}
	return nil
}

func (r *registry) Beat(_ context.Context, node store.Node, _ time.Duration) ([]store.Node, error) {
	if err := r.ask(); err != nil {
		return nil, err
	}
	defer r.mu.Unlock()
	return append([]store.Node{node}, r.nodes...), nil
}

func (r *registry) ShardList(context.Context) ([]store.Shard, error) {
	if err := r.ask(); err != nil {
		return nil, err
	}
	defer r.mu.Unlock()
	is := r.shard
	is.Left = time.Until(r.until)
	return []store.Shard{is}, nil
}

func (r *registry) Acquire(_ context.Context, node string, _ []int, lease time.Duration) ([]store.Owned, error) {
	if err := r.ask(); err != nil {
		return nil, err
	}
	defer r.mu.Unlock()
	r.shard.Owner, r.until = node, time.Now().Add(lease)
	r.shard.Epoch++
	return []store.Owned{{Epoch: r.shard.Epoch}}, nil
}

func (r *registry) Renew(_ context.Context, node string, owned []store.Owned, lease time.Duration) ([]store.Owned, error) {
	if err := r.ask(); err != nil {
		return nil, err
	}
	defer r.mu.Unlock()
	if r.shard.Owner != node {
		return nil, nil
	}
	r.until = time.Now().Add(lease)
	return owned, nil
}

func (r *registry) Release(context.Context, string, []store.Owned) error {
	if err := r.ask(); err != nil {
		return err
	}
	defer r.mu.Unlock()
	r.shard.Owner = ""
	return nil
}

func (*registry) Leave(context.Context, string) error { return nil }

func (r *registry) Fresh(context.Context, []int, int64, int) ([]store.Head, error) {
	if r.blind {
		return nil, context.DeadlineExceeded
	}
	return nil, nil
}

// reaches makes the registry reachable or unreachable.
func (r *registry) reaches(does bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = !does
}

// node runs shards in a bubble, with an engine that has one endpoint.
type node struct {
	*Shards
	abandon       context.CancelFunc // ends every attempt
	takes, leaves int
}

func run(t *testing.T, r *registry, test func(n *node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		over := make(chan struct{})
		sending, abandon := context.WithCancel(t.Context())
		defer abandon()
		n := &node{abandon: abandon}
		ep := &grapnel.Endpoint{ID: "ep"}
		var between sync.Mutex
		n.Shards = New(&Options{Ownership: r, Node: store.Node{ID: "me"}, Lease: lease}, Env{
			Now: time.Now, Log: slog.New(slog.NewTextHandler(io.MultiWriter(t.Output(), &r.log), nil)),
			Over: over, Sending: sending, Watchdog: &Watchdog{},
			Between: func(_ context.Context, do func()) error {
				between.Lock()
				defer between.Unlock()
				do()
				return nil
			},
			// no attempt is in flight
			Leave: func(endpoint string) { n.leaves++; go n.Left(endpoint, true) },
			Configure: func(*grapnel.Endpoint, int64, store.Standing) {
				n.takes++
			},
			Endpoints: func() iter.Seq[*grapnel.Endpoint] {
				return func(yield func(*grapnel.Endpoint) bool) { yield(ep) }
			},
			CatchUp:   func(context.Context) error { return nil },
			Applied:   func() int64 { return 0 },
			Newest:    func(context.Context) (int64, error) { return 0, nil },
			Standings: func(context.Context) (map[string]store.Standing, error) { return nil, nil },
			Operate:   func(context.Context, store.Order) error { return nil },
			Accepted:  func([]store.Head) {},
		})
		var running sync.WaitGroup
		running.Go(n.Run)
		time.Sleep(lease / 5)
		test(n)
		close(over)
		running.Wait()
		n.Close()
	})
}

// TestAFreeShardIsTakenAndKept: the engine is notified once, and the lease is renewed while the
// node runs.
func TestAFreeShardIsTakenAndKept(t *testing.T) {
	run(t, &registry{}, func(n *node) {
		time.Sleep(10 * lease)
		if sending, epoch := n.Sending(t.Context(), "ep"); sending == nil || epoch != 1 || n.takes != 1 || n.leaves != 0 || n.Share() != 1 {
			t.Errorf("epoch %d, taken %d times, left %d times", epoch, n.takes, n.leaves)
		}
	})
}

// TestAnOutageLogsFewLines: failures in a row are logged less and less often, so a log that was
// read for other things still shows them.
func TestAnOutageLogsFewLines(t *testing.T) {
	r := &registry{blind: true}
	run(t, r, func(n *node) {
		time.Sleep(200 * n.bounds.FreshEvery)
		synctest.Wait()
		if lines := strings.Count(r.log.String(), "accepted failed; retrying"); lines < 5 || lines > 10 {
			t.Errorf("about 200 failures were logged %d times", lines)
		}
	})
}

// TestNothingStartsWithoutTheStore: attempts are cancelled before the lease ends, and none starts.
// The node is not current, so it answers no caller. It takes the shard again, in a later epoch,
// once it reaches the store.
func TestNothingStartsWithoutTheStore(t *testing.T) {
	r := &registry{}
	run(t, r, func(n *node) {
		before, _ := n.Sending(t.Context(), "ep")
		r.reaches(false)
		time.Sleep(lease)
		if sending, _ := n.Sending(t.Context(), "ep"); sending != nil || before.Err() == nil || n.Current() == nil || n.Reaches() == nil {
			t.Errorf("after a lease without the store: may send %v, attempts go on %v, current %v", sending != nil, before.Err() == nil, n.Current())
		}
		r.reaches(true)
		time.Sleep(2 * lease)
		if sending, epoch := n.Sending(t.Context(), "ep"); sending == nil || epoch != 2 || n.Current() != nil || n.Reaches() != nil {
			t.Errorf("with the store again: may send %v in epoch %d, %v, %v", sending != nil, epoch, n.Current(), n.Reaches())
		}
	})
}

// TestANodeThatStoodStillDecidesNothing: a node whose lease expired while it stood still has not
// begun to release its shard when it wakes. Its configuration and the states of its endpoints are
// out of date. So it does no work for all nodes, and decides about no endpoint.
func TestANodeThatStoodStillDecidesNothing(t *testing.T) {
	r := &registry{}
	run(t, r, func(n *node) {
		if !n.Leads() || !n.Owns("ep") {
			t.Error("it does not decide at first")
		}
		still := make(chan struct{})
		r.mu.Lock()
		r.still = still
		r.mu.Unlock()
		time.Sleep(2 * lease)
		if n.Share() != 1 {
			t.Error("it has begun to release the shard")
		}
		if n.Leads() || n.Owns("ep") {
			t.Error("it decides after the end of its lease")
		}
		r.mu.Lock()
		r.still = nil
		r.mu.Unlock()
		close(still)
		time.Sleep(2 * lease)
		if !n.Leads() || !n.Owns("ep") {
			t.Error("it does not decide with a new lease")
		}
	})
}

// TestADrainingNodeReleases: once another node is live, the engine leaves the shard's endpoints.
// Then the shard is released and not taken again.
func TestADrainingNodeReleases(t *testing.T) {
	r := &registry{}
	run(t, r, func(n *node) {
		n.Drain()
		time.Sleep(lease)
		if n.Share() != 1 {
			t.Error("the shard was released although no other node could take it")
		}
		r.mu.Lock()
		r.nodes = []store.Node{{ID: "you"}}
		r.mu.Unlock()
		time.Sleep(lease)
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.shard.Owner != "" || n.leaves != 1 || n.takes != 1 {
			t.Errorf("owner %q, left %d times, taken %d times", r.shard.Owner, n.leaves, n.takes)
		}
	})
}

// TestAStopLosesNoLease: a stopping engine ends every attempt while shards are still kept. Their
// leases have not ended, so none counts as lost; Close releases them.
func TestAStopLosesNoLease(t *testing.T) {
	r := &registry{}
	run(t, r, func(n *node) {
		n.Drain()
		n.abandon()
		time.Sleep(lease / 5)
		if lost := n.lost.Load(); lost != 0 {
			t.Errorf("%d leases count as lost", lost)
		}
	})
	if r.shard.Owner != "" {
		t.Errorf("after Close %q owns the shard", r.shard.Owner)
	}
}

// strangers are nodes that answer nothing.
type strangers struct{ Peers }

func (strangers) Healths(context.Context, string, []string) ([]grapnel.Health, error) {
	return nil, context.Canceled
}

func (strangers) Open(context.Context, string) ([]string, error) { return nil, context.Canceled }

// TestAStopBlamesNoOtherNode: a request about endpoints that a stopping server still answers is cut
// off by the stop and not by the other node, so the log does not blame that. Nor does it blame
// another node that stops, which answers no questions any more.
func TestAStopBlamesNoOtherNode(t *testing.T) {
	for _, stopping := range []string{"", "this", "other"} {
		ctx, stop := context.WithCancel(t.Context())
		var log bytes.Buffer
		s := &Shards{log: slog.New(slog.NewTextHandler(&log, nil)), env: Env{Sending: ctx}, there: []store.Shard{{Owner: "you"}},
			nodes:   []store.Node{{ID: "you", Address: "there", Draining: stopping == "other"}},
			cluster: Options{Ownership: &registry{}, Peers: strangers{}}}
		if stopping == "this" {
			stop()
		}
		s.Healths([]string{"ep"}, make([]grapnel.Health, 1))
		s.Open()
		if lines := strings.Count(log.String(), "another node failed"); (lines == 0) != (stopping != "") {
			t.Errorf("stopping %q: logged %s", stopping, log.String())
		}
		stop()
	}
}

// TestNodesAgreeWithoutTalking: for every list of nodes all nodes compute the same owner, a
// draining node gets no shard, and a node that leaves moves only its own shards.
func TestNodesAgreeWithoutTalking(t *testing.T) {
	nodes := []store.Node{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "d", Draining: true}}
	share := map[string]int{}
	for shard := range 256 {
		owner := wanted(nodes, shard)
		share[owner]++
		if turned := wanted([]store.Node{nodes[3], nodes[1], nodes[2], nodes[0]}, shard); turned != owner {
			t.Fatalf("shard %d is %s's or %s's, by the order of the list", shard, owner, turned)
		}
		if without := wanted(nodes[1:], shard); owner != "a" && without != owner {
			t.Fatalf("shard %d went from %s to %s when a left", shard, owner, without)
		}
	}
	for _, id := range []string{"a", "b", "c"} {
		if share[id] < 50 {
			t.Errorf("the shares are %v", share)
		}
	}
	if share["d"] != 0 || wanted(nil, 0) != "" {
		t.Errorf("a node that drains gets %d shards", share["d"])
	}
}
