package client

import (
	"context"
	"encoding/json"
	"net/url"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/wire"
)

// NewEndpoint has the settings of an endpoint to create. Only URL is required; the server has
// defaults for the others.
type NewEndpoint = wire.NewEndpoint

// Endpoint is where events go.
type Endpoint = wire.Endpoint

// PresetShape has a preset's settings of requests, which apply unless the endpoint sets its own.
type PresetShape = wire.PresetShape

// HealthUnknown is the state of an endpoint while the server does not know it, because it starts or
// stops.
const HealthUnknown grapnel.HealthState = "unknown"

// Health is how an endpoint is doing.
type Health = wire.Health

// OAuth2 and TLS are parts of an endpoint: its client at a token server, and its certificates.
type (
	OAuth2 = wire.OAuth2
	TLS    = wire.TLS
)

// SecretInfo says that a secret signs, not which one it is.
type SecretInfo = wire.Secret

// EndpointFilter selects endpoints; the zero value selects all.
type EndpointFilter struct {
	Tenant string
	Search string   // as in ListFilter
	Label  string   // NAME=VALUE, or NAME for any value
	IDs    []string // only these; empty: any
	Limit  int
	Cursor string
}

// CreateEndpoint creates an endpoint. Its answer is the only one that shows the secret.
func (c *Client) CreateEndpoint(ctx context.Context, e NewEndpoint) (*Endpoint, error) {
	return post[Endpoint](ctx, c, "/v1/endpoints", e)
}

// Endpoint returns an endpoint.
func (c *Client) Endpoint(ctx context.Context, id string) (*Endpoint, error) {
	return get[Endpoint](ctx, c, endpointPath(id), nil)
}

// Endpoints lists endpoints.
func (c *Client) Endpoints(ctx context.Context, f EndpointFilter) (*Page[Endpoint], error) {
	q := window(f.Limit, f.Cursor, "tenant", f.Tenant, "label", f.Label, "search", f.Search)
	for _, id := range f.IDs {
		q.Add("id", id)
	}
	return get[Page[Endpoint]](ctx, c, "/v1/endpoints", q)
}

// UpdateEndpoint changes the fields given, by JSON merge patch: a nil value removes one.
func (c *Client) UpdateEndpoint(ctx context.Context, id string, changes map[string]any) (*Endpoint, error) {
	return patch[Endpoint](ctx, c, endpointPath(id), nil, changes)
}

// EnableEndpoint delivers again to an endpoint that was disabled; the reason is for the audit.
func (c *Client) EnableEndpoint(ctx context.Context, id, reason string) (*Endpoint, error) {
	return patch[Endpoint](ctx, c, endpointPath(id), why(reason), map[string]any{"status": grapnel.EndpointEnabled})
}

// DeleteEndpoint deletes an endpoint and drops its pending deliveries. The reason is for the audit.
func (c *Client) DeleteEndpoint(ctx context.Context, id, reason string) error {
	return c.remove(ctx, endpointPath(id), why(reason))
}

// RotateSecret gives the endpoint a new secret, returned only in this answer. The old one keeps
// signing for overlap; 0: the server's default, negative: it ends at once.
func (c *Client) RotateSecret(ctx context.Context, id string, overlap time.Duration) (*Endpoint, error) {
	in := map[string]any{}
	if overlap != 0 {
		in["overlap"] = max(0, overlap).String()
	}
	return post[Endpoint](ctx, c, endpointPath(id)+"/rotate-secret", in)
}

// TestEndpoint sends an event to this endpoint alone and returns its delivery. Type and data may be
// left out.
func (c *Client) TestEndpoint(ctx context.Context, id, eventType string, data json.RawMessage) (*Delivery, error) {
	return c.TestEndpointLater(ctx, id, 0, eventType, data)
}

// TestEndpointLater is TestEndpoint with a delay of the first attempt, at most 24 h. Events with
// different delays arrive in another order.
func (c *Client) TestEndpointLater(
	ctx context.Context,
	id string,
	delay time.Duration,
	eventType string,
	data json.RawMessage,
) (*Delivery, error) {
	in := map[string]any{}
	if delay > 0 {
		in["delay"] = delay.String()
	}
	if eventType != "" {
		in["type"] = eventType
	}
	if data != nil {
		in["data"] = data
	}
	return post[Delivery](ctx, c, endpointPath(id)+"/test", in)
}

// why is the reason as a query parameter, for calls whose body is not for it.
func why(reason string) url.Values { return query("reason", reason) }
