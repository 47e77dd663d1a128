package engine

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Nodes are told for a while after they were seen last, so that who looks for one that is gone finds it.
const rememberNodes = time.Hour

// presence is within which time a node has to say that it is there.
func (s *shards) presence() time.Duration { return s.cluster.Lease / 2 }

// renewal is after which part of a lease it is renewed.
func (s *shards) renewal() time.Duration { return s.cluster.Lease / 3 }

// Reaches says whether this node does its part: not before it has been at the store that it shares, and not after it could not get there for
// as long as a lease lasts, because by then it has nothing any more.
func (e *Engine) Reaches() error {
	s := e.shards
	if s == nil {
		return nil
	}
	if err := e.Current(); err != nil {
		return err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.stalled != "" {
		return grapnel.Errorf(grapnel.CodeUnavailable, "loop %q of this node's engine stands still", s.stalled)
	}
	if s.reached == (moment{}) || s.now().since(s.reached) > s.cluster.Lease {
		return grapnel.Errorf(grapnel.CodeUnavailable, "this node does not reach the database that it shares with others")
	}
	return nil
}

// Current is nil while this node knows every change of the configuration that was answered
// anywhere. For a node that does not take a change in, its answer waits a lease (confirm). So a
// node that has not read the configuration for nearly a lease, because it is cut off or stood
// still, must not answer from memory: keys may have been revoked.
func (e *Engine) Current() error {
	s := e.shards
	if s == nil {
		return nil
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.current == (moment{}) || s.now().since(s.current) >= s.cluster.Lease-leaseMargin {
		return &grapnel.Error{Code: grapnel.CodeUnavailable, RetryAfter: s.cluster.Lease / 15,
			Detail: "This node cannot reach the database that it shares with others, so it does not know which keys are valid."}
	}
	return nil
}

// Join returns once this node has been Current for the first time, or when ctx ends.
func (e *Engine) Join(ctx context.Context) {
	if e.shards == nil {
		return
	}
	select {
	case <-e.shards.joined:
	case <-ctx.Done():
	}
}

// Cluster says who shares the store, as the store knows it now. Without others there is nobody to tell of.
func (e *Engine) Cluster(ctx context.Context) (grapnel.Cluster, error) {
	if e.shards == nil {
		return grapnel.Cluster{}, nil
	}
	s := e.shards
	nodes, err := s.cluster.Ownership.Nodes(ctx, rememberNodes)
	if err != nil {
		return grapnel.Cluster{}, err
	}
	there, err := s.cluster.Ownership.ShardList(ctx)
	if err != nil {
		return grapnel.Cluster{}, err
	}
	return s.overview(nodes, there), nil
}

// overview puts together who is there and who has what.
func (s *shards) overview(nodes []store.Node, there []store.Shard) grapnel.Cluster {
	c := grapnel.Cluster{Asked: s.cluster.Node.ID, Shared: true, Shards: len(there), Free: []int{}}
	var present []store.Node
	at := map[string]int{}
	for i, n := range nodes {
		m := grapnel.Member{ID: n.ID, Address: n.Address, Seen: n.Ago, State: grapnel.MemberUp}
		switch {
		case n.Ago > s.presence():
			m.State = grapnel.MemberSilent
		default:
			if n.Draining {
				m.State = grapnel.MemberDraining
			}
			present = append(present, n)
		}
		at[n.ID] = i
		c.Nodes = append(c.Nodes, m)
	}
	for _, is := range there {
		if i, known := at[wanted(present, is.Number)]; known {
			c.Nodes[i].Intended++
		}
		i, known := at[is.Owner]
		switch {
		case is.Owner == "" || is.Left <= 0:
			c.Free = append(c.Free, is.Number)
		case known:
			c.Nodes[i].Shards++
			// Two thirds of a lease are left when it is renewed; when it is half of that, a renewal has not come through.
			if is.Left < s.renewal() {
				c.Nodes[i].Lagging++
			}
		}
	}
	return c
}

// shares are the numbers of a node that shares the store.
type shares struct {
	e             *Engine
	shards, nodes *prometheus.Desc
}

// Describe says what Collect will give.
func (m shares) Describe(to chan<- *prometheus.Desc) { to <- m.shards; to <- m.nodes }

// Collect gives the numbers of now; none where the store is this node's alone.
func (m shares) Collect(to chan<- prometheus.Metric) {
	s := m.e.shards
	if s == nil {
		return
	}
	held, leaving := 0, 0
	s.mu.RLock()
	for _, h := range s.held {
		if h.leaving == nil {
			held++
		} else {
			leaving++
		}
	}
	nodes := len(s.nodes)
	s.mu.RUnlock()
	for state, n := range map[string]int{"held": held, "leaving": leaving} {
		to <- prometheus.MustNewConstMetric(m.shards, prometheus.GaugeValue, float64(n), state)
	}
	to <- prometheus.MustNewConstMetric(m.nodes, prometheus.GaugeValue, float64(nodes))
}
