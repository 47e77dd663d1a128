package engine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/core"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Peers are the other nodes, by their addresses. What is asked of one that cannot be reached fails; a hint is then lost.
type Peers interface {
	Hint(address string, heads []store.Head, queues []string) // must not wait
	Order(ctx context.Context, address string, o core.Operated) error
	Healths(ctx context.Context, address string, ids []string) ([]grapnel.Health, error)
	Open(ctx context.Context, address string) ([]string, error)
	CatchUp(ctx context.Context, address string) error
	Quiet(ctx context.Context, address, tenant string) (bool, error)
}

// others are the addresses of the nodes that are there, but this one.
func (s *shards) others() []string {
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

// owner is where the node is that decides about an endpoint; empty: nobody that is known does.
func (s *shards) owner(endpoint string) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	shard := s.cluster.Ownership.ShardOf(endpoint)
	if shard >= len(s.there) {
		return "" // nobody has looked yet
	}
	at := slices.IndexFunc(s.nodes, func(n store.Node) bool { return n.ID == s.there[shard].Owner })
	if at < 0 || s.nodes[at].ID == s.cluster.Node.ID {
		return ""
	}
	return s.nodes[at].Address
}

// hint tells other nodes of heads that are theirs, and returns those that are ours.
func (s *shards) hint(heads []store.Head) []store.Head {
	var ours []store.Head
	theirs := map[string][]store.Head{}
	for i := range heads {
		if s.has(heads[i].Endpoint) {
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

// rouse tells the other nodes, where consumers may wait as well, that queues may have something due.
func (s *shards) rouse(queues []string) {
	if len(queues) == 0 {
		return
	}
	for _, address := range s.others() {
		s.cluster.Peers.Hint(address, nil, queues)
	}
}

// Hinted takes hints from another node in.
func (e *Engine) Hinted(heads []store.Head, queues []string) {
	e.rouse(queues)
	if len(heads) > 0 {
		e.send(core.Arrived{Heads: heads})
	}
}

// Operate carries an order of a person out, if this node decides about its endpoint.
func (e *Engine) Operate(ctx context.Context, o core.Operated) error {
	if !e.shards.has(o.Endpoint) {
		return grapnel.Errorf(grapnel.CodeUnavailable, "endpoint %s is on its way from one node to another: try again", o.Endpoint)
	}
	return e.operate(ctx, o)
}

// order has the owner of an order's endpoint carry it out.
func (s *shards) order(ctx context.Context, o core.Operated) error {
	address := s.owner(o.Endpoint)
	if address == "" {
		return s.e.Operate(ctx, o)
	}
	err := s.cluster.Peers.Order(ctx, address, o)
	if err != nil && grapnel.CodeOf(err) == "" {
		return &grapnel.Error{Code: grapnel.CodeUnavailable, Detail: "the node that has the endpoint cannot be reached: try again", Err: err}
	}
	return err
}

// OwnHealths is Healths as far as this node knows.
func (e *Engine) OwnHealths(ids []string) []grapnel.Health {
	all := make([]grapnel.Health, len(ids))
	asked := input{ask: func(c *core.Core, now time.Time) {
		for i, id := range ids {
			all[i] = c.Health(now, id)
		}
	}}
	if e.await(context.Background(), asked) != nil {
		return make([]grapnel.Health, len(ids))
	}
	return all
}

// healths fills in what other nodes know. What cannot be asked stays unknown.
func (s *shards) healths(ids []string, all []grapnel.Health) {
	theirs := map[string][]int{}
	for i, id := range ids {
		if !s.has(id) {
			if address := s.owner(id); address != "" {
				theirs[address] = append(theirs[address], i)
			}
		}
	}
	ctx, cancel := context.WithTimeout(s.e.sending, s.bounds.AskWithin)
	defer cancel()
	for address, at := range theirs {
		wanted := make([]string, len(at))
		for i := range at {
			wanted[i] = ids[at[i]]
		}
		found, err := s.cluster.Peers.Healths(ctx, address, wanted)
		if err != nil {
			s.e.log.Warn("another node cannot be asked how its endpoints are doing", "node", address, "error", err)
			continue
		}
		for i := range at {
			all[at[i]] = found[i]
		}
	}
}

// OwnOpen lists the endpoints of this node whose breaker is open.
func (e *Engine) OwnOpen() (ids []string) {
	// Without an answer the engine does not run, and nothing is attempted at all.
	_ = e.await(context.Background(), input{ask: func(c *core.Core, _ time.Time) { ids = c.Open() }})
	return ids
}

// open lists those of other nodes.
func (s *shards) open() (ids []string) {
	ctx, cancel := context.WithTimeout(s.e.sending, s.bounds.AskWithin)
	defer cancel()
	for _, address := range s.others() {
		found, err := s.cluster.Peers.Open(ctx, address)
		if err != nil {
			s.e.log.Warn("another node cannot be asked which of its endpoints are left alone", "node", address, "error", err)
		}
		ids = append(ids, found...)
	}
	return ids
}

// confirm returns once every node knows of a change of the configuration that was just made: they
// are asked to take it in. From a node that does not answer nothing starts, and it answers nobody,
// once a lease is over (Current); and if it has renewed that since, it has taken the change in
// before.
func (s *shards) confirm(ctx context.Context) error {
	over := time.NewTimer(s.cluster.Lease)
	defer over.Stop()
	again := time.NewTicker(s.cluster.Lease / 30)
	defer again.Stop()
	for knows := map[string]bool{s.cluster.Node.ID: true}; ; {
		r := s.nextInquiry()
		select {
		case s.inquiring <- struct{}{}:
			s.inquire(ctx, r)
			<-s.inquiring
		case <-r.done:
		case <-over.C:
			return nil
		case <-s.e.over:
			return errStopping
		}
		maps.Copy(knows, r.know)
		if r.err == nil && !slices.ContainsFunc(r.owners, func(node string) bool { return !knows[node] }) {
			return nil
		}
		select {
		case <-again.C:
		case <-over.C:
			return nil
		case <-s.e.over:
			return errStopping
		}
	}
}

// inquiry is one question to all other nodes, for every change that waits for it. It begins after they were committed, because a change joins
// the inquiry that has not begun (nextInquiry); so whoever answers it knows them all.
type inquiry struct {
	done   chan struct{}   // closed when the rest is there
	know   map[string]bool // nodes that have answered
	owners []string        // nodes that own shards or were there within a lease, read after the inquiry began
	err    error           // of reading owners
}

// nextInquiry is the one that has not begun.
func (s *shards) nextInquiry() *inquiry {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next = &inquiry{done: make(chan struct{})}
	}
	return s.next
}

// inquire carries an inquiry out, unless that was done while the caller, who holds the only place in inquiring, waited for it. Who owns shards
// or is there is read while the nodes are asked: who becomes an owner, or joins, after that takes the changes in first (begin, round).
func (s *shards) inquire(ctx context.Context, r *inquiry) {
	s.mu.Lock()
	if s.next != r {
		s.mu.Unlock()
		return
	}
	s.next = nil
	nodes := slices.Clone(s.nodes)
	s.mu.Unlock()
	defer close(r.done)
	var reading sync.WaitGroup
	var there []store.Node
	reading.Go(func() {
		var err error
		there, err = s.cluster.Ownership.Nodes(ctx, s.cluster.Lease)
		r.owners, r.err = s.cluster.Ownership.Owners(ctx)
		r.err = errors.Join(err, r.err)
	})
	r.know = s.inform(ctx, nodes)
	reading.Wait()
	for _, n := range there {
		r.owners = append(r.owners, n.ID)
	}
	unasked := slices.DeleteFunc(there, func(n store.Node) bool {
		return slices.ContainsFunc(nodes, func(m store.Node) bool { return m.ID == n.ID })
	})
	maps.Copy(r.know, s.inform(ctx, unasked))
}

// inform has the other nodes take changes of the configuration in, and returns those that have.
func (s *shards) inform(ctx context.Context, nodes []store.Node) map[string]bool {
	ctx, cancel := context.WithTimeout(ctx, s.bounds.AskWithin)
	defer cancel()
	answers := make(chan string, len(nodes))
	for _, n := range nodes {
		go func() {
			if n.ID == s.cluster.Node.ID || s.cluster.Peers.CatchUp(ctx, n.Address) == nil {
				answers <- n.ID
			} else {
				answers <- ""
			}
		}()
	}
	know := map[string]bool{}
	for range nodes {
		know[<-answers] = true
	}
	return know
}

// quiet says whether on no other node anything of a tenant is under way.
func (s *shards) quiet(ctx context.Context, tenant string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, s.bounds.AskWithin)
	defer cancel()
	for _, address := range s.others() {
		if quiet, err := s.cluster.Peers.Quiet(ctx, address, tenant); err != nil || !quiet {
			return false, err
		}
	}
	return true, nil
}
