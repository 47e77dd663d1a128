package client

import (
	"context"

	"github.com/grapnelhq/grapnel/wire"
)

// Cluster lists the nodes that share a server's store, and the shards that each owns.
type Cluster = wire.Cluster

// Member is one of the nodes.
type Member = wire.Member

// Cluster reads the nodes that share the server's store. It needs a key with the scope admin that
// is bound to no tenant.
func (c *Client) Cluster(ctx context.Context) (*Cluster, error) {
	return get[Cluster](ctx, c, "/v1/cluster", nil)
}
