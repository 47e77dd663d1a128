package engine

import (
	"context"
	"errors"
	"hash/fnv"
	"time"

	"github.com/grapnelhq/grapnel/internal/core"
	"github.com/grapnelhq/grapnel/internal/store"
)

// keep takes, renews and gives up shards until the engine is over.
func (s *shards) keep() {
	defer close(s.done)
	tick := time.NewTicker(s.cluster.Lease / 15)
	defer tick.Stop()
	for {
		if err := s.round(); err != nil && s.e.sending.Err() == nil {
			s.e.log.Warn("this node's shards could not be looked after; they will be again", "error", err)
		}
		s.expire()
		select {
		case <-tick.C:
		case <-s.e.over:
			return
		}
	}
}

// round looks once at what there is to do. It ends before a lease does. The configuration comes first: who has a lease that was renewed after
// a change was made has taken that in (see confirm).
func (s *shards) round() error {
	ctx, cancel := context.WithTimeout(s.e.sending, s.patience())
	defer cancel()
	if err := s.e.CatchUp(ctx); err != nil {
		return err
	}
	if err := s.renew(ctx); err != nil {
		return err
	}
	if s.leavesAll() || time.Since(s.looked) >= s.cluster.Lease/8 {
		if err := s.look(ctx); err != nil {
			return err
		}
	}
	if err := errors.Join(s.giveUp(ctx), s.take(ctx)); err != nil {
		return err
	}
	s.mu.Lock()
	s.reached = time.Now()
	s.mu.Unlock()
	return nil
}

// leavesAll says whether the node is about to stop.
func (s *shards) leavesAll() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.draining
}

// patience is how long a round may take.
func (s *shards) patience() time.Duration {
	s.mu.RLock()
	defer s.mu.RUnlock()
	least := s.cluster.Lease / 3
	for _, h := range s.held {
		if h.alive.Err() == nil {
			least = min(least, time.Until(h.until))
		}
	}
	return max(least, time.Millisecond)
}

// renew makes the leases last.
func (s *shards) renew(ctx context.Context) error {
	asked := time.Now()
	if asked.Sub(s.renewed) < s.renewal() {
		return nil
	}
	owned := s.owned(nil)
	if len(owned) == 0 {
		return nil
	}
	kept, err := s.cluster.Ownership.Renew(ctx, s.cluster.Node.ID, owned, s.cluster.Lease)
	if err != nil {
		return err
	}
	s.renewed = asked
	still := map[int]int64{}
	for _, k := range kept {
		still[k.Shard] = k.Epoch
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, h := range s.held {
		switch {
		case still[n] == h.epoch:
			h.until = asked.Add(s.cluster.Lease - leaseMargin)
		default:
			h.until = time.Time{}
		}
	}
	return nil
}

// owned are the shards that this node has, or those of a kind.
func (s *shards) owned(kind func(int, *holding) bool) []store.Owned {
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

// look finds out who is there, and who has what.
func (s *shards) look(ctx context.Context) error {
	me := s.cluster.Node
	me.Draining = s.leavesAll()
	nodes, err := s.cluster.Ownership.Beat(ctx, me, s.presence())
	if err != nil {
		return err
	}
	there, err := s.cluster.Ownership.ShardList(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.nodes, s.there = nodes, there
	s.mu.Unlock()
	s.looked = time.Now()
	return nil
}

// wanted is the node that is to have a shard: of those that are there and stay, the one whose hash with it is highest. So a node that
// comes or goes moves only its own share.
func wanted(nodes []store.Node, shard int) string {
	best, highest := "", uint64(0)
	for _, n := range nodes {
		if n.Draining {
			continue
		}
		sum := fnv.New64a()
		_, _ = sum.Write([]byte{byte(shard), byte(shard >> 8)})
		_, _ = sum.Write([]byte(n.ID))
		if h := mix(sum.Sum64()); best == "" || h > highest {
			best, highest = n.ID, h
		}
	}
	return best
}

// mix spreads what differs in few bits over all of them.
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// giveUp leaves what another is to have, and releases what has been left.
func (s *shards) giveUp(ctx context.Context) error {
	me := s.cluster.Node.ID
	s.leave(s.owned(func(n int, h *holding) bool {
		other := wanted(s.nodes, n)
		return h.leaving == nil && other != "" && other != me
	}))
	gone := s.owned(func(_ int, h *holding) bool { return h.leaving != nil && len(h.leaving) == 0 })
	if len(gone) == 0 {
		return nil
	}
	if err := s.cluster.Ownership.Release(ctx, me, gone); err != nil {
		return err
	}
	s.forget(gone)
	return nil
}

// forget takes out what has been released.
func (s *shards) forget(gone []store.Owned) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range gone {
		s.held[o.Shard].cut()
		delete(s.held, o.Shard)
	}
	s.looked = time.Time{} // who has what is different now
}

// take takes what is to be this node's and is free.
func (s *shards) take(ctx context.Context) error {
	me := s.cluster.Node.ID
	var free []int
	var lost []store.Owned
	s.mu.RLock()
	for _, is := range s.there {
		switch have := s.held[is.Number]; {
		case have != nil:
		case is.Owner == me:
			lost = append(lost, store.Owned{Shard: is.Number, Epoch: is.Epoch}) // it was given, and the answer was lost
		case (is.Owner == "" || is.Left <= 0) && wanted(s.nodes, is.Number) == me:
			free = append(free, is.Number)
		}
	}
	s.mu.RUnlock()
	if len(lost) > 0 {
		s.looked = time.Time{}
		return s.cluster.Ownership.Release(ctx, me, lost)
	}
	if len(free) == 0 {
		return nil
	}
	s.looked = time.Time{}
	asked := time.Now()
	got, err := s.cluster.Ownership.Acquire(ctx, me, free, s.cluster.Lease)
	if err != nil || len(got) == 0 {
		return err
	}
	return s.begin(ctx, got, asked)
}

// begin tells the core of endpoints that are this node's from now on. What the last owner has written is in the store by now.
func (s *shards) begin(ctx context.Context, got []store.Owned, asked time.Time) error {
	e := s.e
	if err := e.CatchUp(ctx); err != nil {
		return err
	}
	_, newest, err := e.store.Version(ctx)
	if err != nil {
		return err
	}
	standings, err := e.readStandings(ctx)
	if err != nil {
		return err
	}
	until := asked.Add(s.cluster.Lease - leaseMargin)
	err = e.await(context.WithoutCancel(ctx), input{ask: func(*core.Core, time.Time) {
		mine := map[int]bool{}
		s.mu.Lock()
		for _, o := range got {
			alive, cut := context.WithCancel(e.sending)
			s.held[o.Shard], mine[o.Shard] = &holding{epoch: o.Epoch, until: until, alive: alive, cut: cut}, true
		}
		s.mu.Unlock()
		conf := e.config.Load()
		for i := range conf.endpoints {
			if ep := &conf.endpoints[i]; mine[s.cluster.Ownership.ShardOf(ep.ID)] && conf.open(ep.Tenant) {
				st := standings[ep.ID]
				e.metrics.stands(&st)
				e.step(core.Configured{Endpoint: ep, Newest: newest, Standing: st})
			}
		}
	}})
	if err != nil {
		return err
	}
	e.log.Info("this node has more shards", "more", len(got), "all", len(s.owned(nil)))
	return nil
}
