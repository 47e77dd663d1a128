package grapnel

import "time"

// Cluster lists the nodes that share a store, and the shards that each owns.
type Cluster struct {
	Asked  string // id of the node that answered
	Shared bool   // false: that node does not share its store and owns everything
	Shards int    // parts that the endpoints are divided into
	Free   []int  // shards without an owner: nothing of their endpoints is attempted
	Nodes  []Member
}

// Member is a node.
type Member struct {
	ID       string // another one for each start
	Address  string // where the others reach it
	Seen     time.Duration
	State    MemberState
	Shards   int // that it has
	Lagging  int // of these, that it should have renewed already: they are free soon unless it does
	Intended int // that it has once all has settled
}

// MemberState is how a node is doing.
type MemberState string

// The states of nodes.
const (
	MemberUp       MemberState = "up"
	MemberDraining MemberState = "draining" // it is about to stop, and gives its shards away
	// not seen for so long that other nodes take over its shards
	MemberSilent MemberState = "silent"
)
