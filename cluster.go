package grapnel

import "time"

// Cluster is who shares a store, and who decides about what.
type Cluster struct {
	Asked  string // id of the node that says so
	Shared bool   // false: the store is that node's alone, and so is everything in it
	Shards int    // parts that the endpoints are divided into
	Free   []int  // shards that no node has: nothing of their endpoints is attempted
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
	MemberSilent   MemberState = "silent"   // it has not been heard of for so long that others take what it had
)
