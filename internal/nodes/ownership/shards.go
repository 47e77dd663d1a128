// Package ownership divides endpoints among the nodes that share a store: it decides which of them
// this node owns.
//
// Endpoints are divided into shards. A node holds a lease on each of its shards and renews it. Each
// time a shard changes its owner its epoch rises, and the store refuses writes of an earlier epoch.
// So two nodes never both record outcomes of a shard, whatever their clocks and networks do. A node
// may send a request that another one repeats: delivery is at least once.
//
// The package also sends hints and questions between nodes (Peers), and delays the answer to a
// change of the configuration until every node that answers requests has applied it (Confirm). It
// does not know deliveries: it tells the engine (Env) which endpoints to take and which to leave.
package ownership

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/store"
)

// leaseMargin is the time before the end of its lease at which a node treats it as expired.
const leaseMargin = time.Second

// New makes the shards of a node; none is held before Run. Without options it returns nil: the node
// is alone.
func New(o *Options, env Env) *Shards {
	if o == nil {
		return nil
	}
	s := &Shards{env: env, log: env.Log, cluster: *o, bounds: bounds.Fill(o.Bounds), done: make(chan struct{}),
		held: map[int]*holding{}, inquiring: make(chan struct{}, 1), joined: make(chan struct{}), drains: make(chan struct{})}
	s.cluster.Lease = cmp.Or(o.Lease, 15*time.Second)
	if s.cluster.Steady == nil {
		s.cluster.Steady = steadily()
	}
	env.Watchdog.steady = s.cluster.Steady
	s.watching, s.keeping = env.Watchdog.Pulse("watch"), env.Watchdog.Pulse("keep")
	return s
}

// Has says whether this node owns an endpoint and is not releasing it. A node that stood still for
// longer than its lease still has its endpoints until its next round.
func (s *Shards) Has(endpoint string) bool {
	return s == nil || s.stays(s.cluster.Ownership.ShardOf(endpoint), false) != nil
}

// Owns says whether this node has an endpoint by a lease that has not expired. Without one its
// memory may be out of date, and it must decide nothing by it.
func (s *Shards) Owns(endpoint string) bool {
	return s == nil || s.stays(s.cluster.Ownership.ShardOf(endpoint), true) != nil
}

// Leads says whether this node does the work that one node does for all.
func (s *Shards) Leads() bool { return s == nil || s.stays(leading, true) != nil }

// leading is the shard whose owner leads.
const leading = 0

// stays returns a shard that this node has and is not releasing; leased: only if its lease has not
// expired. Else it returns nil. The caller reads of it what never changes.
func (s *Shards) stays(shard int, leased bool) *holding {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if h := s.held[shard]; h != nil && h.leaving == nil && (!leased || s.now().before(h.until)) {
		return h
	}
	return nil
}

// Share is the number of shards that this node owns and is not releasing.
func (s *Shards) Share() int { return len(s.owned(staying)) }

func staying(_ int, h *holding) bool { return h.leaving == nil }

// Epoch is the epoch for writes about an endpoint. While work of the endpoint is in progress its
// shard is not released, so the epoch is that of the decision.
func (s *Shards) Epoch(endpoint string) int64 {
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

// Sending returns the context and the epoch of an attempt that is about to start; nil: it must not
// start. All is the context of a node that does not share its store.
func (s *Shards) Sending(all context.Context, endpoint string) (context.Context, int64) {
	if s == nil {
		return all, 0
	}
	if h := s.stays(s.cluster.Ownership.ShardOf(endpoint), true); h != nil {
		return h.alive, h.epoch
	}
	return nil, 0
}

// Still returns a check for the last moment before a request is sent, after steps that may have
// taken long: resolving a name, a handshake, a descheduled process. It is true while the node may
// still send to the endpoint in the same epoch. A node that does not share its store needs no
// check: nil.
func (s *Shards) Still(endpoint string, epoch int64) func() bool {
	if s == nil {
		return nil
	}
	return func() bool {
		sending, now := s.Sending(s.env.Sending, endpoint)
		return sending != nil && now == epoch
	}
}

// guard cancels attempts in shards whose lease has expired, and in all shards while a loop is
// stalled, until the engine stops. It calls neither store nor core, so neither can delay it.
func (s *Shards) guard() {
	for backoff.Wait(s.env.Over, leaseMargin/10) {
		stalled, held := s.env.Watchdog.stalled(s.cluster.Lease), 0
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
			s.log.Error("engine loop stands still; shards released until it moves", "loop", stalled, "shards", held)
		case stalled == "" && was != "":
			s.log.Info("engine loop moves again; shards can be taken", "loop", was)
		}
	}
}

// expire begins to release shards whose lease has expired, also if it was renewed after guard had
// cancelled the attempts. A stop cancels attempts too, before this loop ends: that loses no lease.
func (s *Shards) expire() {
	over := s.owned(func(_ int, h *holding) bool {
		cancelled := h.alive.Err() != nil && s.env.Sending.Err() == nil
		return h.leaving == nil && (cancelled || !s.now().before(h.until))
	})
	if len(over) > 0 {
		if !s.standsStill() { // guard logs that case
			s.log.Error("lease lost; shards released", "shards", len(over))
		}
		s.lost.Add(int64(len(over)))
		s.leave(over)
	}
}

// leave begins to release shards.
func (s *Shards) leave(these []store.Owned) {
	if len(these) == 0 {
		return
	}
	// an error means that the engine has stopped and nothing is left to release
	_ = s.env.Between(context.Background(), func() {
		s.mu.Lock()
		leaving := map[int]bool{}
		for _, o := range these {
			if h := s.held[o.Shard]; h != nil && h.epoch == o.Epoch && h.leaving == nil {
				h.leaving, leaving[o.Shard] = map[string]bool{}, true
			}
		}
		var endpoints []string
		for ep := range s.env.Endpoints() {
			if n := s.cluster.Ownership.ShardOf(ep.ID); leaving[n] {
				s.held[n].leaving[ep.ID] = true
				endpoints = append(endpoints, ep.ID)
			}
		}
		s.mu.Unlock()
		for _, id := range endpoints {
			s.env.Leave(id)
		}
	})
}

// Left records that the core has left an endpoint. If neither its shard is being released nor the
// endpoint was removed, the store has refused a write in the shard's epoch (refused): another node
// owns the shard.
func (s *Shards) Left(endpoint string, refused bool) {
	if s == nil {
		return
	}
	n := s.cluster.Ownership.ShardOf(endpoint)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch h := s.held[n]; {
	case h == nil:
	case h.leaving == nil && refused:
		h.until = moment{}
	default:
		delete(h.leaving, endpoint)
	}
}

// Drain begins to release all shards. It is called once.
func (s *Shards) Drain() {
	if s != nil {
		close(s.drains)
	}
}

// Close releases the remaining shards, once no work is in progress.
func (s *Shards) Close() {
	if s == nil {
		return
	}
	<-s.done
	ctx, cancel := context.WithTimeout(context.Background(), s.cluster.Lease)
	defer cancel()
	me := s.cluster.Node.ID
	if err := errors.Join(s.cluster.Ownership.Release(ctx, me, s.owned(nil)), s.cluster.Ownership.Leave(ctx, me)); err != nil {
		s.log.Warn("releasing shards failed; other nodes take them when their leases expire", "err", err)
	}
}

// presence is the time within which a node has to update its row to count as live.
func (s *Shards) presence() time.Duration { return s.cluster.Lease / 2 }

// renewal is the age at which a lease is renewed.
func (s *Shards) renewal() time.Duration { return s.cluster.Lease / 3 }

// standsStill says whether one of the loops is stalled.
func (s *Shards) standsStill() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.stalled != ""
}

// owned returns the shards that this node owns, or those that kind accepts.
func (s *Shards) owned(kind func(int, *holding) bool) []store.Owned {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var all []store.Owned
	for n, h := range s.held {
		if kind == nil || kind(n, h) {
			all = append(all, store.Owned{Shard: n, Epoch: h.epoch})
		}
	}
	return all
}
