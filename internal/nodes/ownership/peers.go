package ownership

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Others returns the addresses of the other live nodes.
func (s *Shards) Others() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var all []string
	for _, n := range s.nodes {
		if n.ID != s.cluster.Node.ID && n.Address != "" {
			all = append(all, n.Address)
		}
	}
	return all
}

// owner is the address of the other node that owns an endpoint; empty: no known one does.
func (s *Shards) owner(endpoint string) string {
	return s.holder(s.cluster.Ownership.ShardOf(endpoint))
}

// Leader is the address of the other node that does the work that one node does for all; empty: no
// known one does.
func (s *Shards) Leader() string { return s.holder(leading) }

// holder is the address of the other node that owns a shard; empty: no known one does.
func (s *Shards) holder(shard int) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if shard >= len(s.there) {
		return "" // before the first look
	}
	at := slices.IndexFunc(s.nodes, func(n store.Node) bool { return n.ID == s.there[shard].Owner })
	if at < 0 || s.nodes[at].ID == s.cluster.Node.ID {
		return ""
	}
	return s.nodes[at].Address
}

// Hint sends heads to the nodes that own their endpoints, and returns those of this node.
func (s *Shards) Hint(heads []store.Head) []store.Head {
	if s == nil {
		return heads
	}
	var ours []store.Head
	theirs := map[string][]store.Head{}
	for i := range heads {
		if s.Has(heads[i].Endpoint) {
			ours = append(ours, heads[i])
		} else if address := s.owner(heads[i].Endpoint); address != "" {
			theirs[address] = append(theirs[address], heads[i])
		}
	}
	for address, heads := range theirs {
		s.cluster.Peers.Hint(address, heads, nil)
	}
	return ours
}

// WakeQueues notifies the other nodes, where consumers may wait as well, that queues may have
// something due.
func (s *Shards) WakeQueues(queues []string) {
	if s == nil || len(queues) == 0 {
		return
	}
	for _, address := range s.Others() {
		s.cluster.Peers.Hint(address, nil, queues)
	}
}

// Order has the node that owns its endpoint carry an order out. While the endpoint moves from one
// node to another, which takes a few seconds, no node does: then the order waits for the new owner.
func (s *Shards) Order(ctx context.Context, o store.Order) error {
	waiting, cancel := context.WithTimeout(ctx, s.bounds.Move)
	defer cancel()
	for {
		here, address := s.Has(o.Endpoint), s.owner(o.Endpoint)
		if here {
			address = "" // the last look may have been before
		}
		err := s.orderAt(ctx, address, o)
		var is *grapnel.Error
		refused := errors.As(err, &is) && is.Code == grapnel.CodeUnavailable && is.Err == nil
		if here || !refused || !s.moved(waiting, o.Endpoint, address) {
			return err
		}
	}
}

// moved returns true once an endpoint has another owner than that at address, which may be this
// node; false if that does not happen before ctx ends.
func (s *Shards) moved(ctx context.Context, endpoint, address string) bool {
	for backoff.Wait(ctx.Done(), s.cluster.Lease/150) {
		if s.Has(endpoint) || s.owner(endpoint) != address {
			return true
		}
		select {
		case <-s.env.Over:
			return false
		default:
		}
	}
	return false
}

// orderAt sends an order to the node at address; empty: this node carries it out. The answer may
// take as long as an attempt that is in flight, so no time limits it. But the wait ends when that
// node does not own the endpoint any more: a node that stands still, or is cut off, never answers.
func (s *Shards) orderAt(ctx context.Context, address string, o store.Order) error {
	if address == "" {
		return s.env.Operate(ctx, o)
	}
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() {
		for backoff.Wait(ctx.Done(), s.cluster.Lease/15) {
			if s.owner(o.Endpoint) != address {
				cancel()
			}
		}
	})
	err := s.cluster.Peers.Order(ctx, address, o)
	if err != nil && grapnel.CodeOf(err) == "" {
		return &grapnel.Error{Code: grapnel.CodeUnavailable, RetryAfter: time.Second,
			Detail: "the node that owns the endpoint cannot be reached: try again", Err: err}
	}
	return err
}

// Healths fills in the states of endpoints that other nodes own. The state at a node that cannot be
// asked stays unknown. The nodes are asked at once, so one that does not answer takes no time from
// the others.
func (s *Shards) Healths(ids []string, all []grapnel.Health) {
	if s == nil {
		return
	}
	theirs := map[string][]int{}
	for i, id := range ids {
		if !s.Has(id) {
			if address := s.owner(id); address != "" {
				theirs[address] = append(theirs[address], i)
			}
		}
	}
	ctx, cancel := context.WithTimeout(s.env.Sending, s.bounds.AskWithin)
	defer cancel()
	var asking sync.WaitGroup
	for address, at := range theirs {
		asking.Go(func() {
			wanted := make([]string, len(at))
			for i := range at {
				wanted[i] = ids[at[i]]
			}
			found, err := s.cluster.Peers.Healths(ctx, address, wanted)
			if err != nil {
				s.unanswered("reading endpoint states from another node failed; they show as unknown", address, err)
				return
			}
			for i := range at {
				all[at[i]] = found[i]
			}
		})
	}
	asking.Wait()
}

// unanswered logs a question that another node did not answer. A stop of this node cuts off its
// questions too, and says nothing about the other one; a node that is stopping answers none.
func (s *Shards) unanswered(what, address string, err error) {
	s.mu.RLock()
	stopping := slices.ContainsFunc(s.nodes, func(n store.Node) bool { return n.Address == address && n.Draining })
	s.mu.RUnlock()
	if s.env.Sending.Err() == nil && !stopping {
		s.log.Warn(what, "node", address, "err", err)
	}
}

// Open lists the endpoints of other nodes whose circuit is open.
func (s *Shards) Open() []string {
	return elsewhere(s, "reading open circuits from another node failed; they are not listed",
		func(ctx context.Context, address string) ([]string, error) { return s.cluster.Peers.Open(ctx, address) })
}

// Consumers lists the consumers that have asked a queue at other nodes.
func (s *Shards) Consumers(queue string) []grapnel.Consumer {
	return elsewhere(s, "reading consumers from another node failed; they are not listed",
		func(ctx context.Context, address string) ([]grapnel.Consumer, error) {
			return s.cluster.Peers.Consumers(ctx, address, queue)
		})
}

// elsewhere asks all other nodes at once, and returns what they list.
func elsewhere[A any](s *Shards, failed string, ask func(ctx context.Context, address string) ([]A, error)) []A {
	if s == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.env.Sending, s.bounds.AskWithin)
	defer cancel()
	others := s.Others()
	found := make([][]A, len(others))
	var asking sync.WaitGroup
	for i, address := range others {
		asking.Go(func() {
			var err error
			if found[i], err = ask(ctx, address); err != nil {
				s.unanswered(failed, address, err)
			}
		})
	}
	asking.Wait()
	return slices.Concat(found...)
}
