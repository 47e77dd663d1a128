package engine

import (
	"context"
	"errors"
	"hash/fnv"
	"slices"
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
		s.e.work(s.keeping)
		err := s.round()
		s.keeping.rest()
		if err != nil && s.e.sending.Err() == nil {
			s.e.log.Warn("looking after shards failed; retrying", "err", err)
		}
		s.expire()
		select {
		case <-tick.C:
		case <-s.e.over:
			return
		}
	}
}

// round looks once at what there is to do. It ends before a lease does. The configuration is read
// before leases are renewed: who has a lease that was renewed after a change was made has taken
// that in. It is read after the store was told of this node: who changes it after that finds this
// node and waits for it (see confirm).
func (s *shards) round() error {
	ctx, cancel := context.WithTimeout(s.e.sending, s.patience())
	defer cancel()
	began := s.now()
	looks := s.leavesAll() || began.since(s.looked) >= s.cluster.Lease/8
	if looks {
		if err := s.look(ctx); err != nil {
			return err
		}
	}
	if err := s.e.CatchUp(ctx); err != nil {
		return err
	}
	if looks {
		s.caughtUp(began)
	}
	if err := s.renew(ctx); err != nil {
		return err
	}
	if err := errors.Join(s.giveUp(ctx), s.take(ctx)); err != nil {
		return err
	}
	s.mu.Lock()
	s.reached = s.now()
	s.mu.Unlock()
	return nil
}

// caughtUp notes since when this node has known the configuration of then.
func (s *shards) caughtUp(began moment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == (moment{}) {
		close(s.joined)
	}
	s.current = began
}

// leavesAll says whether the node is to have no shards, because it is about to stop or a loop of it stands still.
func (s *shards) leavesAll() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.draining || s.stalled != ""
}

// standsStill says whether a loop does.
func (s *shards) standsStill() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.stalled != ""
}

// patience is how long a round may take.
func (s *shards) patience() time.Duration {
	s.mu.RLock()
	defer s.mu.RUnlock()
	least := s.cluster.Lease / 3
	for _, h := range s.held {
		if h.alive.Err() == nil {
			least = min(least, s.now().left(h.until))
		}
	}
	return max(least, time.Millisecond)
}

// renew makes the leases last.
func (s *shards) renew(ctx context.Context) error {
	asked := s.now()
	if s.standsStill() || asked.since(s.renewed) < s.renewal() {
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
			h.until = asked.add(s.cluster.Lease - leaseMargin)
		default:
			h.until = moment{}
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
	before := s.nodes
	s.nodes, s.there = nodes, there
	s.mu.Unlock()
	s.compare(before, nodes)
	s.looked = s.now()
	return nil
}

// compare logs which other nodes have come and gone between two looks.
func (s *shards) compare(before, now []store.Node) {
	among := func(nodes []store.Node, id string) bool {
		return id == s.cluster.Node.ID || slices.ContainsFunc(nodes, func(n store.Node) bool { return n.ID == id })
	}
	for _, n := range now {
		if !among(before, n.ID) {
			s.e.log.Info("node joined", "node", n.ID, "address", n.Address)
		}
	}
	for _, n := range before {
		switch {
		case among(now, n.ID):
		case n.Draining:
			s.e.log.Info("node left", "node", n.ID, "address", n.Address)
		default:
			s.e.log.Warn("node lost; its shards are taken when their leases end", "node", n.ID, "address", n.Address)
		}
	}
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
	s.e.log.Info("shards released", "released", len(gone), "held", s.share())
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
	s.looked = moment{} // who has what is different now
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
		s.looked = moment{}
		return s.cluster.Ownership.Release(ctx, me, lost)
	}
	if len(free) == 0 {
		return nil
	}
	s.looked = moment{}
	asked := s.now()
	got, err := s.cluster.Ownership.Acquire(ctx, me, free, s.cluster.Lease)
	if err != nil || len(got) == 0 {
		return err
	}
	return s.begin(ctx, got, asked)
}

// begin tells the core of endpoints that are this node's from now on. What the last owner has written is in the store by now.
func (s *shards) begin(ctx context.Context, got []store.Owned, asked moment) error {
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
	until := asked.add(s.cluster.Lease - leaseMargin)
	err = e.await(context.WithoutCancel(ctx), input{ask: func(*core.Core, time.Time) {
		mine := map[int]bool{}
		s.mu.Lock()
		for _, o := range got {
			alive, cut := context.WithCancel(e.sending)
			s.held[o.Shard], mine[o.Shard] = &holding{epoch: o.Epoch, until: until, alive: alive, cut: cut}, true
		}
		s.mu.Unlock()
		conf := e.config.Load()
		for _, ep := range conf.endpoints {
			if mine[s.cluster.Ownership.ShardOf(ep.ID)] && conf.open(ep.Tenant) {
				st := standings[ep.ID]
				e.metrics.stands(&st)
				e.step(core.Configured{Endpoint: &ep.Endpoint, Newest: newest, Standing: st})
			}
		}
	}})
	if err != nil {
		return err
	}
	e.log.Info("shards taken", "taken", len(got), "held", s.share())
	return nil
}
