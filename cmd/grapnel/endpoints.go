package main

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/cli"
)

func (s *session) endpoints() *cobra.Command {
	return group("endpoints", "Create, change and look at endpoints",
		s.endpointsCreate(), s.endpointsList(), s.endpointsShow(), s.endpointsUpdate(), s.endpointsDelete(),
		s.endpointsPause(), s.endpointsResume(), s.endpointsEnable(), s.endpointsProbe(), s.endpointsLanes(),
		s.endpointsRotate(), s.endpointsTest())
}

func (s *session) endpointsCreate() *cobra.Command {
	var change endpointFlags
	var tenant, secret string
	c := &cobra.Command{
		Use: "create URL", Short: "Create an endpoint and show its secret, this once", Args: takes(cobra.ExactArgs(1)),
		Example: "grapnel endpoints create https://example.com/hooks --types 'invoice.*' --policy paylera",
		RunE: s.ask(func(ctx context.Context, r reader, args []string) (cli.View, error) {
			fields, err := change.fields(s)
			if err != nil {
				return cli.View{}, err
			}
			fields["url"] = args[0]
			if tenant != "" {
				fields["tenant"] = tenant
			}
			if secret != "" {
				if fields["secret"], err = s.text("--secret", secret); err != nil {
					return cli.View{}, err
				}
			}
			e := new(client.Endpoint)
			if err := r.Do(ctx, "POST", "/v1/endpoints", nil, fields, e); err != nil {
				return cli.View{}, err
			}
			s.Note("The secret is shown only now: give it to whoever receives.")
			return endpointView(r, e), nil
		}),
	}
	change.add(c)
	c.Flags().StringVar(&tenant, "tenant", "", "whose endpoint it is")
	c.Flags().StringVar(&secret, "secret", "", "sign with this whsec_ secret: @FILE or - for standard input; default: a new one")
	return c
}

func (s *session) endpointsList() *cobra.Command {
	var f client.EndpointFilter
	c := paging(&cobra.Command{
		Use: "list", Short: "List endpoints",
		RunE: s.ask(func(ctx context.Context, r reader, _ []string) (cli.View, error) {
			p, err := r.Endpoints(ctx, f)
			if err != nil {
				return cli.View{}, err
			}
			return page(p, endpointHead, func(e client.Endpoint) []string { return endpointRow(&e) }), nil
		}),
	}, &f.Limit, &f.Cursor)
	c.Flags().StringVar(&f.Tenant, "tenant", "", "only this tenant")
	return c
}

func (s *session) endpointsShow() *cobra.Command {
	return &cobra.Command{
		Use: "show ENDPOINT_ID", Aliases: []string{"get"}, Short: "Show how an endpoint is doing, and what it is", Args: takes(cobra.ExactArgs(1)),
		RunE: s.ask(func(ctx context.Context, r reader, args []string) (cli.View, error) {
			e, err := r.Endpoint(ctx, args[0])
			if err != nil {
				return cli.View{}, err
			}
			return endpointView(r, e), nil
		}),
	}
}

func (s *session) endpointsUpdate() *cobra.Command {
	var change endpointFlags
	var url string
	c := &cobra.Command{
		Use: "update ENDPOINT_ID", Short: "Change an endpoint", Args: takes(cobra.ExactArgs(1)),
		Example: "grapnel endpoints update ep_… --rate 100/200 --policy standard\ngrapnel endpoints update ep_… --filter ''",
		RunE: s.ask(func(ctx context.Context, r reader, args []string) (cli.View, error) {
			fields, err := change.fields(s)
			if err != nil {
				return cli.View{}, err
			}
			if url != "" {
				fields["url"] = url
			}
			if len(fields) == 0 {
				return cli.View{}, cli.Usagef("nothing to change: give a flag that says what")
			}
			e, err := r.UpdateEndpoint(ctx, args[0], fields)
			if err != nil {
				return cli.View{}, err
			}
			return endpointView(r, e), nil
		}),
	}
	change.add(c)
	c.Flags().StringVar(&url, "url", "", "where its events go")
	return c
}

func (s *session) endpointsDelete() *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: "delete ENDPOINT_ID…", Short: "Delete endpoints; what waits for them ends as dropped", Args: takes(cobra.MinimumNArgs(1)),
		RunE: s.askEach(nil, func(ctx context.Context, r reader, id string) (json.RawMessage, []string, error) {
			return deleted(id, r.DeleteEndpoint(ctx, id, reason))
		}),
	}
	reasoned(c, &reason)
	return s.deletes("endpoints", c)
}

func (s *session) endpointsRotate() *cobra.Command {
	var overlap time.Duration
	c := &cobra.Command{
		Use: "rotate-secret ENDPOINT_ID", Short: "Give an endpoint a new secret and show it, this once", Args: takes(cobra.ExactArgs(1)),
		RunE: s.ask(func(ctx context.Context, r reader, args []string) (cli.View, error) {
			e, err := r.RotateSecret(ctx, args[0], overlap)
			if err != nil {
				return cli.View{}, err
			}
			s.Note("The secret is shown only now. The old one goes on signing for %v.", overlap)
			return endpointView(r, e), nil
		}),
	}
	cli.DurationVar(c.Flags(), &overlap, "overlap", 24*time.Hour, "how long the old secret goes on signing as well")
	return c
}

func (s *session) endpointsTest() *cobra.Command {
	var eventType, data string
	var wait time.Duration
	c := &cobra.Command{
		Use: "test ENDPOINT_ID", Short: "Send an event to one endpoint alone, and show its answer", Args: takes(cobra.ExactArgs(1)),
		RunE: s.ask(func(ctx context.Context, r reader, args []string) (cli.View, error) {
			body, err := s.content("-d", data)
			if err != nil {
				return cli.View{}, err
			}
			if data == "" {
				body = nil
			} else if !json.Valid(body) {
				return cli.View{}, cli.Usagef("-d: the data is not JSON")
			}
			d, err := r.TestEndpoint(ctx, args[0], eventType, body)
			if err != nil {
				return cli.View{}, err
			}
			return deliveryView(r, s.attempted(ctx, r, d, wait)), nil
		}),
	}
	cli.DurationVar(c.Flags(), &wait, "wait", 10*time.Second, "wait at most this time for the outcome of the first attempt; 0s: do not wait")
	c.Flags().StringVar(&eventType, "type", "", "type of the event")
	c.Flags().StringVarP(&data, "data", "d", "", "its data: JSON, @FILE, or - for standard input")
	return c
}

// attempted is a delivery as it is after its first attempt, or as it was before if there is none within wait.
func (s *session) attempted(ctx context.Context, r reader, d *client.Delivery, wait time.Duration) *client.Delivery {
	if wait <= 0 {
		return d
	}
	within, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		now, err := r.Delivery(within, d.ID)
		switch {
		case err == nil && (now.AttemptsMade > 0 || now.Status.Final()):
			return now
		case err == nil:
			d = now
		case within.Err() == nil:
			s.Note("the test was sent; its outcome cannot be read: %v", err)
			return d
		}
		select {
		case <-tick.C:
		case <-within.Done():
			s.Note("the test was sent; there is no outcome after %s. Look later with: grapnel deliveries show %s", wait, d.ID)
			return d
		}
	}
}

var endpointHead = []string{"ENDPOINT", "STATUS", "HEALTH", "HELD", "URL", "TYPES", "POLICY", "TENANT"}

func endpointRow(e *client.Endpoint) []string {
	types := "*"
	if len(e.EventTypes) > 0 {
		types = strings.Join(e.EventTypes, ",")
	}
	return []string{e.ID, string(e.Status), string(e.Health.State), count(e.Health.Held, e.Health.HeldMore), e.URL, types, policyName(e.Policy), e.Tenant}
}

func policyName(doc json.RawMessage) string {
	var name string
	if json.Unmarshal(doc, &name) == nil {
		return name
	}
	return "(its own)"
}

func endpointView(r reader, e *client.Endpoint) cli.View {
	rate := "none"
	if e.RateLimit != nil {
		rate = strconv.FormatFloat(e.RateLimit.PerSecond, 'f', -1, 64) + "/s, bursts of " + strconv.Itoa(e.RateLimit.Burst)
	}
	row := endpointRow(e)
	h := &e.Health
	form := [][]string{{"endpoint", e.ID}}
	if e.Secret != "" {
		form = append(form, []string{"secret", e.Secret})
	}
	form = append(form, [][]string{
		{"status", string(e.Status)}, {"why", e.DisabledReason},
		{"held", holding(h)}, {"next probe", r.Time(h.NextProbeAt)}, {"next attempt", r.Time(h.NextAttemptAt)},
		{"in flight", positive(h.InFlight)}, {"strikes", positive(h.Strikes)}, {"failing since", r.Time(h.FailingSince)},
		{"url", e.URL}, {"tenant", e.Tenant}, {"description", e.Description},
		{"types", row[5]}, {"filter", e.Filter}, {"policy", row[6]}, {"ordering", string(e.Ordering)}, {"format", string(e.Format)},
		{"rate limit", rate}, {"concurrency", strconv.Itoa(e.MaxConcurrency)}, {"headers", compact(cli.Encode(e.Headers))},
		{"created", r.Time(&e.CreatedAt)},
	}...)
	v := object(e.ID, e.JSON(), form)
	v.Parts = append([]cli.Part{{Title: headline(r, h)}}, v.Parts...)
	return v
}

// positive is a number that is only worth showing when there is one.
func positive(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}
