package client

import (
	"context"

	"github.com/grapnelhq/grapnel/wire"
)

// The objects of a cluster, which may be one node.
type (
	Cluster  = wire.Cluster  // lists the nodes that share a server's store, and the shards that each owns
	Member   = wire.Member   // one of the nodes
	Settings = wire.Settings // the settings that a server runs with
	Setting  = wire.Setting  // one of them
)

// Cluster reads the nodes that share the server's store. It needs a key with the scope admin that
// is bound to no tenant.
func (c *Client) Cluster(ctx context.Context) (*Cluster, error) {
	return get[Cluster](ctx, c, "/v1/cluster", nil)
}

// Settings reads the settings that the server runs with, without secrets. It needs a key with the
// scope admin that is bound to no tenant.
func (c *Client) Settings(ctx context.Context) (*Settings, error) {
	return get[Settings](ctx, c, "/v1/settings", nil)
}
