package ownership

import (
	"context"
	"errors"
	"hash/fnv"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/store"
)

// keep takes, renews and releases shards until the engine stops. A node that drains takes no
// requests, so changes of other nodes wait for its row (Confirm): its rounds follow more quickly.
func (s *Shards) keep() {
	defer close(s.done)
	drains := s.drains
	tick := time.NewTicker(s.cluster.Lease / 15)
	defer tick.Stop()
	for failures := 0; ; {
		s.keeping.Work()
		err := s.round()
		s.keeping.Rest()
		if err == nil {
			failures = 0
		} else if failures++; backoff.Tells(failures) && s.env.Sending.Err() == nil {
			s.log.Warn("taking, renewing or releasing shards failed; retrying", "failures", failures, "err", err)
		}
		s.expire()
		select {
		case <-tick.C:
		case <-drains:
			drains = nil
			tick.Reset(s.cluster.Lease / 60)
		case <-s.env.Over:
			return
		}
	}
}

// round does one pass of taking, renewing and releasing. It ends before a lease does. The
// configuration is read before leases are renewed: so a node whose lease was renewed after a change
// has applied that change. It is read after the store has this node's row: so a later change finds
// this node and waits for it (see Confirm).
func (s *Shards) round() error {
	ctx, cancel := context.WithTimeout(s.env.Sending, s.patience())
	defer cancel()
	began := s.now()
	looks := s.leavesAll() || began.since(s.looked) >= s.cluster.Lease/8
	if looks {
		if err := s.look(ctx); err != nil {
			return err
		}
	}
	if err := s.env.CatchUp(ctx); err != nil {
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

// caughtUp records that this node has known the configuration of the moment began.
func (s *Shards) caughtUp(began moment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == (moment{}) {
		close(s.joined)
	}
	s.current = began
}

// leavesAll says whether the node should own no shards, because it stops or one of its loops is
// stalled.
func (s *Shards) leavesAll() bool {
	select {
	case <-s.drains:
		return true
	default:
		return s.standsStill()
	}
}

// patience is the time limit of a round.
func (s *Shards) patience() time.Duration {
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

// renew extends the leases.
func (s *Shards) renew(ctx context.Context) error {
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
		h.until = moment{}
		if still[n] == h.epoch {
			h.until = asked.add(s.cluster.Lease - leaseMargin)
		}
	}
	return nil
}

// look reads the live nodes and the owners of all shards.
func (s *Shards) look(ctx context.Context) error {
	me := s.cluster.Node
	me.Draining, me.Version = s.leavesAll(), s.env.Applied()
	nodes, err := s.cluster.Ownership.Beat(ctx, me, s.presence())
	if err != nil {
		return err
	}
	there, err := s.cluster.Ownership.ShardList(ctx)
	if err != nil {
		return err
	}
	if err := s.compare(ctx, s.nodes, nodes); err != nil {
		return err
	}
	s.mu.Lock()
	s.nodes, s.there = nodes, there
	s.mu.Unlock()
	s.looked = s.now()
	return nil
}

// compare logs the nodes that joined or left between two looks. A node that stops deletes its row.
// A quick stop ends before any look has seen the node draining.
func (s *Shards) compare(ctx context.Context, before, now []store.Node) (err error) {
	var silent []store.Node
	if slices.ContainsFunc(before, func(n store.Node) bool { return !s.among(now, n) }) {
		if silent, err = s.cluster.Ownership.Nodes(ctx, s.bounds.Remember); err != nil {
			return err
		}
	}
	lost := slices.Clone(s.missing)
	for _, n := range now {
		if !s.among(before, n) {
			s.log.Info("node joined", "node", n.ID, "address", n.Address)
			lost = found(lost, n)
		}
	}
	for _, n := range before {
		switch {
		case s.among(now, n):
		case n.Draining || !s.among(silent, n):
			s.log.Info("node left", "node", n.ID, "address", n.Address)
		default:
			s.log.Warn("node lost; its shards are taken when their leases end", "node", n.ID, "address", n.Address)
			lost = append(lost, missing{n, s.now(), now})
		}
	}
	lost = slices.DeleteFunc(lost, func(m missing) bool { return s.now().since(m.since) >= s.bounds.Remember })
	s.mu.Lock()
	s.missing = lost
	s.mu.Unlock()
	return nil
}

// found removes the lost node that a joining node is or replaces: the same, else the one at the
// same address, else the one lost first. Where addresses change with each start, a new node takes
// the place of a lost one.
func found(lost []missing, joined store.Node) []missing {
	for _, is := range []func(missing) bool{
		func(m missing) bool { return m.ID == joined.ID },
		func(m missing) bool { return m.Address == joined.Address },
		func(missing) bool { return true },
	} {
		if i := slices.IndexFunc(lost, is); i >= 0 {
			return slices.Delete(lost, i, i+1)
		}
	}
	return lost
}

// among says whether a node is one of some nodes, or this one.
func (s *Shards) among(nodes []store.Node, is store.Node) bool {
	return is.ID == s.cluster.Node.ID || slices.ContainsFunc(nodes, func(n store.Node) bool { return n.ID == is.ID })
}

// wanted is the node that should own a shard: of the live nodes that are not draining, the one
// whose hash with it is highest. So a node that joins or leaves moves only its own shards.
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

// mix spreads a difference in few bits over all of them.
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// giveUp begins to release shards that another node should own, and releases those that the core
// has left.
func (s *Shards) giveUp(ctx context.Context) error {
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
	s.log.Info("shards released", "released", len(gone), "held", s.Share())
	return nil
}

// forget removes released shards.
func (s *Shards) forget(gone []store.Owned) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range gone {
		s.held[o.Shard].cut()
		delete(s.held, o.Shard)
	}
	s.looked = moment{} // owners have changed
}

// take acquires unowned shards that this node should own.
func (s *Shards) take(ctx context.Context) error {
	me := s.cluster.Node.ID
	var free []int
	var lost []store.Owned
	s.mu.RLock()
	for _, is := range s.there {
		switch have := s.held[is.Number]; {
		case have != nil:
		case is.Owner == me:
			// acquired, and the answer was lost
			lost = append(lost, store.Owned{Shard: is.Number, Epoch: is.Epoch})
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

// begin configures in the core the endpoints of acquired shards. The writes of the last owner are
// in the store by now.
func (s *Shards) begin(ctx context.Context, got []store.Owned, asked moment) error {
	if err := s.env.CatchUp(ctx); err != nil {
		return err
	}
	newest, err := s.env.Newest(ctx)
	if err != nil {
		return err
	}
	standings, err := s.env.Standings(ctx)
	if err != nil {
		return err
	}
	until := asked.add(s.cluster.Lease - leaseMargin)
	err = s.env.Between(context.WithoutCancel(ctx), func() {
		mine := map[int]bool{}
		s.mu.Lock()
		for _, o := range got {
			alive, cut := context.WithCancel(s.env.Sending)
			s.held[o.Shard], mine[o.Shard] = &holding{epoch: o.Epoch, until: until, alive: alive, cut: cut}, true
		}
		s.mu.Unlock()
		for ep := range s.env.Endpoints() {
			if mine[s.cluster.Ownership.ShardOf(ep.ID)] {
				s.env.Configure(ep, newest, standings[ep.ID])
			}
		}
	})
	if err != nil {
		return err
	}
	s.log.Info("shards taken", "taken", len(got), "held", s.Share())
	return nil
}
