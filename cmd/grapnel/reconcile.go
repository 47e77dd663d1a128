package main

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/cli"
	"github.com/grapnelhq/grapnel/internal/inbound/ingress"
)

// reconciling is the order to `grapnel reconcile`.
type reconciling struct {
	since            cli.Moment
	token, hook, api string
	all, resend      bool
}

func (s *session) reconcileCommand() *cobra.Command {
	o := reconciling{}
	c := &cobra.Command{
		Use: "reconcile SOURCE", Short: "Ask a source's provider what did not arrive, and to send it again",
		Long: "Ask the provider of a source which webhooks it has sent and which of them did not arrive, and with --resend to " +
			"send those again. They come in through the source like any other, so an event that was received already is a " +
			"duplicate and does no harm.\n\n" +
			"GitHub does not retry by itself, but sends again on request for three days; the token needs the right to " +
			"manage the webhook. Stripe can list what did not arrive, and does not send it again on request. The command " +
			"talks to the provider itself: the token does not go to the server. It exits with 8 when a webhook did not " +
			"arrive and was not requested again.",
		Example: "grapnel reconcile src_… --hook repos/acme/shop/hooks/12345 --token @github.token --since 24h\n" +
			"grapnel reconcile src_… --hook repos/acme/shop/hooks/12345 --token @github.token --since 24h --resend",
		RunE: s.withReader(func(ctx context.Context, r reader, args []string) error {
			return reconcileSource(ctx, r, args[0], &o, s.timeout)
		}),
	}
	f := c.Flags()
	f.Var(o.since.Past(), "since", "sent at or after this time: 2026-01-31T12:00:00Z, or 6h for six hours ago; 24h if not given")
	f.StringVar(&o.token, "token", "", "token for the provider's API")
	f.StringVar(&o.hook, "hook", "", "GitHub: the webhook's path in the API: repos/OWNER/REPO/hooks/ID, orgs/ORG/hooks/ID, or app/hook")
	f.StringVar(&o.api, "api", "", "address of the provider's API, if it is not the public one")
	f.BoolVar(&o.all, "all", false, "show webhooks that arrived as well")
	f.BoolVar(&o.resend, "resend", false, "ask the provider to send those that did not arrive again")
	s.confirmed(c)
	return needs(c, "token")
}

// reconcileSource asks the provider of a source.
func reconcileSource(ctx context.Context, r reader, id string, o *reconciling, timeout time.Duration) error {
	src, err := r.Source(ctx, id)
	if err != nil {
		return err
	}
	token, err := r.world.Text("--token", o.token)
	if err != nil {
		return err
	}
	provider, err := o.provider(src, ingress.Account{Token: token, URL: o.api, Client: &http.Client{Timeout: timeout}})
	if err != nil {
		return err
	}
	since := o.since.Time
	if since.IsZero() {
		since = r.world.Now().Add(-24 * time.Hour)
	}
	sent, err := provider.Sent(ctx, since)
	if err != nil {
		return err
	}
	var missing []ingress.Sent
	for _, one := range sent {
		if one.Failed {
			missing = append(missing, one)
		}
	}
	if o.resend && len(missing) > 1 {
		if err := r.world.Confirm("Ask for %d webhooks to be sent again?", len(missing)); err != nil {
			return err
		}
	}
	asked, refused := map[string]bool{}, 0
	if o.resend {
		for _, one := range missing {
			if err := provider.Resend(ctx, one); err != nil {
				if grapnel.CodeOf(err) == grapnel.CodeUnsupported || ctx.Err() != nil {
					return err
				}
				r.world.Note("%s: %v", one.Event, err)
				refused++
				continue
			}
			asked[one.ID] = true
		}
	}
	shown := missing
	if o.all {
		shown = sent
	}
	if err := r.Print(sentView(r, shown, asked)); err != nil {
		return err
	}
	switch {
	case refused > 0:
		return cli.Partial("%d of %d were not asked for again", refused, len(missing))
	case len(missing) > len(asked):
		f := cli.Findings("%d of the %d that the provider has sent since %s did not arrive",
			len(missing), len(sent), since.UTC().Format(time.RFC3339))
		if !o.resend {
			f.Next = "Ask for them with --resend."
		}
		return f
	}
	r.world.Note("The provider has sent %d since %s; asked for %d again.", len(sent), since.UTC().Format(time.RFC3339), len(asked))
	return nil
}

// provider is the API of a source's provider.
func (o *reconciling) provider(src *client.Source, account ingress.Account) (ingress.Reconciler, error) {
	switch src.Verify.Scheme {
	case "github":
		if o.hook == "" {
			return nil, cli.Usagef("GitHub has to know which webhook: give --hook repos/OWNER/REPO/hooks/ID")
		}
		return &ingress.GitHub{Account: account, Hook: o.hook}, nil
	case "stripe":
		return &ingress.Stripe{Account: account}, nil
	}
	return nil, &cli.Fault{Exit: cli.ExitUsage, Code: "unsupported", Text: src.Provider.Title + " cannot be asked what it has sent",
		Next: "It retries by itself: " + src.Provider.Retries + "."}
}

// sentWebhook is a webhook that a provider has sent, in JSON.
type sentWebhook struct {
	Event   string          `json:"event"`
	ID      string          `json:"delivery"`
	Type    string          `json:"type"`
	At      time.Time       `json:"at"`
	Arrived bool            `json:"arrived"`
	Status  int             `json:"status_code,omitempty"`
	Detail  string          `json:"detail,omitempty"`
	Again   bool            `json:"asked_again"`
	Body    json.RawMessage `json:"body,omitempty"`
}

func sentView(r reader, all []ingress.Sent, asked map[string]bool) cli.View {
	shown := make([]sentWebhook, len(all))
	for i, one := range all {
		shown[i] = sentWebhook{one.Event, one.ID, one.Type, one.At, !one.Failed, one.Status, one.Detail, asked[one.ID], bodyOf(one)}
	}
	head := []string{"EVENT", "TYPE", "SENT", "ARRIVED", "STATUS", "THEY SAY", "AGAIN"}
	return list(nil, head, shown, func(w *sentWebhook) []string {
		again := map[bool]string{true: "asked for"}[w.Again]
		return []string{w.Event, w.Type, r.Time(&w.At), yesNo(w.Arrived), positive(w.Status), w.Detail, again}
	})
}

func bodyOf(one ingress.Sent) json.RawMessage {
	if !json.Valid(one.Body) {
		return nil
	}
	return one.Body
}
