package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/cli"
	"github.com/grapnelhq/grapnel/policy"
)

func (s *session) statsCommand() *cobra.Command {
	var f client.StatsFilter
	var from, to cli.Moment
	c := &cobra.Command{
		Use: "stats", Short: "Count outcomes of deliveries, by time, type, endpoint, tenant or reason",
		Example: "grapnel stats\ngrapnel stats --endpoint ep_… --since 30d --bucket day\ngrapnel stats --by type\ngrapnel stats --by reason --since 6h",
		RunE: s.ask(func(ctx context.Context, r reader, _ []string) (cli.View, error) {
			f.From, f.To = from.Time, to.Time
			stats, err := r.Stats(ctx, f)
			if err != nil {
				return cli.View{}, err
			}
			if f.By != "" {
				return groupsView(stats), nil
			}
			v := list(stats.JSON(), statsHead, stats.Data, func(b *client.Bucket) []string {
				return statsRow(b.At.UTC().Format(time.RFC3339), &b.Totals)
			})
			v.Parts[0].Rows = append(v.Parts[0].Rows, statsRow("total", &stats.Totals))
			return v, nil
		}),
	}
	c.Flags().StringVar(&f.Endpoint, "endpoint", "", "only this endpoint")
	c.Flags().StringVar(&f.Tenant, "tenant", "", "only this tenant")
	c.Flags().StringVar(&f.Bucket, "bucket", "", "size of a row; hour for up to a week if not given; minute with --endpoint")
	c.Flags().StringVar(&f.By, "by", "", "show more figures, by this; docs/stats.md defines them")
	c.Flags().StringVar(&f.Type, "type", "", "with --by: only this event type")
	c.Flags().IntVar(&f.Groups, "groups", 0, "with --by: show this many types, endpoints or tenants, and add up the others; 50 if not given")
	c.Flags().Var(from.Past(), "since", "from this time on: 2026-01-31T12:00:00Z, or 6h for six hours ago; a day ago if not given")
	c.Flags().Var(&to, "until", "until this time")
	cli.Form(c.Flags(), "minute|hour|day", "bucket")
	cli.Form(c.Flags(), "type|endpoint|tenant|reason|hour|day", "by")
	return c
}

var statsHead = []string{"AT", "DELIVERED", "FAILED", "DROPPED", "DISCARDED", "SKIPPED", "RETRIED", "FIRST TRY", "OF", "ATTEMPTS",
	"ERRORS", "P50", "P95", "P99"}

func statsRow(at string, t *client.Totals) []string {
	row := []string{at}
	for _, n := range []int64{t.Delivered, t.Failed, t.Dropped, t.Discarded, t.Skipped, t.Retried} {
		row = append(row, number(n))
	}
	row = append(row, percent(t.FirstAttemptRate()), number(t.FirstAttempts), number(t.Attempts), number(t.FailedAttempts))
	for _, d := range []*policy.Duration{t.Latency.P50, t.Latency.P95, t.Latency.P99} {
		text := ""
		if d != nil {
			text = d.Std().Round(100 * time.Microsecond).String()
		}
		row = append(row, text)
	}
	return row
}
