package api

import (
	"net/http"
	"slices"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/api/strict"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/wire"
)

const tenantTag = "Tenants"

func tenantRoutes() []route {
	return []route{
		{method: "GET", path: "/v1/tenants", scope: grapnel.ScopeAdmin, handle: listTenants,
			name: "list-tenants", tag: tenantTag, summary: "List tenants with their cells",
			about: "Tenants with an endpoint, queue, source, policy or key, and moved tenants. Needs a key that is bound to no tenant, as do all routes here.",
			query: pageOf(), gives: map[int]any{200: list[wire.Tenant]{}}},
		{method: "GET", path: "/v1/tenants/{tenant}", scope: grapnel.ScopeAdmin, handle: getTenant,
			name: "get-tenant", tag: tenantTag, summary: "Get a tenant's cell",
			about: "A tenant without data is in the cell where its data would be.", gives: map[int]any{200: wire.Tenant{}}},
		{method: "POST", path: "/v1/tenants/{tenant}/move", scope: grapnel.ScopeAdmin, handle: moveTenant,
			name: "move-tenant", tag: tenantTag, summary: "Move a tenant to another cell",
			about: "No attempt of the tenant starts, and those in flight finish; then all rows of the tenant are copied and compared, and the other cell continues, in the same order. Meanwhile requests that change anything of the tenant answer 503 with Retry-After. 409 while a move is under way, or if the tenant is in that cell already.",
			body:  jsonBody, takes: newMove{}, gives: map[int]any{202: wire.Tenant{}}},
		{method: "DELETE", path: "/v1/tenants/{tenant}/move", scope: grapnel.ScopeAdmin, handle: stayTenant,
			name: "stay-tenant", tag: tenantTag, summary: "Cancel a move that is not finished",
			about: "The tenant stays in its cell. 409 when no move is under way, or when the other cell has the tenant already.",
			query: []param{reasonParam}, gives: map[int]any{200: wire.Tenant{}}},
	}
}

// newMove says where a tenant is to go.
type newMove struct {
	To     string `json:"to" required:"true" minLength:"1" maxLength:"32" form:"line" doc:"the name of a cell of this server"`
	Reason string `json:"reason,omitempty" maxLength:"500" doc:"reason for the audit"`
}

var tenantFields = pairOf[grapnel.Residence, wire.Tenant]()

func viewTenant(r *grapnel.Residence) (v wire.Tenant) {
	tenantFields.show(r, &v)
	return v
}

// unbound refuses a key that is bound to a tenant: the list of tenants and cells is about all.
func (c *call) unbound() error {
	if c.key.Tenant != "" {
		return grapnel.Errorf(codeForbidden, "Cells serve all tenants; the API key is bound to one tenant.")
	}
	return nil
}

// tenantNamed is the one in the path.
func tenantNamed(c *call) (string, error) {
	name := c.PathValue("tenant")
	if err := c.unbound(); err != nil || grapnel.ValidTenant(name) {
		return name, err
	}
	return "", store.ErrNotFound("tenant")
}

func listTenants(a *api, c *call) (answer, error) {
	return pages(c, func(after string, _ int) ([]grapnel.Residence, error) {
		if err := c.unbound(); err != nil {
			return nil, err
		}
		found, err := a.Tenants.List(c.Context())
		return slices.DeleteFunc(found, func(r grapnel.Residence) bool { return r.Tenant <= after }), err
	}, func(r *grapnel.Residence) string { return r.Tenant }, each(viewTenant))
}

func getTenant(a *api, c *call) (answer, error) {
	name, err := tenantNamed(c)
	if err != nil {
		return answer{}, err
	}
	is := a.Tenants.Where(name)
	return jsonAnswer(http.StatusOK, viewTenant(&is)), nil
}

func moveTenant(a *api, c *call) (answer, error) {
	name, err := tenantNamed(c)
	if err != nil {
		return answer{}, err
	}
	var f strict.Faults
	in := decode[newMove](c.body, &f)
	if name == grapnel.OperatorTenant && in.To != grapnel.DefaultCell {
		f.Add("/to", "must be %s: the alerts about all cells are sent from there", grapnel.DefaultCell)
	}
	if err := f.Err(); err != nil {
		return answer{}, err
	}
	is, err := a.Tenants.Move(c.Context(), name, in.To, c.by(in.Reason))
	if err != nil {
		return answer{}, err
	}
	return jsonAnswer(http.StatusAccepted, viewTenant(&is)), nil
}

func stayTenant(a *api, c *call) (answer, error) {
	name, err := tenantNamed(c)
	if err != nil {
		return answer{}, err
	}
	reason := c.reason()
	is, err := a.Tenants.Stay(c.Context(), name, c.by(reason))
	return shown(is, err, viewTenant)
}
