package main

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/face/cli"
)

var sources = resource[client.Source]{
	path: "/v1/sources", plural: "sources", id: "SOURCE", argument: "name", audited: true,
	filters: cli.OnlyTenant, needed: []string{"scheme|outbox|broker"},
	settings: cli.SourceSettings,
	head:     sourceHead, row: sourceRow, view: sourceView,
	verbs: []verb{
		{"create", "Create a source and show the URL for its provider",
			"grapnel sources create stripe-live --scheme stripe\n" +
				"grapnel sources create stripe-live --scheme stripe --secret @stripe.secret\n" +
				"grapnel sources create partner --scheme hmac --secret @partner.secret --header X-Signature --prefix sha256=\n" +
				"grapnel sources create partner --scheme api_key --secret @partner.key --event-id event.data.id\n" +
				"grapnel sources create orders --outbox @orders.dsn\n" +
				"grapnel sources create orders --broker nats --broker-address tls://nats.example.com --broker-name ORDERS --type '\"order.changed\"'"},
		{"list", "List sources", ""},
		{"get", "Show a source, and how long its provider retries", ""},
		{"update", "Change a source",
			"grapnel sources update src_… --on-unverified quarantine\ngrapnel sources update src_… --status paused"},
		{"delete", "Delete sources; their events and requests stay", ""},
	},
}

func (s *session) sourcesCommand() *cobra.Command {
	return group("sources", "Create, change and look at sources: addresses that receive webhooks",
		append(sources.commands(s), sourcesRotate(s))...)
}

func sourcesRotate(s *session) *cobra.Command {
	var overlap time.Duration
	var secret string
	c := &cobra.Command{
		Use: "rotate-secret SOURCE", Short: "Set the provider's secret; release requests that waited for it",
		Example: "grapnel sources rotate-secret src_… --secret @new.secret --overlap 48h",
		RunE: s.ask(func(ctx context.Context, r reader, args []string) (cli.View, error) {
			text, err := s.Text("--secret", secret)
			if err != nil {
				return cli.View{}, err
			}
			return viewOf(r, sourceView)(r.RotateSourceSecret(ctx, args[0], text, cmp.Or(overlap, -1))) // 0 would be the server's default
		}),
	}
	c.Flags().StringVar(&secret, "secret", "", "the new secret: @FILE, or - for standard input")
	cli.DurationVar(c.Flags(), &overlap, "overlap", 24*time.Hour, "how long the former secrets are accepted as well")
	return needs(c, "secret")
}

var sourceHead = []string{"NAME", "SOURCE", "SCHEME", "STATUS", "UNVERIFIED", "INGEST", "PROVIDER RETRIES FOR", "TENANT"}

func sourceRow(_ reader, one *client.Source) []string {
	retries, scheme := "", one.Verify.Scheme
	if one.Outbox != nil {
		scheme = "outbox"
	}
	if one.Broker != nil {
		scheme = one.Broker.Kind
	}
	if one.Provider.RetriesFor != nil {
		retries = one.Provider.RetriesFor.String()
	}
	return []string{one.Name, one.ID, scheme, sourceStatus(one), string(one.OnUnverified), one.IngestURL, retries, one.Tenant}
}

// sourceStatus is a source's status in words.
func sourceStatus(one *client.Source) string {
	if one.Waits {
		return string(one.Status) + ", waits for its secret"
	}
	return string(one.Status)
}

// sourceNotes writes the next step to standard error, if one is left before webhooks can arrive.
func sourceNotes(r reader, one *client.Source) {
	if one.Unreachable != "" {
		r.world.Note("%s", one.Unreachable)
	}
	if one.Waits {
		r.world.Note("The source waits for its secret; its requests are quarantined meanwhile. Give the provider the URL, then set the secret "+
			"that it shows: grapnel sources rotate-secret %s --secret @FILE", one.ID)
	}
}

// releasedText says what became of the requests that waited for a secret.
func releasedText(n *client.Released) string {
	if n == nil {
		return ""
	}
	return say.Many(n.Events, "event", "events") + ", " + say.Many(n.Duplicates, "duplicate", "duplicates") + ", " +
		say.Many(n.Conflicts, "conflict", "conflicts") + "; " + strconv.Itoa(n.Quarantined) + " still in quarantine"
}

func sourceView(r reader, one *client.Source) cli.View {
	sourceNotes(r, one)
	by := make([]string, len(one.Dedupe.By))
	for i, b := range one.Dedupe.By {
		by[i] = string(b)
	}
	known := "not recognised: every request becomes an event"
	if len(by) > 0 {
		known = "recognised by " + strings.Join(by, ", else ") + ", for " + say.Spoken(time.Duration(one.Dedupe.Window))
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
			{"source", one.ID}, {"name", one.Name}, {"status", string(one.Status)}, {"tenant", one.Tenant},
			{"description", one.Description}, {"outbox", o.Place}, {"relay", o.State}, {"why", o.Detail}, {"lag", o.Lag.String()},
			{"events", positive(o.Events)}, {"set aside", positive(o.SetAside)},
			{"last event", r.Time(o.LastEventAt)}, {"created", r.Time(&one.CreatedAt)},
		})
	}
	if one.Broker != nil || one.TLS != nil {
		o := cmp.Or(one.Consumer, &client.Outbox{})
		return object(one.ID, one.JSON(), [][]string{
			{"source", one.ID}, {"name", one.Name}, {"status", string(one.Status)}, {"tenant", one.Tenant}, {"description", one.Description},
			{"broker", cli.Compact(cli.Encode(one.Broker))}, {"tls", cli.Compact(cli.Encode(one.TLS))}, {"type", one.Type}, {"key", one.Key},
			{"event id", one.EventID}, {"consumer", o.State}, {"why", o.Detail}, {"lag", o.Lag.String()}, {"events", positive(o.Events)},
			{"set aside", positive(o.SetAside)}, {"last event", r.Time(o.LastEventAt)}, {"created", r.Time(&one.CreatedAt)},
		})
	}
	refused := ""
	if f := one.Refusals; f != nil {
		refused = fmt.Sprintf("last %s, with %d: %s (%d in the last hour)",
			r.Time(&f.LastAt), f.LastStatus, strings.TrimSuffix(f.LastReason, "."), f.LastHour)
		if one.OnUnverified == "reject" {
			refused += "; refused requests are not stored. To store those that cannot be verified: grapnel sources update " +
				one.ID + " --on-unverified quarantine"
		}
	}
	limit, largest := "", ""
	if one.RateLimit != nil {
		limit = rateLimit(one.RateLimit)
	}
	if one.MaxBody > 0 {
		largest = strconv.FormatInt(one.MaxBody, 10) + " bytes"
	}
	form := [][]string{
		{"source", one.ID}, {"name", one.Name}, {"send to", ingestURL(r.Server(), one.IngestURL)}, {"status", sourceStatus(one)},
		{"released", releasedText(one.Released)}, {"tenant", one.Tenant}, {"description", one.Description},
		{"scheme", one.Verify.Scheme}, {"provider", one.Provider.Title}, {"signature", one.Provider.Signature}, {"ids", ids},
		{"retries", one.Provider.Retries}, {"secrets", positive(len(one.Verify.Secrets))}, {"header", one.Verify.Header},
		{"algorithm", one.Verify.Algorithm}, {"encoding", one.Verify.Encoding}, {"prefix", one.Verify.Prefix},
		{"timestamp header", one.Verify.TimestampHeader}, {"id header", one.Verify.IDHeader}, {"type header", one.Verify.TypeHeader},
		{"username", one.Verify.Username}, {"signed", one.Verify.Signed}, {"tolerance", tolerance}, {"unverified", string(one.OnUnverified)}, {"duplicates", known},
		{"ignored", strings.Join(one.Dedupe.Ignore, ", ")}, {"type", one.Type}, {"key", one.Key}, {"event id", one.EventID},
		{"public url", one.PublicURL}, {"rate limit", limit}, {"largest body", largest},
		{"refused", refused}, {"created", r.Time(&one.CreatedAt)},
	}
	return object(one.ID, one.JSON(), form)
}

// ingestURL is the URL that a source's provider calls. A server that does not know its public
// address gives a path: below the address by which we reach it, or with that address's path before
// it if a proxy said so.
func ingestURL(server, path string) string {
	if !strings.HasPrefix(path, "/") {
		return path
	}
	at, err := url.Parse(strings.TrimSuffix(server, "/"))
	if err == nil && at.Path != "" && strings.HasPrefix(path, at.Path+"/") {
		return strings.TrimSuffix(at.String(), at.Path) + path
	}
	return strings.TrimSuffix(server, "/") + path
}
