package client

import (
	"context"
	"time"

	"github.com/grapnelhq/grapnel/wire"
)

// The objects of sources.
type (
	// NewSource is a source to be created. Name and Verify.Scheme are required; the server has
	// defaults for the others.
	NewSource = wire.NewSource
	NewOutbox = wire.OutboxSettings // says where a producer's outbox is
	NewVerify = wire.VerifySettings // says how a source verifies
	NewDedupe = wire.DedupeSettings // has the settings by which a source recognises duplicates
	Source    = wire.Source         // where the webhooks of one provider come in
	Outbox    = wire.Outbox         // how the relay of a source's outbox is doing
	Verify    = wire.Verify         // how a source verifies, without its secrets
	Dedupe    = wire.Dedupe         // has the settings by which a source recognises duplicates
	Provider  = wire.Provider       // describes the provider of a scheme
	// Refusals are the requests that a source refused, at the node that answered, since its start.
	Refusals     = wire.Refusals
	Released     = wire.Released // says what became of the requests that waited for a source's secret
	SourceFilter = ListFilter    // selects sources; the zero value selects all
)

// CreateSource creates a source.
func (c *Client) CreateSource(ctx context.Context, s NewSource) (*Source, error) {
	return post[Source](ctx, c, "/v1/sources", s)
}

// Source returns a source.
func (c *Client) Source(ctx context.Context, id string) (*Source, error) {
	return get[Source](ctx, c, at("/v1/sources", id), nil)
}

// Sources lists sources.
func (c *Client) Sources(ctx context.Context, f SourceFilter) (*Page[Source], error) {
	return get[Page[Source]](ctx, c, "/v1/sources", f.query())
}

// UpdateSource changes the fields given, by JSON merge patch: a nil value removes one. Secrets stay
// unless some are given.
func (c *Client) UpdateSource(ctx context.Context, id string, changes map[string]any) (*Source, error) {
	return patch[Source](ctx, c, at("/v1/sources", id), nil, changes)
}

// RotateSourceSecret gives a source the provider's new secret. If it has waited for one, the
// requests that the secret verifies become events, and Released of the answer counts them. Earlier
// ones stay valid for overlap; 0: the server's default, negative: they end at once.
func (c *Client) RotateSourceSecret(ctx context.Context, id, secret string, overlap time.Duration) (*Source, error) {
	in := map[string]any{"secret": secret}
	if overlap != 0 {
		in["overlap"] = lasting(overlap)
	}
	return post[Source](ctx, c, at("/v1/sources", id, "rotate-secret"), in)
}

// DeleteSource deletes a source; its messages stay. The reason is for the audit.
func (c *Client) DeleteSource(ctx context.Context, id, reason string) error {
	return c.remove(ctx, at("/v1/sources", id), why(reason))
}
