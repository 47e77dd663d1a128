package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/grapnelhq/grapnel"
)

// Tenant says in which cell of a server a tenant is.
type Tenant struct {
	Raw
	Tenant  string               `json:"tenant"`
	Cell    string               `json:"cell"` // that has it: the one that it leaves until that has let go
	State   grapnel.TenancyState `json:"state"`
	To      string               `json:"to"`      // the cell that it is on its way to; empty: it stays
	From    string               `json:"from"`    // the cell that it came from last
	Move    string               `json:"move"`    // id of its last move
	Since   *time.Time           `json:"since"`   // of the state
	Rows    int64                `json:"rows"`    // copied so far, as far as the server asked knows
	Trouble string               `json:"trouble"` // why the move does not go on; it is tried again all the time
}

// Settled says whether no move is under way.
func (t *Tenant) Settled() bool {
	return t.State == grapnel.TenancyHere || t.State == grapnel.TenancyGone
}

// Tenants lists tenants, and in which cell each is. This and what follows takes a key with the scope admin that is bound to no tenant.
func (c *Client) Tenants(ctx context.Context, limit int, cursor string) (*Page[Tenant], error) {
	return get[Page[Tenant]](ctx, c, "/v1/tenants", window(limit, cursor))
}

// Tenant says in which cell a tenant is.
func (c *Client) Tenant(ctx context.Context, tenant string) (*Tenant, error) {
	return get[Tenant](ctx, c, tenantPath(tenant), nil)
}

// MoveTenant begins to take a tenant to another cell. The answer comes before it is there.
func (c *Client) MoveTenant(ctx context.Context, tenant, to, reason string) (*Tenant, error) {
	in := map[string]string{"to": to}
	if reason != "" {
		in["reason"] = reason
	}
	return post[Tenant](ctx, c, tenantPath(tenant)+"/move", in)
}

// StayTenant gives a tenant's move up; a conflict once the other cell has it.
func (c *Client) StayTenant(ctx context.Context, tenant, reason string) (*Tenant, error) {
	out := new(Tenant)
	return orNil(out, c.Do(ctx, http.MethodDelete, tenantPath(tenant)+"/move", why(reason), nil, out))
}

func tenantPath(tenant string) string { return "/v1/tenants/" + url.PathEscape(tenant) }
