package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/grapnelhq/grapnel/wire"
)

// Tenant is the location of a tenant among a server's cells.
type Tenant = wire.Tenant

// Tenants lists tenants with their cells. This method and those below need a key with the scope
// admin that is bound to no tenant.
func (c *Client) Tenants(ctx context.Context, limit int, cursor string) (*Page[Tenant], error) {
	return get[Page[Tenant]](ctx, c, "/v1/tenants", window(limit, cursor))
}

// Tenant returns the location of a tenant.
func (c *Client) Tenant(ctx context.Context, tenant string) (*Tenant, error) {
	return get[Tenant](ctx, c, tenantPath(tenant), nil)
}

// MoveTenant begins to take a tenant to another cell. The answer comes before it is there.
func (c *Client) MoveTenant(ctx context.Context, tenant, to, reason string) (*Tenant, error) {
	return post[Tenant](ctx, c, tenantPath(tenant)+"/move", withReason(reason, map[string]string{"to": to}))
}

// StayTenant cancels a tenant's move. The error is a conflict once the other cell owns the tenant.
func (c *Client) StayTenant(ctx context.Context, tenant, reason string) (*Tenant, error) {
	return answered[Tenant](ctx, c, call{method: http.MethodDelete, path: tenantPath(tenant) + "/move", query: why(reason)})
}

func tenantPath(tenant string) string { return "/v1/tenants/" + url.PathEscape(tenant) }
