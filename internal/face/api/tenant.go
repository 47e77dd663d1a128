package api

import (
	"slices"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/wire"
)

const tenantTag = "Tenants"

func tenantRoutes() []route {
	return []route{
		{method: "GET", path: "/v1/tenants", scope: grapnel.ScopeAdmin, handle: listTenants,
			name: "list-tenants", tag: tenantTag, summary: "List tenants",
			about: "Tenants with an endpoint, queue, source, policy or key. Needs a key that is bound to no tenant.",
			query: pageOf(), gives: map[int]any{200: list[wire.Tenant]{}}},
	}
}

func listTenants(a *api, c *call) (answer, error) {
	return pages(c, func(after string, _ int) ([]string, error) {
		if c.key.Tenant != "" {
			return nil, grapnel.Errorf(codeForbidden, "The list is of all tenants; the API key is bound to one tenant.")
		}
		names := a.Engine.Tenants()
		at, found := slices.BinarySearchFunc(names, after, strings.Compare)
		if found {
			at++
		}
		return names[at:], nil
	}, func(name *string) string { return *name }, each(func(name *string) wire.Tenant { return wire.Tenant{Tenant: *name} }))
}
