package client

import (
	"context"

	"github.com/grapnelhq/grapnel/wire"
)

// The objects of erasures.
type (
	NewErasure = wire.NewErasure // selects events to erase
	Erasure    = wire.Erasure    // a job that erases
)

// CreateErasure begins to erase the content of a tenant's events. The job is durable when this
// returns. It needs a key with the scope admin that is bound to no tenant, as the others do.
func (c *Client) CreateErasure(ctx context.Context, e NewErasure) (*Erasure, error) {
	return post[Erasure](ctx, c, "/v1/erasures", e)
}

// Erasure returns an erasure: how far it is, and what may remain.
func (c *Client) Erasure(ctx context.Context, id string) (*Erasure, error) {
	return get[Erasure](ctx, c, at("/v1/erasures", id), nil)
}

// Erasures lists erasures, the newest first.
func (c *Client) Erasures(ctx context.Context, limit int, cursor string) (*Page[Erasure], error) {
	return get[Page[Erasure]](ctx, c, "/v1/erasures", window(limit, cursor))
}
