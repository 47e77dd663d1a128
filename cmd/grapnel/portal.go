package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/cli"
)

func tenantsPortalLink(s *session) *cobra.Command {
	var link client.NewPortalLink
	var scopes []string
	c := &cobra.Command{
		Use: "portal-link TENANT", Short: "Create a link that opens a tenant's portal once", Args: takes(cobra.ExactArgs(1)),
		Long: "Create a link for one person, who manages the tenant's endpoints with it. It opens the portal for the first " +
			"person that uses it, so send it to that person only, at the moment of need.",
		Example: "grapnel tenants portal-link acme --scope read,replay,endpoints:write --subject jane",
		RunE: s.ask(func(ctx context.Context, r reader, args []string) (cli.View, error) {
			for _, scope := range scopes {
				link.Scopes = append(link.Scopes, grapnel.Scope(scope))
			}
			made, err := r.CreatePortalLink(ctx, args[0], link)
			if err != nil {
				return cli.View{}, err
			}
			return object(made.URL, made.JSON(), [][]string{{"link", made.ID}, {"url", made.URL}, {"opens until", r.Time(&made.ExpiresAt)}}), nil
		}),
	}
	f := c.Flags()
	f.StringSliceVar(&scopes, "scope", nil, "read, replay, endpoints:write, secrets:reveal, payload:read, alerts:read (default read)")
	f.StringSliceVar(&link.Endpoints, "endpoint", nil, "only this endpoint; repeat for several (default all)")
	f.StringVar(&link.ExpiresIn, "expires-in", "", "how long the link can be opened (default 15m)")
	f.StringVar(&link.Session, "session", "", "how long the portal stays open (default 1h)")
	f.StringVar(&link.Subject, "subject", "", "who opens it, for the audit")
	f.StringVar(&link.Theme, "theme", "", "colours: auto, light or dark")
	f.StringVar(&link.Locale, "locale", "", "how dates and times are written, such as de-DE")
	f.StringVar(&link.ReturnURL, "return-url", "", "where the portal's link back leads")
	cli.Sets(f, "scope", "scopes")
	cli.Sets(f, "endpoint", "endpoints")
	return c
}

func tenantsRevokeLinks(s *session) *cobra.Command {
	var reason, subject, link string
	var yes bool
	c := &cobra.Command{
		Use: "revoke-portal-links TENANT", Short: "End all portal links and sessions of a tenant, or those of one person or link",
		Args: takes(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := s.reader()
			if err == nil && (subject != "" || link != "") {
				return r.EndPortalSessions(cmd.Context(), args[0], subject, link, reason)
			}
			if err == nil {
				err = s.Confirm(yes, "End all portal links and sessions of tenant %s?", args[0])
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
	confirmed(c, &yes)
	c.PreRunE = narrows("subject", "link")
	return c
}
