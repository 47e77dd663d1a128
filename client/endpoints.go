package client

import (
	"context"
	"encoding/json"
	"net/url"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/wire"
)

// The objects of endpoints.
type (
	// NewEndpoint has the settings of an endpoint to create. Only URL is required; the server has
	// defaults for the others.
	NewEndpoint = wire.NewEndpoint
	Endpoint    = wire.Endpoint // where events go
	// PresetShape has a preset's settings of requests, which apply unless the endpoint sets its own.
	PresetShape = wire.PresetShape
	Consent     = wire.Consent
	Health      = wire.Health // how an endpoint is doing
	OAuth2      = wire.OAuth2 // its client at a token server
	TLS         = wire.TLS    // its certificates
	Target      = wire.Target // its broker
	SecretInfo  = wire.Secret // says that a secret signs, not which one it is
)

// HealthUnknown is the state of an endpoint while the server does not know it, because it starts or
// stops.
const HealthUnknown grapnel.HealthState = "unknown"

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
	return get[Endpoint](ctx, c, at("/v1/endpoints", id), nil)
}

// Endpoints lists endpoints.
func (c *Client) Endpoints(ctx context.Context, f EndpointFilter) (*Page[Endpoint], error) {
	q := window(f.Limit, f.Cursor, "tenant", f.Tenant, "label", f.Label, "search", f.Search, "id", f.IDs)
	return get[Page[Endpoint]](ctx, c, "/v1/endpoints", q)
}

// UpdateEndpoint changes the fields given, by JSON merge patch: a nil value removes one.
func (c *Client) UpdateEndpoint(ctx context.Context, id string, changes map[string]any) (*Endpoint, error) {
	return patch[Endpoint](ctx, c, at("/v1/endpoints", id), nil, changes)
}

// EnableEndpoint delivers again to an endpoint that was disabled; the reason is for the audit.
func (c *Client) EnableEndpoint(ctx context.Context, id, reason string) (*Endpoint, error) {
	return patch[Endpoint](ctx, c, at("/v1/endpoints", id), why(reason), map[string]any{"status": grapnel.EndpointEnabled})
}

// DeleteEndpoint deletes an endpoint and drops its pending deliveries. The reason is for the audit.
func (c *Client) DeleteEndpoint(ctx context.Context, id, reason string) error {
	return c.remove(ctx, at("/v1/endpoints", id), why(reason))
}

// RotateSecret gives the endpoint a new secret, returned only in this answer. The old one keeps
// signing for overlap; 0: the server's default, negative: it ends at once.
func (c *Client) RotateSecret(ctx context.Context, id string, overlap time.Duration) (*Endpoint, error) {
	return post[Endpoint](ctx, c, at("/v1/endpoints", id, "rotate-secret"), given("overlap", lasting(overlap)))
}

// TestEndpoint sends an event to this endpoint alone and returns its delivery. Type and data may be
// left out.
func (c *Client) TestEndpoint(ctx context.Context, id, eventType string, data json.RawMessage) (*Delivery, error) {
	return c.TestEndpointLater(ctx, id, 0, eventType, data)
}

// TestEndpointLater is TestEndpoint with a delay of the first attempt, at most 24 h. Events with
// different delays arrive in another order.
func (c *Client) TestEndpointLater(ctx context.Context, id string, delay time.Duration, eventType string, data json.RawMessage,
) (*Delivery, error) {
	in := given("delay", lasting(max(0, delay)), "type", eventType, "data", data)
	return post[Delivery](ctx, c, at("/v1/endpoints", id, "test"), in)
}

// lasting is a duration of a request; empty: the server's default, 0s: a negative one.
func lasting(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return max(0, d).String()
}

// why is the reason as a query parameter, for calls whose body is not for it.
func why(reason string) url.Values { return query("reason", reason) }
