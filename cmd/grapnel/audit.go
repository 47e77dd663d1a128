package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/cli"
)

func (s *session) audit() *cobra.Command {
	var f client.AuditFilter
	c := paging(&cobra.Command{
		Use: "audit", Short: "List who did what to endpoints and deliveries, when and why, the newest first",
		Example: "grapnel audit --endpoint ep_…\ngrapnel audit --delivery dlv_… -o json",
		RunE: s.ask(func(ctx context.Context, r reader, _ []string) (cli.View, error) {
			p, err := r.Audit(ctx, f)
			if err != nil {
				return cli.View{}, err
			}
			return page(p, auditHead, func(e client.AuditEntry) []string { return auditRow(r, &e) }), nil
		}),
	}, &f.Limit, &f.Cursor)
	c.Flags().StringVar(&f.Endpoint, "endpoint", "", "only about this endpoint and its deliveries")
	c.Flags().StringVar(&f.Delivery, "delivery", "", "only about this delivery")
	c.Flags().StringVar(&f.Tenant, "tenant", "", "only this tenant")
	return c
}

var auditHead = []string{"N", "WHEN", "WHO", "WHAT", "ENDPOINT", "DELIVERY", "WHY"}

func auditRow(r reader, e *client.AuditEntry) []string {
	return []string{strconv.FormatInt(e.Number, 10), r.Time(&e.At), e.Actor, string(e.Verb), e.EndpointID, e.DeliveryID, e.Reason}
}
