package ownership

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Reaches returns an error while this node does not do its part: before it has reached the shared
// store, and after it could not reach it for the length of a lease, because by then it owns
// nothing.
func (s *Shards) Reaches() error {
	if s == nil {
		return nil
	}
	if err := s.Current(); err != nil {
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

// Current is nil while this node knows every change of the configuration that was answered on any
// node. The answer to a change waits at most a lease for a node that does not apply it (Confirm).
// So a node that has not read the configuration for nearly a lease, because it is cut off or stood
// still, must not answer from memory: keys may have been revoked.
func (s *Shards) Current() error {
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
func (s *Shards) Join(ctx context.Context) {
	if s == nil {
		return
	}
	select {
	case <-s.joined:
	case <-ctx.Done():
	}
}

// Cluster returns the nodes that share the store, as recorded there; the zero Cluster if this node
// is alone.
func (s *Shards) Cluster(ctx context.Context) (grapnel.Cluster, error) {
	if s == nil {
		return grapnel.Cluster{}, nil
	}
	nodes, err := s.cluster.Ownership.Nodes(ctx, s.bounds.Remember)
	if err != nil {
		return grapnel.Cluster{}, err
	}
	there, err := s.cluster.Ownership.ShardList(ctx)
	if err != nil {
		return grapnel.Cluster{}, err
	}
	return s.overview(nodes, there), nil
}

// overview combines the nodes with the owners of the shards.
func (s *Shards) overview(nodes []store.Node, there []store.Shard) grapnel.Cluster {
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
			// A lease is renewed when two thirds of it are left. Below one third, a renewal has
			// failed.
			if is.Left < s.renewal() {
				c.Nodes[i].Lagging++
			}
		}
	}
	return c
}

var (
	heldDesc = prometheus.NewDesc("grapnel_shards", "Shards that this node owns, held or being released.", []string{"state"}, nil)
	lostDesc = prometheus.NewDesc("grapnel_shards_lost_total",
		"Shards that this node lost: their lease expired, or another node had taken them.", nil, nil)
	nodesDesc = prometheus.NewDesc("grapnel_nodes", "Live nodes as this node sees them, itself included.", nil, nil)
)

// Describe sends the descriptions of the metrics.
func (s *Shards) Describe(to chan<- *prometheus.Desc) {
	to <- heldDesc
	to <- lostDesc
	to <- nodesDesc
}

// Collect sends the current values. A node that is alone cannot lose a shard.
func (s *Shards) Collect(to chan<- prometheus.Metric) {
	if s == nil {
		to <- prometheus.MustNewConstMetric(lostDesc, prometheus.CounterValue, 0)
		return
	}
	to <- prometheus.MustNewConstMetric(lostDesc, prometheus.CounterValue, float64(s.lost.Load()))
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
		to <- prometheus.MustNewConstMetric(heldDesc, prometheus.GaugeValue, float64(n), state)
	}
	to <- prometheus.MustNewConstMetric(nodesDesc, prometheus.GaugeValue, float64(nodes))
}
