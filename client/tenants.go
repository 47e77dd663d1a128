package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/grapnelhq/grapnel/wire"
)

// Tenant owns events, endpoints and the rest. TenantTerms are the operator's settings for it.
type (
	Tenant        = wire.Tenant
	TenantTerms   = wire.TenantTerms
	TenantNumbers = wire.TenantNumbers
)

// Tenants lists the tenants that have anything. It needs a key that is bound to no tenant.
func (c *Client) Tenants(ctx context.Context, f ListFilter) (*Page[Tenant], error) {
	return get[Page[Tenant]](ctx, c, "/v1/tenants", f.query())
}

// TenantsCounted is Tenants with the numbers of each.
func (c *Client) TenantsCounted(ctx context.Context, f ListFilter) (*Page[Tenant], error) {
	q := f.query()
	q.Set("numbers", "true")
	return get[Page[Tenant]](ctx, c, "/v1/tenants", q)
}

// Tenant returns the operator's settings for a tenant, and its numbers.
func (c *Client) Tenant(ctx context.Context, tenant string) (*Tenant, error) {
	return get[Tenant](ctx, c, at("/v1/tenants", tenant), url.Values{"numbers": {"true"}})
}

// Terms is Tenant without the numbers, which cost a look at all of its endpoints.
func (c *Client) Terms(ctx context.Context, tenant string) (*Tenant, error) {
	return get[Tenant](ctx, c, at("/v1/tenants", tenant), nil)
}

// UpdateTenant changes the operator's settings for a tenant. Members of changes that are nil are
// set back to the server's own settings.
func (c *Client) UpdateTenant(ctx context.Context, tenant, reason string, changes map[string]any) (*Tenant, error) {
	return patch[Tenant](ctx, c, at("/v1/tenants", tenant), why(reason), changes)
}

// DeleteTenant begins to delete a tenant with all that it has. The job is durable when this
// returns, and nothing is accepted for the tenant any more.
func (c *Client) DeleteTenant(ctx context.Context, tenant, reason string) (*Erasure, error) {
	return answered[Erasure](ctx, c, call{method: http.MethodDelete, path: at("/v1/tenants", tenant), query: why(reason)})
}
