package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/promise"
	"github.com/grapnelhq/grapnel/internal/face/cli"
)

func (s *session) sloCommand() *cobra.Command {
	return (&call[client.SLO]{
		use: "slo", short: "Show how the server keeps its promises, and the rest of their budgets", path: "/v1/slo", view: sloView,
		long: "Show how the server keeps its promises over 28 days: the share of good events, the rest of the budget and how long it " +
			"lasts, and how fast it is used up in each pair of windows. What callers and receivers do wrong is not counted.",
		example: "grapnel slo\ngrapnel slo --jq '.promises[] | select(.state != \"kept\") | .name'",
	}).command(s)
}

func sloView(_ reader, slo *client.SLO) cli.View {
	v := cli.View{JSON: slo.JSON()}
	var rows, burns, took [][]string
	for i := range slo.Promises {
		p := &slo.Promises[i]
		rows = append(rows, []string{p.Title, share(p.Objective, p.Objective > 0), share(good(p), p.Good+p.Bad > 0),
			number(p.Bad), p.State, p.Sentence})
		v.Items = append(v.Items, cli.Item{Name: p.Name, JSON: cli.Encode(p)})
		for _, b := range p.Burns {
			burns = append(burns, []string{p.Title, b.Severity, b.Long.String() + " / " + b.Short.String(), fmt.Sprintf("%.3g %%", 100*b.Threshold),
				promise.Percent(b.LongRatio), promise.Percent(b.ShortRatio), number(b.Events), yesNo(b.Fires)})
		}
	}
	for _, l := range slo.Latency {
		took = append(took, []string{l.Of, l.P50.Std().Round(100 * time.Microsecond).String(), l.P95.Std().Round(100 * time.Microsecond).String(),
			l.P99.Std().Round(100 * time.Microsecond).String()})
	}
	v.Parts = []cli.Part{
		{Head: []string{"PROMISE", "OBJECTIVE", "GOOD", "BAD", "STATE", "IN WORDS"}, Rows: rows},
		{Title: "How fast the budgets are used up", Head: []string{"PROMISE", "ALERT", "WINDOWS", "LIMIT", "LONG", "SHORT",
			"EVENTS", "FIRES"}, Rows: burns},
	}
	if len(took) > 0 {
		v.Parts = append(v.Parts, cli.Part{Title: "Durations of the last day", Head: []string{"OF", "P50", "P95", "P99"}, Rows: took})
	}
	if slo.Since == nil {
		v.More = "Nothing was counted yet; the first counts come half a minute after the start."
	} else if days := int(slo.At.Sub(*slo.Since).Hours() / 24); days < slo.WindowDays-1 {
		v.More = "Counted for " + strconv.Itoa(days) + " of " + fmt.Sprint(slo.WindowDays) + " days."
	}
	return v
}

func good(p *client.Promise) float64 { return float64(p.Good) / max(1, float64(p.Good+p.Bad)) }

func share(of float64, known bool) string {
	if !known {
		return ""
	}
	return promise.Percent(of)
}
