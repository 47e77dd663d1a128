package ownership

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Confirm returns once every node has applied a change of the configuration that was just
// committed, and applied here. It asks them to. A node that does not answer, because it drains or
// cannot be reached, records in the store which version it has applied. If it does not do that
// either, it starts no attempt and answers no request once a lease has passed (Current). If it
// renewed its lease in that time, it applied the change before. A node that is stopping asks too,
// but does not wait for a lease.
func (s *Shards) Confirm(ctx context.Context) error {
	if s == nil {
		return nil
	}
	over := time.NewTimer(s.cluster.Lease)
	defer over.Stop()
	again := time.NewTicker(s.cluster.Lease / 30)
	defer again.Stop()
	version := s.env.Applied()
	for knows := map[string]bool{s.cluster.Node.ID: true}; ; {
		r := s.nextInquiry()
		select {
		case s.inquiring <- struct{}{}:
			s.inquire(ctx, r)
			<-s.inquiring
		case <-r.done:
		case <-over.C:
			return nil
		}
		maps.Copy(knows, r.know)
		if r.err == nil && !slices.ContainsFunc(r.acting, func(n store.Node) bool { return !knows[n.ID] && n.Version < version }) {
			return nil
		}
		select {
		case <-again.C:
		case <-over.C:
			return nil
		case <-s.env.Over:
			return errStopping
		}
	}
}

// nextInquiry returns the inquiry that has not begun.
func (s *Shards) nextInquiry() *inquiry {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next = &inquiry{done: make(chan struct{})}
	}
	return s.next
}

// inquire runs an inquiry, unless that was done while the caller, which holds the token of
// inquiring, waited for it. Owners and live nodes are read while the nodes are asked: a node that
// becomes an owner, or joins, after that reads the changes first (begin, round).
func (s *Shards) inquire(ctx context.Context, r *inquiry) {
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
	reading.Go(func() { r.acting, r.err = s.cluster.Ownership.Acting(ctx, s.cluster.Lease) })
	r.know = s.inform(ctx, nodes)
	reading.Wait()
	unasked := slices.DeleteFunc(slices.Clone(r.acting), func(n store.Node) bool { return s.among(nodes, n) })
	maps.Copy(r.know, s.inform(ctx, unasked))
}

// inform makes other nodes apply changes of the configuration, and returns the ids of those that
// did.
func (s *Shards) inform(ctx context.Context, nodes []store.Node) map[string]bool {
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

var errStopping = grapnel.Errorf(grapnel.CodeUnavailable, "the server is shutting down")
