package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Ownership divides the endpoints among the nodes that share a store. Each endpoint is in one of Shards, by its id, and a shard has at
// most one owner at a time, who alone decides about what waits for its endpoints.
//
// A shard is owned for a lease, by the store's clock. Each time it is acquired its epoch rises. What an owner writes says the epoch it was
// decided in (Change.Epoch, Hastening.Epoch, Ending.Epoch), and a store writes it only while that is the shard's: nothing of an epoch
// is committed after a later one was given, however long its owner was asleep, and who acquires a shard sees everything that was.
//
// A store that only one process can open has no need of this: it does not implement it, and takes no notice of epochs.
type Ownership interface {
	// ShardOf is the shard that an endpoint is in, for ever: 0 to Shards-1.
	ShardOf(endpoint string) int
	// Acquire takes those of the shards that have no owner, or whose owner's lease is over, and returns them with their new epochs.
	Acquire(ctx context.Context, node string, shards []int, lease time.Duration) ([]Owned, error)
	// Renew makes leases that the node has last for so long from now. Those that it does not return are another node's, or nobody's.
	Renew(ctx context.Context, node string, owned []Owned, lease time.Duration) ([]Owned, error)
	// Release gives shards back before their leases are over.
	Release(ctx context.Context, node string, owned []Owned) error
	// ShardList returns all shards in their order.
	ShardList(ctx context.Context) ([]Shard, error)
	// Acting returns the nodes that own shards by leases that have not ended, and those that were there within the time: by their ids
	// and addresses alone.
	Acting(ctx context.Context, within time.Duration) ([]Node, error)
	// Fresh returns heads of endpoints in some shards that have a due time and a higher number than after, by number, at most limit: what other
	// nodes have accepted. A number is given before it is committed, so one may come after a higher one, but not by more than the time that a
	// transaction may take (half a minute): who asks again asks from what was the highest that long ago, and sees some twice.
	Fresh(ctx context.Context, shards []int, after int64, limit int) ([]Head, error)
	// Beat says that a node is there, and returns all that have said so within a time, by id.
	Beat(ctx context.Context, node Node, within time.Duration) ([]Node, error)
	// Nodes returns the same without saying anything.
	Nodes(ctx context.Context, within time.Duration) ([]Node, error)
	// Leave says that a node is not there any more.
	Leave(ctx context.Context, node string) error
	// Secret is what nodes show each other to be believed: who can read the store is one of them.
	Secret(ctx context.Context) (string, error)
}

// Shards is into how many parts the endpoints are divided.
const Shards = 256

// Owned is a shard that is owned, and since which epoch.
type Owned struct {
	Shard int
	Epoch int64
}

// Shard is who owns a shard.
type Shard struct {
	Number int
	Epoch  int64         // 0: it was never owned
	Owner  string        // empty: nobody
	Left   time.Duration // until the lease is over; not above zero: it is
}

// Node is one of those that share a store.
type Node struct {
	ID       string // another one for each start
	Address  string // where the others reach it
	Draining bool   // it gives its shards away
	Ago      time.Duration
}

// ErrFenced is returned by Hasten and End when the epoch is over. Nothing was written.
var ErrFenced = errors.New("store: another node owns the endpoint")

// ErrFencedBySeal is the ErrFenced of an endpoint whose tenant is sealed. It says nothing of the epoch.
var ErrFencedBySeal = fmt.Errorf("%w, or its tenant is sealed", ErrFenced)
