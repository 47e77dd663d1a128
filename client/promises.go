package client

import (
	"context"
	"net/http"

	"github.com/grapnelhq/grapnel/wire"
)

// The objects of promises and incidents.
type (
	SLO     = wire.SLO     // how a server keeps its promises
	Promise = wire.Promise // one of them
	// Incident is an incident, or maintenance, that readers of the status page see.
	Incident          = wire.Incident
	NewIncident       = wire.NewIncident       // one to be published
	NewIncidentUpdate = wire.NewIncidentUpdate // another message about one
)

// SLO reads how the server keeps its promises. It needs a key with the scope read that is bound to
// no tenant.
func (c *Client) SLO(ctx context.Context) (*SLO, error) { return get[SLO](ctx, c, "/v1/slo", nil) }

// Incidents lists incidents and maintenance, the newest first. This method and those below need a
// key that is bound to no tenant; those that change something need the scope admin.
func (c *Client) Incidents(ctx context.Context, limit int, cursor string) (*Page[Incident], error) {
	return get[Page[Incident]](ctx, c, "/v1/incidents", window(limit, cursor))
}

// Incident returns one incident.
func (c *Client) Incident(ctx context.Context, id string) (*Incident, error) {
	return get[Incident](ctx, c, at("/v1/incidents", id), nil)
}

// OpenIncident publishes an incident, or planned maintenance, on the status page.
func (c *Client) OpenIncident(ctx context.Context, in NewIncident) (*Incident, error) {
	return post[Incident](ctx, c, "/v1/incidents", in)
}

// UpdateIncident adds a message to an incident; the status resolved ends it.
func (c *Client) UpdateIncident(ctx context.Context, id string, in NewIncidentUpdate) (*Incident, error) {
	return post[Incident](ctx, c, at("/v1/incidents", id, "updates"), in)
}

// StatusFile returns one of the files of the public status page: status, status.json, status.rss or
// status.svg. It needs no key.
func (c *Client) StatusFile(ctx context.Context, name string) ([]byte, error) {
	if c.options.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.options.Timeout)
		defer cancel()
	}
	return c.try(ctx, call{method: http.MethodGet, path: "/" + name, accept: "*/*"})
}

// Probe asks once whether the server accepts events; with live, whether its process answers. The
// answer is JSON. It needs no key.
func (c *Client) Probe(ctx context.Context, live bool) ([]byte, error) {
	if live {
		return c.StatusFile(ctx, "livez")
	}
	return c.StatusFile(ctx, "readyz")
}
