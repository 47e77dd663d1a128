package main

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/cli"
	"github.com/grapnelhq/grapnel/internal/send/channels"
)

var alertChannels = resource[client.Channel]{
	path: "/v1/channels", plural: "channels", id: "CHANNEL", argument: "url", audited: true,
	filters:  cli.OnlyTenant,
	settings: cli.ChannelSettings,
	head:     channelHead, row: channelRow, view: channelView,
	verbs: []verb{
		{"create", "Create a channel: a chat, a push service or a mailbox that alerts go to",
			"grapnel channels create https://hooks.slack.com/services/T…/B…/X… --severity page --description 'on call'"},
		{"list", "List channels and their health", ""},
		{"get", "Show a channel", ""},
		{"update", "Change a channel", "grapnel channels update chn_… --severity page --quiet-from 22:00 --quiet-to 07:00 --quiet-tz Europe/Berlin"},
		{"delete", "Delete channels; their pending alerts end as dropped", ""},
	},
}

func (s *session) channelsCommand() *cobra.Command {
	all := alertChannels.commands(s)
	for _, c := range all {
		switch c.Name() {
		case "create":
			c.Aliases = []string{"add"}
		case "delete":
			c.Aliases = []string{"remove"}
		}
	}
	return group("channels", "Say where alerts go, and try it", slices.Concat(all, []*cobra.Command{channelsTest(s), channelsServices(s)})...)
}

func channelsTest(s *session) *cobra.Command {
	var wait time.Duration
	c := &cobra.Command{
		Use: "test CHANNEL", Short: "Send a test alert to one channel, and show its answer",
		Long: "Sends a test alert to one channel, waits for the service's answer and prints it. Exits 9 if it did not take the message.",
		RunE: s.withReader(func(ctx context.Context, r reader, args []string) error {
			d, err := r.TestChannel(ctx, args[0])
			if err != nil {
				return err
			}
			return outcome(ctx, r, d, wait, "the service did not take the message")
		}),
	}
	cli.DurationVar(c.Flags(), &wait, "wait", 10*time.Second, "longest wait for the outcome of the first attempt; 0s: do not wait")
	return c
}

// channelsServices needs no server.
func channelsServices(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "services", Short: "List the services, and how their URLs are written",
		RunE: s.withPrinter(func(_ context.Context, p *cli.Printer, _ []string) error {
			part := cli.Part{Head: []string{"SERVICE", "WHAT ARRIVES", "URL", "OR PASTE"}}
			all := channels.Services()
			view := cli.View{JSON: cli.Encode(all)}
			for _, service := range all {
				part.Rows = append(part.Rows, []string{service.Title, service.Arrives, service.Form, service.Pasted})
				view.Items = append(view.Items, cli.Item{Name: service.Name, JSON: cli.Encode(service)})
			}
			view.Parts = []cli.Part{part}
			return p.Print(view)
		}),
	}
}

var channelHead = []string{"NAME", "CHANNEL", "HEALTH", "SERVICE", "SEVERITIES", "RULES", "QUIET", "DIGEST", "TENANT"}

func channelRow(_ reader, c *client.Channel) []string {
	quiet, digest := "", ""
	if q := c.QuietHours; q != nil {
		quiet = q.From + "–" + q.To + " " + q.TZ
	}
	if c.Digest > 0 {
		digest = c.Digest.String()
	}
	return []string{cmp.Or(c.Description, c.Service), c.ID, string(c.Health.State), c.Service, strings.Join(c.Severities, ","), strings.Join(c.Rules, ","),
		quiet, digest, c.Tenant}
}

func channelView(r reader, c *client.Channel) cli.View {
	row := channelRow(r, c)
	return object(c.ID, c.JSON(), [][]string{
		{"channel", c.ID}, {"health", row[2]}, {"why", c.Health.Reason}, {"service", c.Service}, {"url", c.URL}, {"description", c.Description},
		{"severities", row[4]}, {"rules", row[5]}, {"quiet hours", row[6]}, {"digest", row[7]}, {"status", string(c.Status)},
		{"tenant", c.Tenant}, {"created", r.Time(&c.CreatedAt)},
	})
}
