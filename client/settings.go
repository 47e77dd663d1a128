package client

import (
	"context"

	"github.com/grapnelhq/grapnel/wire"
)

// Settings are the settings that a server runs with.
type Settings = wire.Settings

// Setting is one of them.
type Setting = wire.Setting

// Settings reads the settings that the server runs with, without secrets. It needs a key with the
// scope admin that is bound to no tenant.
func (c *Client) Settings(ctx context.Context) (*Settings, error) {
	return get[Settings](ctx, c, "/v1/settings", nil)
}
