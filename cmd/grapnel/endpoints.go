package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/cli"
	"github.com/grapnelhq/grapnel/internal/face/words"
	"github.com/grapnelhq/grapnel/policy"
)

var endpoints = resource[client.Endpoint]{
	path: "/v1/endpoints", plural: "endpoints", id: "ENDPOINT", argument: "url", instead: "target", audited: true,
	filters:  cli.EndpointFilters,
	settings: cli.EndpointSettings,
	head:     endpointHead, row: endpointRow, view: endpointView,
	created: func(r reader, e *client.Endpoint) cli.View {
		if !r.Machine() {
			noteRefused(r.world, e)
		}
		r.world.Note("Try it: grapnel endpoints test %s", e.ID)
		v := endpointView(r, e)
		v.Parts = v.Parts[1:] // it has no health yet
		return v
	},
	held: func(e *client.Endpoint) (string, bool) {
		return e.ID, e.Status == grapnel.EndpointPaused && e.DisabledReason == grapnel.HeldReason
	},
	once: "secret", note: "The secret is shown only now: give it to the receiver.",
	verbs: []verb{
		{"create", "Create an endpoint and show its secret, this once",
			"grapnel endpoints create https://example.com/hooks --types 'invoice.*' --policy paylera\n" +
				"grapnel endpoints create --target kafka --target-address kafka+ssl://b1.example.com:9093 --target-name invoices"},
		{"list", "List endpoints", "grapnel endpoints list --label team=billing --all"},
		{"get", "Show an endpoint: its health first, then its settings", ""},
		{"update", "Change an endpoint",
			"grapnel endpoints update ep_… --rate 100/200 --policy standard\ngrapnel endpoints update ep_… --filter ''"},
		{"delete", "Delete endpoints; their pending deliveries end as dropped", ""},
	},
}

func (s *session) endpointsCommand() *cobra.Command {
	return group("endpoints", "Create, change and look at endpoints", slices.Concat(endpoints.commands(s),
		endpoints.levers(s, []lever[client.Endpoint]{
			{"pause", "Hold deliveries to endpoints", "grapnel endpoints pause ep_… --reason 'they deploy until noon'",
				(*client.Client).PauseEndpoint, false},
			{"resume", "Continue deliveries to paused endpoints", "", (*client.Client).ResumeEndpoint, false},
			{"enable", "Enable endpoints that were disabled", "", (*client.Client).EnableEndpoint, false},
			{"probe", "Probe failing endpoints now", "grapnel endpoints probe ep_… --reason 'they say it is fixed'",
				(*client.Client).ProbeEndpoint, false},
		}),
		[]*cobra.Command{endpointsLanes(s), endpointsRotate(s), endpointsTest(s), endpointsRetry(s), endpointsConsent(s)})...)
}

// noteRefused says what the policy of a new endpoint does with answers such as 422. An answer has
// only the name of a saved policy, so nothing is said of one.
func noteRefused(w *cli.World, e *client.Endpoint) {
	if e.Target != nil {
		return // a broker answers without a status
	}
	var name string
	_ = json.Unmarshal(e.Policy, &name) // it stays empty if the policy is the endpoint's own
	final := "classify them as fail in its policy"
	p, preset := policy.Preset(name)
	if preset {
		final = "grapnel endpoints update " + e.ID + " --policy '" + words.FinalPolicy(&p) + "'"
	} else {
		var err error
		if p, err = cli.ReadPolicy(e.Policy); err != nil {
			return
		}
	}
	said, again := words.Refused(&p)
	if again {
		said += " To have one attempt only: " + final
	}
	w.Note("%s", said)
}

// endpointsRetry attempts the pending deliveries of an endpoint now.
func endpointsRetry(s *session) *cobra.Command {
	var which client.NewRetry
	c := &cobra.Command{
		Use: "retry ENDPOINT", Short: "Retry all that waits for an endpoint, now",
		Long: "Retry the deliveries that wait for a later attempt, now: the first of each key, and those without a key. Deliveries held " +
			"behind them follow in order. Limits hold, and while the circuit is open one delivery probes.",
		Example: "grapnel endpoints retry ep_… --reason 'they fixed it'\ngrapnel endpoints retry ep_… --status-code 422",
		PreRunE: narrows("type", "event-key", "error-class", "status-code"),
		RunE: s.ask(func(ctx context.Context, r reader, args []string) (cli.View, error) {
			done, err := r.RetryAll(ctx, args[0], which)
			if err != nil {
				return cli.View{}, err
			}
			switch {
			case done.Probe:
				s.Note("the circuit is open: one delivery probes the endpoint, and the others follow if it succeeds")
			case done.More:
				s.Note("there are more: repeat the command")
			case done.Retried == 0:
				s.Note("nothing waits for a later attempt")
			}
			return object(args[0], done.JSON(), [][]string{{"endpoint", args[0]}, {"retried", strconv.Itoa(done.Retried)}}), nil
		}),
	}
	f := c.Flags()
	f.StringSliceVar(&which.EventTypes, "type", nil, "only these event types; * stands for any part of one")
	f.StringSliceVar(&which.Keys, "event-key", nil, "only these ordering keys")
	f.StringVar((*string)(&which.ErrorClass), "error-class", "", "only those whose last attempt ended in this: timeout, status_4xx, …")
	f.IntVar(&which.StatusCode, "status-code", 0, "only those whose last attempt got this response")
	cli.Sets(f, "type", "event_types")
	cli.Sets(f, "event-key", "keys")
	reasoned(c, &which.Reason)
	return c
}

// endpointsConsent sends the address of an endpoint the challenge again.
func endpointsConsent(s *session) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: "consent ENDPOINT", Short: "Ask an endpoint's address for consent now, and show the result",
		Long: "Sends the challenge again to the address of an endpoint that waits for its consent. Its deliveries are held until then.\n" +
			"Exits 9 if the address did not consent.",
		Example: "grapnel endpoints consent Warehouse --reason 'they have deployed the answer'",
		RunE: s.withReader(func(ctx context.Context, r reader, args []string) error {
			e, err := r.AskConsent(ctx, args[0], reason)
			if err == nil {
				err = r.Print(endpointView(r, e))
			}
			if err == nil && e.Consent != nil && e.Consent.GivenAt == nil {
				err = cli.Partial("the address has not consented: %s", e.Consent.Cause)
			}
			return err
		}),
	}
	reasoned(c, &reason)
	return c
}

// consentOf is the consent of an endpoint's address on one line.
func consentOf(r reader, c *client.Consent) string {
	switch {
	case c == nil:
		return ""
	case c.GivenAt != nil:
		return "given at " + r.Time(c.GivenAt)
	case c.NextAt != nil:
		return fmt.Sprintf("asked for %d times; next at %s", c.Asked, r.Time(c.NextAt))
	}
	return fmt.Sprintf("asked for %d times; grapnel endpoints consent asks again", c.Asked)
}

func endpointsRotate(s *session) *cobra.Command {
	var overlap time.Duration
	c := &cobra.Command{
		Use: "rotate-secret ENDPOINT", Short: "Replace an endpoint's secret and show the new one, this once",
		Example: "grapnel endpoints rotate-secret Warehouse --overlap 48h",
		RunE: s.ask(func(ctx context.Context, r reader, args []string) (cli.View, error) {
			e, err := r.RotateSecret(ctx, args[0], cmp.Or(overlap, -1)) // 0 would be the server's default
			if err != nil {
				return cli.View{}, err
			}
			s.noteOnce("secret", "The secret is shown only now. The old one continues to sign for "+policy.Duration(overlap).String()+".")
			return endpointView(r, e), nil
		}),
	}
	cli.DurationVar(c.Flags(), &overlap, "overlap", 24*time.Hour, "how long the old secret signs as well")
	return c
}

func endpointsTest(s *session) *cobra.Command {
	var eventType, data string
	var wait, delay time.Duration
	c := &cobra.Command{
		Use: "test ENDPOINT", Short: "Send an event to one endpoint alone, and show its answer",
		Long: "Sends an event to one endpoint alone, waits for its answer and prints it. A test is attempted once and counts nowhere.\n" +
			"Exits 9 if the receiver did not take it.",
		Example: "grapnel endpoints test ep_… --type invoice.paid -d '{\"total\":1}'",
		RunE: s.withReader(func(ctx context.Context, r reader, args []string) error {
			body, err := s.Content("-d", data)
			if err != nil {
				return err
			}
			if data == "" {
				body = nil
			} else if !json.Valid(body) {
				return cli.Usagef("-d: the data is not JSON")
			}
			d, err := r.TestEndpointLater(ctx, args[0], delay, eventType, body)
			if err != nil {
				return err
			}
			if wait > 0 {
				wait += delay
			}
			return outcome(ctx, r, d, wait, "the receiver did not take the event")
		}),
	}
	cli.DurationVar(c.Flags(), &wait, "wait", 10*time.Second, "longest wait for the outcome of the first attempt, besides --delay; 0s: do not wait")
	cli.DurationVar(c.Flags(), &delay, "delay", 0, "earliest time of the first attempt, from now; at most 24h")
	c.Flags().StringVar(&eventType, "type", "", "type of the event")
	c.Flags().StringVarP(&data, "data", "d", "", "its data: JSON, @FILE, or - for standard input")
	return c
}

// outcome waits for a test's attempt and prints it. A failure is an error with the fault's name.
func outcome(ctx context.Context, r reader, d *client.Delivery, wait time.Duration, fault string) error {
	d, err := attempted(ctx, r, d, wait)
	if err == nil {
		err = r.Print(deliveryView(r, d))
	}
	if err == nil && d.AttemptsMade > 0 && d.Status != grapnel.Delivered {
		err = cli.Partial("%s: %s", fault, lastOutcome(d))
	}
	return err
}

// attempted is a delivery after its first attempt, or before it if the attempt takes longer than
// wait.
func attempted(ctx context.Context, r reader, d *client.Delivery, wait time.Duration) (*client.Delivery, error) {
	if wait <= 0 {
		return d, nil
	}
	within, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		now, err := r.Delivery(within, d.ID)
		switch {
		case err == nil && (now.AttemptsMade > 0 || now.Status.Final()):
			return now, nil
		case err == nil:
			d = now
		case within.Err() == nil:
			r.world.Note("the test was sent; its outcome cannot be read: %v", err)
			return d, nil
		}
		select {
		case <-tick.C:
		case <-within.Done():
			if err := context.Cause(ctx); err != nil {
				r.world.Note("the test was sent. To see its outcome: grapnel deliveries get %s", d.ID)
				return nil, err
			}
			r.world.Note("the test was sent; no outcome after %s. To see it later: grapnel deliveries get %s", wait, d.ID)
			return d, nil
		}
	}
}

var endpointHead = []string{"NAME", "ENDPOINT", "STATUS", "HEALTH", "HELD", "URL", "TYPES", "POLICY", "TENANT"}

func endpointRow(_ reader, e *client.Endpoint) []string {
	types := "*"
	if len(e.EventTypes) > 0 {
		types = strings.Join(e.EventTypes, ",")
	}
	return []string{cmp.Or(e.Description, called(e.URL)), e.ID, string(e.Status), string(e.Health.State),
		count(e.Health.Held, e.Health.HeldMore), e.URL, types, words.Policy(e.Policy, e.PolicyChanges), e.Tenant}
}

func endpointView(r reader, e *client.Endpoint) cli.View {
	row := endpointRow(r, e)
	h := &e.Health
	v := object(e.ID, e.JSON(), [][]string{
		{"endpoint", e.ID}, {"secret", e.Secret}, {"status", string(e.Status)}, {"why", e.DisabledReason},
		{"consent", consentOf(r, e.Consent)},
		{"held", holding(h)}, {"next probe", r.Time(h.NextProbeAt)}, {"next attempt", r.Time(h.NextAttemptAt)},
		{"in flight", positive(h.InFlight)}, {"strikes", positive(h.Strikes)}, {"failing since", r.Time(h.FailingSince)},
		{"url", e.URL}, {"target", cli.Compact(cli.Encode(e.Target))}, {"tenant", e.Tenant}, {"description", e.Description}, {"labels", cli.Compact(cli.Encode(e.Labels))},
		{"types", row[6]}, {"filter", e.Filter}, {"source", e.Source}, {"policy", row[7]}, {"ordering", string(e.Ordering)},
		{"format", string(e.Format)},
		{"rate limit", rateLimit(e.RateLimit)}, {"concurrency", strconv.Itoa(e.MaxConcurrency)}, {"headers", cli.Compact(cli.Encode(e.Headers))},
		{"method", e.Method}, {"oauth2", cli.Compact(cli.Encode(e.OAuth2))}, {"tls", tlsParts(e.TLS)},
		{"client certificate ends", r.Time(e.ClientCertEnds)}, {"proxy", e.Proxy}, {"signature headers", string(e.Signing)},
		{"public keys", e.JWKSURL},
		{"trace", map[bool]string{true: "sent"}[e.Trace]}, {"transform", e.Transform}, {"by its preset", presetShape(e.PresetShape)},
		{"created", r.Time(&e.CreatedAt)},
	})
	v.Parts = append([]cli.Part{{Title: headline(r, h)}}, v.Parts...)
	return v
}

// tlsParts names what an endpoint's own TLS settings have.
func tlsParts(t *client.TLS) string {
	var parts []string
	if t != nil && t.CA != "" {
		parts = append(parts, "trusted authorities")
	}
	if t != nil && t.ClientCert != "" {
		parts = append(parts, "client certificate")
	}
	if t != nil && t.ClientKey != "" {
		parts = append(parts, "private key")
	}
	return strings.Join(parts, ", ")
}

func rateLimit(limit *grapnel.RateLimit) string {
	if limit == nil {
		return "none"
	}
	return strconv.FormatFloat(limit.PerSecond, 'f', -1, 64) + "/s, bursts of " + strconv.Itoa(limit.Burst)
}

// presetShape is what the preset says about requests, on one line.
func presetShape(p *client.PresetShape) string {
	if p == nil {
		return ""
	}
	return words.Request(p.Headers, p.Transform, p.Format, p.Ordering)
}
