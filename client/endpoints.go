package client

import (
	"context"
	"encoding/json"
	"net/url"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
)

// NewEndpoint has the settings of an endpoint to create. Only URL is required; the server has
// defaults for the others.
type NewEndpoint struct {
	URL         string   `json:"url"`
	Tenant      string   `json:"tenant,omitempty"`
	Description string   `json:"description,omitempty"`
	EventTypes  []string `json:"event_types,omitempty"`
	Filter      string   `json:"filter,omitempty"`
	// only events of this source
	Source string `json:"source,omitempty"`
	// the name of a policy, or a value whose JSON is one
	Policy         any                `json:"policy,omitempty"`
	Ordering       grapnel.Ordering   `json:"ordering,omitempty"`
	RateLimit      *grapnel.RateLimit `json:"rate_limit,omitempty"`
	MaxConcurrency int                `json:"max_concurrency,omitempty"`
	Headers        map[string]string  `json:"headers,omitempty"`
	Format         grapnel.Format     `json:"format,omitempty"`
	// a jq expression for the body
	Transform string                 `json:"transform,omitempty"`
	Signing   grapnel.Signing        `json:"signature_headers,omitempty"`
	Secret    string                 `json:"secret,omitempty"`
	Status    grapnel.EndpointStatus `json:"status,omitempty"`
}

// Endpoint is where events go.
type Endpoint struct {
	Raw
	ID             string             `json:"id"`
	Tenant         string             `json:"tenant"`
	URL            string             `json:"url"`
	Description    string             `json:"description"`
	EventTypes     []string           `json:"event_types"`
	Filter         string             `json:"filter"`
	Source         string             `json:"source"` // only events of this source
	Policy         json.RawMessage    `json:"policy"` // a name or an inline policy
	Ordering       grapnel.Ordering   `json:"ordering"`
	RateLimit      *grapnel.RateLimit `json:"rate_limit"`
	MaxConcurrency int                `json:"max_concurrency"`
	Headers        map[string]string  `json:"headers"`
	Format         grapnel.Format     `json:"format"`
	Transform      string             `json:"transform"` // a jq expression for the body
	// additions of its preset to requests; nil: none
	PresetShape    *PresetShape           `json:"preset_shape"`
	Signing        grapnel.Signing        `json:"signature_headers"`
	Secret         string                 `json:"secret"` // only in the answers that make one
	Status         grapnel.EndpointStatus `json:"status"`
	DisabledReason string                 `json:"disabled_reason"`
	DisabledAt     *time.Time             `json:"disabled_at"`
	Health         Health                 `json:"health"`
	Secrets        []SecretInfo           `json:"secrets"` // the live ones, the newest first
	CreatedAt      time.Time              `json:"created_at"`
	UpdatedAt      time.Time              `json:"updated_at"`
	Revision       int64                  `json:"revision"`
}

// PresetShape has a preset's headers and transform, which apply unless the endpoint sets its own.
type PresetShape struct {
	Headers   map[string]string `json:"headers"`
	Transform string            `json:"transform"`
}

// HealthUnknown is the state of an endpoint while the server does not know it, because it starts or
// stops.
const HealthUnknown grapnel.HealthState = "unknown"

// Health is how an endpoint is doing.
type Health struct {
	State    grapnel.HealthState `json:"state"`
	Reason   string              `json:"reason"` // one sentence; may be empty
	Since    *time.Time          `json:"since"`
	InFlight int                 `json:"in_flight"` // requests on their way
	// heads of lanes that are due or scheduled soon
	Waiting int `json:"waiting"`
	// deliveries held while the endpoint is not healthy
	Held          int        `json:"held"`
	HeldMore      bool       `json:"held_more"` // more than were counted
	NextAttemptAt *time.Time `json:"next_attempt_at"`
	// while its circuit is open: not before this
	NextProbeAt *time.Time `json:"next_probe_at"`
	// time to deliver the held ones once the endpoint works; nil: unknown
	DrainEstimate *policy.Duration `json:"drain_estimate"`
	// failures in a row that count towards disabling
	Strikes      int        `json:"strikes"`
	FailingSince *time.Time `json:"failing_since"`
}

// SecretInfo says that a secret signs, not which one it is.
type SecretInfo struct {
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at"`
	PublicKey string     `json:"public_key"` // for receivers, when the secret is an Ed25519 key
}

// EndpointFilter selects endpoints; the zero value selects all.
type EndpointFilter struct {
	Tenant string
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
	q := window(f.Limit, f.Cursor)
	put(q, "tenant", f.Tenant)
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
// signing for overlap; 0: the server's default.
func (c *Client) RotateSecret(ctx context.Context, id string, overlap time.Duration) (*Endpoint, error) {
	in := map[string]any{}
	if overlap > 0 {
		in["overlap"] = overlap.String()
	}
	return post[Endpoint](ctx, c, endpointPath(id)+"/rotate-secret", in)
}

// TestEndpoint sends an event to this endpoint alone and returns its delivery. Type and data may be
// left out.
func (c *Client) TestEndpoint(ctx context.Context, id, eventType string, data json.RawMessage) (*Delivery, error) {
	in := map[string]any{}
	if eventType != "" {
		in["type"] = eventType
	}
	if data != nil {
		in["data"] = data
	}
	return post[Delivery](ctx, c, endpointPath(id)+"/test", in)
}

func endpointPath(id string) string { return "/v1/endpoints/" + url.PathEscape(id) }
