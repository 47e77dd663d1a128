package client

import (
	"context"
	"net/url"

	"github.com/grapnelhq/grapnel/wire"
)

// Tenant owns events, endpoints and the rest.
type Tenant = wire.Tenant

// Tenants lists the tenants that have anything. It needs a key with the scope admin that is bound
// to no tenant.
func (c *Client) Tenants(ctx context.Context, limit int, cursor string) (*Page[Tenant], error) {
	return get[Page[Tenant]](ctx, c, "/v1/tenants", window(limit, cursor))
}

func tenantPath(tenant string) string { return "/v1/tenants/" + url.PathEscape(tenant) }
