package client

import (
	"context"

	"github.com/grapnelhq/grapnel/wire"
)

// The objects of channels.
type (
	// NewChannel has the settings of a channel to create. Only URL is required; the server has
	// defaults for the others.
	NewChannel = wire.NewChannel
	// Channel is an endpoint that alerts go to, in a service for people. Its URL is masked.
	Channel       = wire.Channel
	ChannelFilter = ListFilter // selects channels; the zero value selects all
)

// CreateChannel creates a channel.
func (c *Client) CreateChannel(ctx context.Context, ch NewChannel) (*Channel, error) {
	return post[Channel](ctx, c, "/v1/channels", ch)
}

// Channel returns a channel.
func (c *Client) Channel(ctx context.Context, id string) (*Channel, error) {
	return get[Channel](ctx, c, at("/v1/channels", id), nil)
}

// Channels lists channels.
func (c *Client) Channels(ctx context.Context, f ChannelFilter) (*Page[Channel], error) {
	return get[Page[Channel]](ctx, c, "/v1/channels", f.query())
}

// UpdateChannel changes the fields given, by JSON merge patch: a nil value removes one. The reason
// is for the audit, here and below.
func (c *Client) UpdateChannel(ctx context.Context, id, reason string, changes map[string]any) (*Channel, error) {
	return patch[Channel](ctx, c, at("/v1/channels", id), why(reason), changes)
}

// TestChannel sends a channel an alert of its own, and returns its delivery.
func (c *Client) TestChannel(ctx context.Context, id string) (*Delivery, error) {
	return post[Delivery](ctx, c, at("/v1/channels", id, "test"), nil)
}

// DeleteChannel deletes a channel and drops its pending alerts.
func (c *Client) DeleteChannel(ctx context.Context, id, reason string) error {
	return c.remove(ctx, at("/v1/channels", id), why(reason))
}
