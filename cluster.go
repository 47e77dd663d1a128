package grapnel

import "time"

// Cluster lists the nodes that share a store, and the shards that each owns.
type Cluster struct {
	Asked  string // id of the node that answered
	Shared bool   // false: that node does not share its store and owns everything
	Shards int    // number of parts of the endpoints
	Free   []int  // shards without an owner: nothing of their endpoints is attempted
	Nodes  []Member
}

// Member is a node.
type Member struct {
	ID       string // new at each start
	Address  string // for the other nodes
	Seen     time.Duration
	State    MemberState
	Shards   int // that it owns
	Lagging  int // of these, those overdue for renewal; they become free unless it renews them
	Intended int // that it owns once the shards are distributed
}

// MemberState is the state of a node.
type MemberState string

// The states of nodes.
const (
	MemberUp       MemberState = "up"
	MemberDraining MemberState = "draining" // it is stopping, and releases its shards
	// not seen for so long that other nodes take over its shards
	MemberSilent MemberState = "silent"
)
