package api

import (
	"context"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// misdirected refuses a request about a tenant that is in another cell. Nothing has been done then,
// so the caller can make the same request at the other cell. It comes after the look-up of the
// idempotency key: a request that was answered here gets the same answer again.
func (a *api) misdirected(c *call) error {
	tenant := c.key.Tenant
	if tenant == "" {
		if err := a.named(c); err != nil {
			return err
		}
		tenant = c.query.text(tenantParam.name)
	}
	if tenant == "" {
		return nil
	}
	return a.Away(tenant)
}

// left is the error for a call that was in progress when its tenant moved to another cell; nil: it
// did not. A caller with a key of the tenant is asked to repeat the call, which goes to that cell.
func (a *api) left(c *call, tenant string) error {
	if tenant == "" {
		return nil
	}
	err := a.Away(tenant)
	if err != nil && c.key.Tenant != "" {
		return store.ErrSealed
	}
	return err
}

// named refuses a request that names a cell that is not this one. A server has passed it on to the
// right one if it serves it.
func (a *api) named(c *call) error {
	name := strings.Join(c.Header[cellHeader], ", ")
	if name == "" || name == a.Cell || c.key.ID == "" {
		return nil
	}
	return &grapnel.Error{Code: grapnel.CodeMalformed, Detail: "This server serves no cell of that name.",
		Fields: []grapnel.Field{{Pointer: cellHeader, Detail: "must name a cell that the server serves"}}}
}

// present is the history without the rows of tenants that were moved to another cell: they are out
// of date.
type present struct {
	History
	away func(string) error
}

// Event finds one of a tenant that is here; of another one the error says where it is.
func (p present) Event(ctx context.Context, scope store.Scope, tenant, id string) (*grapnel.Event, []grapnel.Delivery, error) {
	ev, deliveries, err := p.History.Event(ctx, scope, tenant, id)
	if err == nil {
		err = p.away(ev.Tenant)
	}
	if err != nil {
		return nil, nil, err
	}
	return ev, deliveries, nil
}

// Delivery finds one of a tenant that is here; of another one the error says where it is.
func (p present) Delivery(ctx context.Context, scope store.Scope, seq int64) (*grapnel.Delivery, error) {
	d, err := p.History.Delivery(ctx, scope, seq)
	if err == nil {
		err = p.away(d.Tenant)
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}
