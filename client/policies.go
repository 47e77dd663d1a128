package client

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/grapnelhq/grapnel/wire"
)

// Policy is a preset or a tenant's named policy. Its rules are in JSON, in the form of package
// policy.
type Policy = wire.Policy

// Policies lists presets and own policies.
func (c *Client) Policies(ctx context.Context, f ListFilter) (*Page[Policy], error) {
	return get[Page[Policy]](ctx, c, "/v1/policies", f.query())
}

// Policy returns a policy by its id.
func (c *Client) Policy(ctx context.Context, id string) (*Policy, error) {
	return get[Policy](ctx, c, at("/v1/policies", id), nil)
}

// CreatePolicy keeps a policy; the document needs a name.
func (c *Client) CreatePolicy(ctx context.Context, doc json.RawMessage) (*Policy, error) {
	return post[Policy](ctx, c, "/v1/policies", doc)
}

// UpdatePolicy changes the fields given, by JSON merge patch.
func (c *Client) UpdatePolicy(ctx context.Context, id string, changes json.RawMessage) (*Policy, error) {
	return patch[Policy](ctx, c, at("/v1/policies", id), nil, changes)
}

// DeletePolicy deletes a policy that no endpoint uses.
func (c *Client) DeletePolicy(ctx context.Context, id string) error {
	return c.remove(ctx, at("/v1/policies", id), nil)
}

// SimulatePolicy simulates a policy during an outage; question and answer are JSON as the API
// describes them.
func (c *Client) SimulatePolicy(ctx context.Context, question any) (json.RawMessage, error) {
	var out json.RawMessage
	err := c.Do(ctx, http.MethodPost, "/v1/policies/simulate", nil, question, &out)
	return out, err
}
