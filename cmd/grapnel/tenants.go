package main

import (
	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/client"
)

var tenants = resource[client.Tenant]{
	path: "/v1/tenants", id: "TENANT",
	head:  []string{"TENANT"},
	row:   func(_ reader, t *client.Tenant) []string { return []string{t.Tenant} },
	verbs: []verb{{"list", "List tenants", ""}},
}

func (s *session) tenantsCommand() *cobra.Command {
	return group("tenants", "List tenants, and open their portals",
		append(tenants.commands(s), tenantsPortalLink(s), tenantsRevokeLinks(s))...)
}
