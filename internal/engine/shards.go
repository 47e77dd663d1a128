package engine

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel/internal/bounds"
	"github.com/grapnelhq/grapnel/internal/core"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Cluster says that other nodes use the same store.
type Cluster struct {
	Ownership store.Ownership
	Node      store.Node    // this one; its ID is another one for each start
	Lease     time.Duration // of shards; 15 s
	Peers     Peers
	Steady    func() time.Duration // a clock that cannot be set, above 0; nil: the process's
}

// leaseMargin is how long before the end of its lease a node takes it to be over.
const leaseMargin = time.Second

// shards are the endpoints that this node decides about. The nodes agree on who that is without talking to each other: each sees who is
// there, and of those the same function (wanted) picks one for each shard. A node gives up what is another's, once nothing of it is under way,
// and takes what is its own and free. The store sees to it that no two have the same.
//
// Two clocks judge a lease. The store's says when others may take a shard. The node itself counts from before it asked, by a clock that
// cannot be set back, and stops a second earlier: attempts are cancelled, and nothing starts. What it writes after that all the same is
// refused by the store.
//
// Held shards are changed by the goroutine of Run alone, between two steps of the core; others look.
type shards struct {
	e       *Engine
	cluster Cluster
	bounds  Bounds
	done    chan struct{} // closed when keep has returned

	mu       sync.RWMutex
	held     map[int]*holding
	draining bool

	stalled string // loop that stands still; empty: none

	nodes   []store.Node  // live nodes, as of the last look
	there   []store.Shard // all, as of the last look
	reached moment        // end of the last round that did everything
	current moment        // beginning of the last round that told the store of this node and then caught up; see Current
	joined  chan struct{} // closed by the first of these
	looked  moment        // of keep alone
	renewed moment        // of keep alone

	next      *inquiry      // has not begun, and somebody waits for it; nil: nobody does
	inquiring chan struct{} // holds a token while an inquiry is under way

	watching, keeping *pulse
}

// holding is a shard that this node has.
type holding struct {
	epoch   int64
	until   moment          // the lease is taken to be over then
	leaving map[string]bool // not nil: it is being given up; the endpoints that the core has not left yet
	alive   context.Context // of its attempts
	cut     context.CancelFunc
}

func newShards(e *Engine, c *Cluster, b Bounds) *shards {
	s := &shards{e: e, cluster: *c, bounds: bounds.Fill(b), done: make(chan struct{}), held: map[int]*holding{}, inquiring: make(chan struct{}, 1),
		joined: make(chan struct{})}
	s.cluster.Lease = cmp.Or(c.Lease, 15*time.Second)
	if s.cluster.Steady == nil {
		s.cluster.Steady = steadily()
	}
	s.watching, s.keeping = e.pulse("watch"), e.pulse("keep")
	return s
}

// has says whether this node decides about an endpoint.
func (s *shards) has(endpoint string) bool {
	return s == nil || s.stays(s.cluster.Ownership.ShardOf(endpoint))
}

// leads says whether this node does what one of them has to do for all.
func (s *shards) leads() bool {
	return s == nil || s.stays(0)
}

// stays says whether this node has a shard and is not giving it up.
func (s *shards) stays(shard int) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	h := s.held[shard]
	return h != nil && h.leaving == nil
}

// share is how many shards this node has and keeps.
func (s *shards) share() int {
	return len(s.owned(func(_ int, h *holding) bool { return h.leaving == nil }))
}

// epoch is what to write with what was decided about an endpoint. As long as anything of it is under way the shard stays the one it was
// when that was decided.
func (s *shards) epoch(endpoint string) int64 {
	if s == nil {
		return 0
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if h := s.held[s.cluster.Ownership.ShardOf(endpoint)]; h != nil {
		return h.epoch
	}
	return nobodys
}

// nobodys is an epoch that no shard is ever in.
const nobodys = -1

// sending is the context of an attempt that is about to start; nil: it must not.
func (s *shards) sending(endpoint string) (context.Context, int64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	h := s.held[s.cluster.Ownership.ShardOf(endpoint)]
	if h == nil || h.leaving != nil || !s.now().before(h.until) {
		return nil, 0
	}
	return h.alive, h.epoch
}

// guard cancels attempts in shards whose lease is over, and in all while a loop stands still, until the engine is over. It asks nobody, so
// nothing keeps it from doing that in time.
func (s *shards) guard() {
	tick := time.NewTicker(leaseMargin / 10)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.e.over:
			return
		}
		stalled, held := s.stalledLoop(), 0
		s.mu.Lock()
		was := s.stalled
		s.stalled = stalled
		for _, h := range s.held {
			if stalled != "" {
				h.until = moment{}
			}
			if !s.now().before(h.until) {
				h.cut()
			}
			held++
		}
		s.mu.Unlock()
		switch {
		case stalled != "" && was == "":
			s.e.log.Error("engine loop stands still; shards released until it moves", "loop", stalled, "shards", held)
		case stalled == "" && was != "":
			s.e.log.Info("engine loop moves again; shards can be taken", "loop", was)
		}
	}
}

// expire leaves shards whose lease is over.
func (s *shards) expire() {
	over := s.owned(func(_ int, h *holding) bool {
		return h.leaving == nil && (h.alive.Err() != nil || !s.now().before(h.until))
	})
	if len(over) > 0 {
		if !s.standsStill() { // or guard has said so
			s.e.log.Error("lease lost; shards released", "shards", len(over))
		}
		s.e.metrics.lost.Add(float64(len(over)))
		s.leave(over)
	}
}

// leave begins to give shards up.
func (s *shards) leave(these []store.Owned) {
	if len(these) == 0 {
		return
	}
	e := s.e
	_ = e.await(context.Background(), input{ask: func(*core.Core, time.Time) { // or the engine is over, and everything is left
		var endpoints []string
		conf := e.config.Load()
		s.mu.Lock()
		leaving := map[int]bool{}
		for _, o := range these {
			if h := s.held[o.Shard]; h != nil && h.epoch == o.Epoch && h.leaving == nil {
				h.leaving, leaving[o.Shard] = map[string]bool{}, true
			}
		}
		for _, ep := range conf.endpoints {
			id := ep.ID
			if n := s.cluster.Ownership.ShardOf(id); leaving[n] {
				s.held[n].leaving[id] = true
				endpoints = append(endpoints, id)
			}
		}
		s.mu.Unlock()
		for _, id := range endpoints {
			e.step(core.Leave{Endpoint: id})
		}
	}})
}

// left takes note that the core has left an endpoint. If neither its shard nor its tenant is being given up (open), the store has refused what was
// decided about it in the shard's epoch: the shard is another node's.
func (s *shards) left(endpoint string, open bool) {
	n := s.cluster.Ownership.ShardOf(endpoint)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch h := s.held[n]; {
	case h == nil:
	case h.leaving == nil && open:
		h.until = moment{}
	default:
		delete(h.leaving, endpoint)
	}
}

// drain begins to give everything up.
func (s *shards) drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
}

// close gives back what is left, once nothing is under way any more.
func (s *shards) close() {
	<-s.done
	ctx, cancel := context.WithTimeout(context.Background(), s.cluster.Lease)
	defer cancel()
	me := s.cluster.Node.ID
	if err := errors.Join(s.cluster.Ownership.Release(ctx, me, s.owned(nil)), s.cluster.Ownership.Leave(ctx, me)); err != nil {
		s.e.log.Warn("this node's shards could not be given back; others can take them when their lease is over", "error", err)
	}
}
