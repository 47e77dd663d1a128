package client

import (
	"context"
	"net/url"

	"github.com/grapnelhq/grapnel/wire"
)

// NewErasure selects events to erase.
type NewErasure = wire.NewErasure

// Erasure is a job that erases.
type Erasure = wire.Erasure

// CreateErasure begins to erase the content of a tenant's events. The job is durable when this
// returns. It needs a key with the scope admin that is bound to no tenant, as the others do.
func (c *Client) CreateErasure(ctx context.Context, e NewErasure) (*Erasure, error) {
	return post[Erasure](ctx, c, "/v1/erasures", e)
}

// Erasure returns an erasure: how far it is, and what may remain.
func (c *Client) Erasure(ctx context.Context, id string) (*Erasure, error) {
	return get[Erasure](ctx, c, "/v1/erasures/"+url.PathEscape(id), nil)
}

// Erasures lists erasures, the newest first.
func (c *Client) Erasures(ctx context.Context, limit int, cursor string) (*Page[Erasure], error) {
	return get[Page[Erasure]](ctx, c, "/v1/erasures", window(limit, cursor))
}
