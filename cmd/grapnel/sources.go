package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/cli"
)

func (s *session) sources() *cobra.Command {
	return group("sources", "Create, change and look at sources: addresses for the webhooks of others",
		s.sourcesCreate(), s.sourcesList(), s.sourcesGet(), s.sourcesUpdate(), s.sourcesRotate(), s.sourcesDelete())
}

func (s *session) sourcesCreate() *cobra.Command {
	var change sourceFlags
	var tenant string
	c := &cobra.Command{
		Use: "create NAME", Short: "Create a source and say where its provider has to send", Args: takes(cobra.ExactArgs(1)),
		Example: "grapnel sources create stripe-live --scheme stripe --secret @stripe.secret\n" +
			"grapnel sources create partner --scheme hmac --secret @partner.secret --header X-Signature --prefix sha256=\n" +
			"grapnel sources create orders --outbox @orders.dsn",
		RunE: s.ask(func(ctx context.Context, r reader, args []string) (cli.View, error) {
			fields, err := change.fields(s)
			if err != nil {
				return cli.View{}, err
			}
			fields["name"] = args[0]
			if tenant != "" {
				fields["tenant"] = tenant
			}
			one := new(client.Source)
			if fields["verify"] == nil && fields["outbox"] == nil {
				return cli.View{}, &cli.Fault{Exit: cli.ExitUsage, Code: "usage", Text: "grapnel sources create needs --scheme or --outbox", Next: "See: grapnel sources create --help"}
			}
			if err := r.Do(ctx, "POST", "/v1/sources", nil, fields, one); err != nil {
				return cli.View{}, err
			}
			return sourceView(r, one), nil
		}),
	}
	change.add(c)
	c.Flags().StringVar(&tenant, "tenant", "", "whose source it is")
	return c
}

func (s *session) sourcesList() *cobra.Command {
	var f client.SourceFilter
	c := paging(&cobra.Command{
		Use: "list", Short: "List sources",
		RunE: s.ask(func(ctx context.Context, r reader, _ []string) (cli.View, error) {
			p, err := r.Sources(ctx, f)
			if err != nil {
				return cli.View{}, err
			}
			return page(p, sourceHead, func(one client.Source) []string { return sourceRow(&one) }), nil
		}),
	}, &f.Limit, &f.Cursor)
	c.Flags().StringVar(&f.Tenant, "tenant", "", "only this tenant")
	return c
}

func (s *session) sourcesGet() *cobra.Command {
	return &cobra.Command{
		Use: "get SOURCE_ID", Aliases: []string{"show"}, Short: "Show a source, and how long its provider goes on trying", Args: takes(cobra.ExactArgs(1)),
		RunE: s.ask(func(ctx context.Context, r reader, args []string) (cli.View, error) {
			one, err := r.Source(ctx, args[0])
			if err != nil {
				return cli.View{}, err
			}
			return sourceView(r, one), nil
		}),
	}
}

func (s *session) sourcesUpdate() *cobra.Command {
	var change sourceFlags
	var name, status string
	c := &cobra.Command{
		Use: "update SOURCE_ID", Short: "Change a source", Args: takes(cobra.ExactArgs(1)),
		Example: "grapnel sources update src_… --on-unverified quarantine\ngrapnel sources update src_… --status paused",
		RunE: s.ask(func(ctx context.Context, r reader, args []string) (cli.View, error) {
			fields, err := change.fields(s)
			if err != nil {
				return cli.View{}, err
			}
			if name != "" {
				fields["name"] = name
			}
			if status != "" {
				fields["status"] = status
			}
			if len(fields) == 0 {
				return cli.View{}, cli.Usagef("nothing to change: give a flag that says what")
			}
			one, err := r.UpdateSource(ctx, args[0], fields)
			if err != nil {
				return cli.View{}, err
			}
			return sourceView(r, one), nil
		}),
	}
	change.add(c)
	c.Flags().StringVar(&name, "name", "", "its name")
	c.Flags().StringVar(&status, "status", "", "enabled, or paused: requests get 503, so that the provider keeps and repeats them")
	return c
}

func (s *session) sourcesRotate() *cobra.Command {
	var overlap time.Duration
	var secret string
	c := &cobra.Command{
		Use: "rotate-secret SOURCE_ID", Short: "Give a source the provider's new secret", Args: takes(cobra.ExactArgs(1)),
		Example: "grapnel sources rotate-secret src_… --secret @new.secret --overlap 48h",
		RunE: s.ask(func(ctx context.Context, r reader, args []string) (cli.View, error) {
			text, err := s.text("--secret", secret)
			if err != nil {
				return cli.View{}, err
			}
			if overlap == 0 {
				overlap = -1 // which is how the client says: at once
			}
			one, err := r.RotateSourceSecret(ctx, args[0], text, overlap)
			if err != nil {
				return cli.View{}, err
			}
			return sourceView(r, one), nil
		}),
	}
	c.Flags().StringVar(&secret, "secret", "", "the new secret: @FILE, or - for standard input")
	cli.DurationVar(c.Flags(), &overlap, "overlap", 24*time.Hour, "how long the secrets before count as well")
	return needs(c, "secret")
}

func (s *session) sourcesDelete() *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: "delete SOURCE_ID…", Short: "Delete sources; what they took in stays", Args: takes(cobra.MinimumNArgs(1)),
		RunE: s.askEach(nil, func(ctx context.Context, r reader, id string) (json.RawMessage, []string, error) {
			return deleted(id, r.DeleteSource(ctx, id, reason))
		}),
	}
	reasoned(c, &reason)
	return s.deletes("sources", c)
}

var sourceHead = []string{"SOURCE", "NAME", "SCHEME", "STATUS", "UNVERIFIED", "INGEST", "PROVIDER RETRIES FOR", "TENANT"}

func sourceRow(one *client.Source) []string {
	retries, scheme := "", one.Verify.Scheme
	if one.Outbox != nil {
		scheme = "outbox"
	}
	if one.Provider.RetriesFor != nil {
		retries = one.Provider.RetriesFor.String()
	}
	return []string{one.ID, one.Name, scheme, string(one.Status), string(one.OnUnverified), one.IngestURL, retries, one.Tenant}
}

func sourceView(r reader, one *client.Source) cli.View {
	by := make([]string, len(one.Dedupe.By))
	for i, b := range one.Dedupe.By {
		by[i] = string(b)
	}
	known := "nothing: every request becomes an event"
	if len(by) > 0 {
		known = "the first there is of " + strings.Join(by, ", ") + ", for " + one.Dedupe.Window.String()
	}
	tolerance := ""
	if one.Verify.Tolerance != nil {
		tolerance = one.Verify.Tolerance.String()
	}
	ids := ""
	if !one.Provider.IDsSigned {
		ids = "not covered by the signature"
	}
	if o := one.Outbox; o != nil {
		return object(one.ID, one.JSON(), [][]string{
			{"source", one.ID}, {"name", one.Name}, {"status", string(one.Status)}, {"tenant", one.Tenant}, {"description", one.Description},
			{"outbox", o.Place}, {"relay", o.State}, {"why", o.Detail}, {"lag", o.Lag.String()}, {"events", positive(int(o.Events))}, {"set aside", positive(int(o.SetAside))},
			{"last event", r.Time(o.LastEventAt)}, {"created", r.Time(&one.CreatedAt)},
		})
	}
	refused := ""
	if f := one.Refusals; f != nil {
		refused = fmt.Sprintf("last %s, with %d: %s (%d in the last hour)", r.Time(&f.LastAt), f.LastStatus, strings.TrimSuffix(f.LastReason, "."), f.LastHour)
	}
	form := [][]string{
		{"source", one.ID}, {"name", one.Name}, {"send to", ingestURL(r.Server(), one.IngestURL)}, {"status", string(one.Status)},
		{"tenant", one.Tenant}, {"description", one.Description},
		{"scheme", one.Verify.Scheme}, {"provider", one.Provider.Title}, {"signature", one.Provider.Signature}, {"ids", ids},
		{"retries", one.Provider.Retries}, {"secrets", positive(len(one.Verify.Secrets))}, {"header", one.Verify.Header},
		{"signed", one.Verify.Signed}, {"tolerance", tolerance}, {"unverified", string(one.OnUnverified)}, {"known by", known},
		{"ignored", strings.Join(one.Dedupe.Ignore, ", ")}, {"type", one.Type}, {"key", one.Key}, {"public url", one.PublicURL}, {"refused", refused},
		{"created", r.Time(&one.CreatedAt)},
	}
	return object(one.ID, one.JSON(), form)
}

// ingestURL is where a source's provider sends to. A server that does not know its public address
// gives a path; it is below the address by which we reach it.
func ingestURL(server, url string) string {
	if strings.HasPrefix(url, "/") {
		return strings.TrimSuffix(server, "/") + url
	}
	return url
}
