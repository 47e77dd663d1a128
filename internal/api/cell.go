package api

import (
	"errors"
	"strings"

	"github.com/grapnelhq/grapnel"
)

// cellHeader names a cell: in a request the one that is to answer, in a 421 the one where the tenant is.
const cellHeader = "Grapnel-Cell"

// misdirected refuses a request that is about a tenant that is in another cell. Nothing has been done then, so whoever knows the other cell can make
// the same request there. It comes after an idempotency key was looked up: what was answered here stays answered here.
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

// named refuses a request that names a cell that is not this one. A server has passed it on to the right one if it serves it.
func (a *api) named(c *call) error {
	name := strings.Join(c.Header[cellHeader], ", ")
	if name == "" || name == a.Cell || c.key.ID == "" {
		return nil
	}
	return &grapnel.Error{Code: grapnel.CodeMalformed, Detail: "This server serves no cell of that name.",
		Fields: []grapnel.Field{{Pointer: cellHeader, Detail: "must name a cell that the server serves"}}}
}

// cellOf is the cell that an error names.
func cellOf(err error) string {
	var e *grapnel.Error
	if !errors.As(err, &e) {
		return ""
	}
	return e.Cell
}
