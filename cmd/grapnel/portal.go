package main

import (
	"net/http"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/cli"
)

var tenantsPortalLink = call[client.PortalLink]{
	use: "portal-link TENANT", short: "Create a link that opens a tenant's portal once",
	long: "Create a link for one person, who manages the tenant's endpoints with it. It opens the portal for the first " +
		"person that uses it, so send it to that person only, at the moment of need.",
	example: "grapnel tenants portal-link acme --scope read,replay,endpoints:write --subject jane",
	method:  http.MethodPost, path: "/v1/tenants/*/portal-links", settings: cli.PortalLinkSettings,
	view: func(r reader, l *client.PortalLink) cli.View {
		return object(l.URL, l.JSON(), [][]string{{"link", l.ID}, {"url", l.URL}, {"opens until", r.Time(&l.ExpiresAt)}})
	},
}

func tenantsRevokeLinks(s *session) *cobra.Command {
	var reason, subject, link string
	c := &cobra.Command{
		Use: "revoke-portal-links TENANT", Short: "End all portal links and sessions of a tenant, or those of one person or link",
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := s.reader()
			if err == nil && (subject != "" || link != "") {
				return r.EndPortalSessions(cmd.Context(), args[0], subject, link, reason)
			}
			if err == nil {
				err = s.Confirm("End all portal links and sessions of tenant %s?", args[0])
			}
			if err != nil {
				return err
			}
			return r.RevokePortalLinks(cmd.Context(), args[0], reason)
		},
	}
	c.Flags().StringVar(&subject, "subject", "", "only links and sessions of this person")
	c.Flags().StringVar(&link, "link", "", "only this link, by its id, and the session that it opened")
	reasoned(c, &reason)
	s.confirmed(c)
	c.PreRunE = narrows("subject", "link")
	return c
}
