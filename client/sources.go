package client

import (
	"context"
	"net/url"
	"time"

	"github.com/grapnelhq/grapnel/wire"
)

// NewSource is a source to be created. Name and Verify.Scheme are required; the server has defaults
// for the others.
type NewSource = wire.NewSource

// NewOutbox says where a producer's outbox is.
type NewOutbox = wire.OutboxSettings

// NewVerify says how a source verifies.
type NewVerify = wire.VerifySettings

// NewDedupe has the settings by which a source recognises duplicates.
type NewDedupe = wire.DedupeSettings

// Source is where the webhooks of one provider come in.
type Source = wire.Source

// Outbox is how the relay of a source's outbox is doing.
type Outbox = wire.Outbox

// Verify is how a source verifies, without its secrets.
type Verify = wire.Verify

// Dedupe has the settings by which a source recognises duplicates.
type Dedupe = wire.Dedupe

// Provider describes the provider of a scheme.
type Provider = wire.Provider

// Refusals are the requests that a source refused, at the node that answered, since its start.
type Refusals = wire.Refusals

// Released says what became of the requests that waited for a source's secret.
type Released = wire.Released

// SourceFilter selects sources; the zero value selects all.
type SourceFilter = ListFilter

// CreateSource creates a source.
func (c *Client) CreateSource(ctx context.Context, s NewSource) (*Source, error) {
	return post[Source](ctx, c, "/v1/sources", s)
}

// Source returns a source.
func (c *Client) Source(ctx context.Context, id string) (*Source, error) {
	return get[Source](ctx, c, sourcePath(id), nil)
}

// Sources lists sources.
func (c *Client) Sources(ctx context.Context, f SourceFilter) (*Page[Source], error) {
	return get[Page[Source]](ctx, c, "/v1/sources", f.query())
}

// UpdateSource changes the fields given, by JSON merge patch: a nil value removes one. Secrets stay
// unless some are given.
func (c *Client) UpdateSource(ctx context.Context, id string, changes map[string]any) (*Source, error) {
	return patch[Source](ctx, c, sourcePath(id), nil, changes)
}

// RotateSourceSecret gives a source the provider's new secret. If it has waited for one, the
// requests that the secret verifies become events, and Released of the answer counts them. Earlier
// ones stay valid for overlap; 0: the server's default, negative: they end at once.
func (c *Client) RotateSourceSecret(ctx context.Context, id, secret string, overlap time.Duration) (*Source, error) {
	in := map[string]any{"secret": secret}
	if overlap != 0 {
		in["overlap"] = max(0, overlap).String()
	}
	return post[Source](ctx, c, sourcePath(id)+"/rotate-secret", in)
}

// DeleteSource deletes a source; its messages stay. The reason is for the audit.
func (c *Client) DeleteSource(ctx context.Context, id, reason string) error {
	return c.remove(ctx, sourcePath(id), why(reason))
}

func sourcePath(id string) string { return "/v1/sources/" + url.PathEscape(id) }
