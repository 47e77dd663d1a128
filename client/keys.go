package client

import (
	"context"

	"github.com/grapnelhq/grapnel/wire"
)

// The objects of keys.
type (
	NewKey = wire.NewKey // an API key to be created
	// Key is an API key. Secret is there only in the answer that creates it.
	Key       = wire.Key
	MasterKey = wire.MasterKey // the result of a rotation of the master key
)

// CreateKey creates a key. Its answer is the only one that shows the secret.
func (c *Client) CreateKey(ctx context.Context, k NewKey) (*Key, error) {
	return post[Key](ctx, c, "/v1/keys", k)
}

// Keys lists keys.
func (c *Client) Keys(ctx context.Context, f ListFilter) (*Page[Key], error) {
	return get[Page[Key]](ctx, c, "/v1/keys", f.query())
}

// RotateMasterKey wraps all data keys with the first master key of the server's --master-key.
func (c *Client) RotateMasterKey(ctx context.Context) (*MasterKey, error) {
	return post[MasterKey](ctx, c, "/v1/master-key/rotate", nil)
}

// WhoAmI returns the key of this client. Any valid key may ask.
func (c *Client) WhoAmI(ctx context.Context) (*Key, error) {
	return get[Key](ctx, c, "/v1/whoami", nil)
}

// DeleteKey revokes a key.
func (c *Client) DeleteKey(ctx context.Context, id string) error {
	return c.remove(ctx, at("/v1/keys", id), nil)
}
