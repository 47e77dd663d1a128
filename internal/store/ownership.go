package store

import (
	"context"
	"errors"
	"time"
)

// Ownership divides the endpoints among the nodes that share a store. Each endpoint is in one of
// Shards shards, by its id. A shard has at most one owner at a time, and only the owner decides
// about the pending deliveries of the shard's endpoints.
//
// A shard is owned for a lease, by the store's clock, and its epoch rises each time it is acquired.
// An owner's write carries the epoch in which it was decided (Change.Epoch, MakingDue.Epoch,
// Ending.Epoch), and the store accepts it only while that is the shard's current epoch. So nothing
// of an epoch is committed after a later one was acquired, however long its owner was asleep, and a
// new owner sees every committed write of earlier epochs.
//
// A store that only one process can open does not implement Ownership and ignores epochs.
type Ownership interface {
	// ShardOf is the shard of an endpoint, 0 to Shards-1. It never changes.
	ShardOf(endpoint string) int
	// Acquire takes those of the shards that have no owner or an expired lease, and returns them
	// with their new epochs.
	Acquire(ctx context.Context, node string, shards []int, lease time.Duration) ([]Owned, error)
	// Renew extends the node's leases to `lease` from now, and returns them. The others have
	// another owner, or none.
	Renew(ctx context.Context, node string, owned []Owned, lease time.Duration) ([]Owned, error)
	// Release gives up shards before their leases expire.
	Release(ctx context.Context, node string, owned []Owned) error
	// ShardList returns all shards in their order.
	ShardList(ctx context.Context) ([]Shard, error)
	// Acting returns the nodes that own shards by unexpired leases, and those that called Beat
	// within the time; only their ids, addresses and versions are set.
	Acting(ctx context.Context, within time.Duration) ([]Node, error)
	// Fresh returns at most limit heads of endpoints in some shards that have a due time and a row
	// id above after, by row id: deliveries that other nodes accepted. A row id is assigned before
	// it is committed, so a row may appear after one with a higher id, at most the longest
	// transaction time (30 s) later. A caller that polls passes the highest row id of 30 s ago and
	// sees some heads twice.
	Fresh(ctx context.Context, shards []int, after int64, limit int) ([]Head, error)
	// Beat records that a node is alive, and returns all nodes that did so within a time, by id.
	Beat(ctx context.Context, node Node, within time.Duration) ([]Node, error)
	// Nodes returns the same list without recording anything.
	Nodes(ctx context.Context, within time.Duration) ([]Node, error)
	// Leave deletes a node from that list.
	Leave(ctx context.Context, node string) error
	// Secret authenticates nodes to each other: any program that can read the store is a node.
	Secret(ctx context.Context) (string, error)
}

// Shards is the number of parts that the endpoints are divided into.
const Shards = 256

// Owned is a shard that the node owns, with its epoch.
type Owned struct {
	Shard int
	Epoch int64
}

// Shard is the ownership of one shard.
type Shard struct {
	Number int
	Epoch  int64         // 0: it was never owned
	Owner  string        // empty: no owner
	Left   time.Duration // of the lease; zero or below: it has expired
}

// Node is one of the processes that share a store.
type Node struct {
	ID      string // new for each start
	Address string // where the other nodes reach it
	// SHA-256 of the certificate by which it proves to the others that this row is its own, in hex
	Fingerprint string
	Draining    bool  // it is giving up its shards
	Version     int64 // of the configuration that it had applied when it called Beat
	Ago         time.Duration
}

// ErrFenced is returned by MakeDue and End if another epoch has begun. Nothing was written.
var ErrFenced = errors.New("store: another node owns the endpoint")
