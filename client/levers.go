package client

import (
	"context"
	"net/http"

	"github.com/grapnelhq/grapnel/wire"
)

// PauseEndpoint holds an endpoint's deliveries. The reason is for the audit; it may be empty, here
// and below.
func (c *Client) PauseEndpoint(ctx context.Context, id, reason string) (*Endpoint, error) {
	return post[Endpoint](ctx, c, at("/v1/endpoints", id, "pause"), because(reason))
}

// ResumeEndpoint resumes delivery to a paused endpoint.
func (c *Client) ResumeEndpoint(ctx context.Context, id, reason string) (*Endpoint, error) {
	return post[Endpoint](ctx, c, at("/v1/endpoints", id, "resume"), because(reason))
}

// AskConsent sends the address of an endpoint that waits for its consent a challenge, and returns
// the endpoint with the result. If it waits for none, the error has the code conflict.
func (c *Client) AskConsent(ctx context.Context, id, reason string) (*Endpoint, error) {
	return post[Endpoint](ctx, c, at("/v1/endpoints", id, "consent"), because(reason))
}

// ProbeEndpoint probes an endpoint whose circuit is open at once. If the circuit is closed or
// nothing is pending, the error is a conflict.
func (c *Client) ProbeEndpoint(ctx context.Context, id, reason string) (*Endpoint, error) {
	return post[Endpoint](ctx, c, at("/v1/endpoints", id, "probe"), because(reason))
}

// The objects of levers, lanes, the audit and causes.
type (
	// NewRetry selects what RetryAll attempts; the zero value selects all that waits.
	NewRetry     = wire.NewRetry
	Retried      = wire.Retried      // the result of RetryAll
	RetriedFound = wire.RetriedFound // the result of RetryFound
	// Lane is a blocked key at an endpoint: its first delivery has failed, and later ones are held
	// behind it.
	Lane = wire.Lane
	// AuditEntry records one action on an endpoint or delivery: the actor, the action, the time and
	// the reason.
	AuditEntry = wire.Audit
	Causes     = wire.Causes // say why deliveries to an endpoint fail
	Cause      = wire.Cause  // something that failures have in common and successes have not
)

// RetryAll attempts now the deliveries of an endpoint that wait for a later attempt: the first ones
// of keys, and those without a key. Repeating it changes nothing.
func (c *Client) RetryAll(ctx context.Context, endpoint string, r NewRetry) (*Retried, error) {
	return post[Retried](ctx, c, at("/v1/endpoints", endpoint, "retry"), r)
}

// RetryFound attempts now what the pending deliveries of a page of a search wait for; Next of the
// result is the Cursor to go on with. Repeating it changes nothing.
func (c *Client) RetryFound(ctx context.Context, f DeliveryFilter, reason string) (*RetriedFound, error) {
	rq := call{method: http.MethodPost, path: "/v1/deliveries/retry", query: f.everywhere(false), in: because(reason)}
	return answered[RetriedFound](ctx, c, rq)
}

// Lanes lists the keys that are stuck at an endpoint, the oldest first; without an endpoint, those
// at all of them. A page of all of them may be empty while it has a Next.
func (c *Client) Lanes(ctx context.Context, endpoint string, limit int, cursor string) (*Page[Lane], error) {
	path := "/v1/lanes"
	if endpoint != "" {
		path = at("/v1/endpoints", endpoint, "lanes")
	}
	return get[Page[Lane]](ctx, c, path, window(limit, cursor))
}

// AuditFilter selects entries; the zero value selects all.
type AuditFilter struct {
	Endpoint, Delivery, Tenant string
	Search                     string // a part of the name of a thing, the actor, the action or the reason
	Limit                      int
	Cursor                     string
}

// Audit lists audit entries, the newest first.
func (c *Client) Audit(ctx context.Context, f AuditFilter) (*Page[AuditEntry], error) {
	q := window(f.Limit, f.Cursor, "endpoint", f.Endpoint, "delivery", f.Delivery, "tenant", f.Tenant, "search", f.Search)
	return get[Page[AuditEntry]](ctx, c, "/v1/audit", q)
}

// Causes explains the failures of an endpoint.
func (c *Client) Causes(ctx context.Context, endpoint string) (*Causes, error) {
	return get[Causes](ctx, c, at("/v1/endpoints", endpoint, "causes"), nil)
}
