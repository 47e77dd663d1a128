package client

import (
	"context"
	"net/http"

	"github.com/grapnelhq/grapnel/wire"
)

// NewPortalLink, PortalLink, PortalSession, PortalSettings and Portal are what the calls below take
// and return.
type (
	NewPortalLink  = wire.NewPortalLink
	PortalLink     = wire.PortalLink
	PortalSession  = wire.PortalSession
	PortalSettings = wire.PortalSettings
	Portal         = wire.Portal
)

// CreatePortalLink makes a link that opens the portal of a tenant once.
func (c *Client) CreatePortalLink(ctx context.Context, tenant string, link NewPortalLink) (*PortalLink, error) {
	return post[PortalLink](ctx, c, at("/v1/tenants", tenant, "portal-links"), link)
}

// RevokePortalLinks ends all portal links and sessions of a tenant.
func (c *Client) RevokePortalLinks(ctx context.Context, tenant, reason string) error {
	return c.remove(ctx, at("/v1/tenants", tenant, "portal-links"), why(reason))
}

// EndPortalSessions ends the links and sessions of one subject of a tenant, or, if the subject is
// empty, one link and the session that it opened.
func (c *Client) EndPortalSessions(ctx context.Context, tenant, subject, link, reason string) error {
	return c.remove(ctx, at("/v1/tenants", tenant, "portal-links"), query("reason", reason, "subject", subject, "link", link))
}

// EndSessions ends the sessions of a person who has signed in, as the audit names it.
func (c *Client) EndSessions(ctx context.Context, subject, reason string) error {
	return c.remove(ctx, "/v1/sessions", query("reason", reason, "subject", subject))
}

// SignOut ends the session of this client, whose key is a pass.
func (c *Client) SignOut(ctx context.Context) error {
	return c.remove(ctx, "/v1/sessions/current", nil)
}

// RotateSessions ends all sessions and portal links of all tenants.
func (c *Client) RotateSessions(ctx context.Context, reason string) error {
	return c.Do(ctx, http.MethodPost, "/v1/sessions/rotate", why(reason), nil, nil)
}

// OpenPortal exchanges the code of a link, which is the key of this client, for a session.
func (c *Client) OpenPortal(ctx context.Context) (*PortalSession, error) {
	return post[PortalSession](ctx, c, "/v1/portal-sessions", nil)
}

// Portal returns how the portal of a tenant looks.
func (c *Client) Portal(ctx context.Context, tenant string) (*Portal, error) {
	return get[Portal](ctx, c, at("/v1/tenants", tenant, "portal"), nil)
}

// UpdatePortal changes how the portal of a tenant looks. Members of changes that are nil are set
// back.
func (c *Client) UpdatePortal(ctx context.Context, tenant string, changes map[string]any) (*Portal, error) {
	return patch[Portal](ctx, c, at("/v1/tenants", tenant, "portal"), nil, changes)
}
