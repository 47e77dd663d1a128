package ownership

import (
	"cmp"
	"slices"

	"github.com/grapnelhq/grapnel/internal/store"
)

// Lost is a node that was live, has not stopped, and is silent, as of the last look.
type Lost struct {
	store.Node
	Speaks bool // of the nodes that know of it this one tells people
}

// Lost lists the lost nodes. One that no other has replaced within an hour is no longer among them.
// The nodes that were live when it was lost know of it; of those that still are, the one speaks
// that would lead. So the nodes agree as long as they see the same nodes.
func (s *Shards) Lost() (all []Lost) {
	if s == nil {
		return nil
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, m := range s.missing {
		var know []store.Node
		for _, n := range s.nodes {
			if slices.ContainsFunc(m.knows, func(k store.Node) bool { return k.ID == n.ID }) {
				know = append(know, n)
			}
		}
		all = append(all, Lost{m.Node, wanted(know, 0) == s.cluster.Node.ID})
	}
	return all
}

// Leaderless says whether at the last look no node led, and this one should.
func (s *Shards) Leaderless() bool {
	if s == nil {
		return false
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.there) > 0 && wanted(s.nodes, 0) == s.cluster.Node.ID && (s.there[0].Owner == "" || s.there[0].Left <= 0)
}

// Stalled is the loop of this node's engine that stands still; empty: none.
func (s *Shards) Stalled() string {
	if s == nil {
		return ""
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.stalled
}

// Address is where the other nodes reach this one; empty: there are none.
func (s *Shards) Address() string {
	if s == nil {
		return ""
	}
	return cmp.Or(s.cluster.Node.Address, s.cluster.Node.ID)
}
