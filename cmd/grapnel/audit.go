package main

import (
	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/cli"
)

var audit = resource[client.AuditEntry]{
	path: "/v1/audit", filters: cli.AuditFilters,
	head: []string{"N", "WHEN", "WHO", "WHAT", "ENDPOINT", "DELIVERY", "WHY"},
	row: func(r reader, e *client.AuditEntry) []string {
		return []string{positive(e.Number), r.Time(&e.At), e.Actor, string(e.Verb), e.EndpointID, e.DeliveryID, e.Reason}
	},
}

func (s *session) auditCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "audit", Short: "List who did what to endpoints and deliveries, when and why, the newest first",
		Example: "grapnel audit --endpoint ep_…\ngrapnel audit --delivery dlv_… -o json",
	}
	audit.list(s, c)
	return c
}
