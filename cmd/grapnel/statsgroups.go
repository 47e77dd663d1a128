package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/cli"
	"github.com/grapnelhq/grapnel/policy"
)

// showGroups shows figures by group, or reasons.
func showGroups(v *cli.View, stats *client.Stats) {
	var rows [][]string
	if stats.By == "reason" {
		for i := range stats.Reasons {
			r := &stats.Reasons[i]
			retried := ""
			if r.Of == "attempts" {
				retried = number(r.Retried)
			}
			rows = append(rows, []string{r.Name, r.Of, number(r.Count), retried})
			v.Items = append(v.Items, cli.Item{Name: r.Name, JSON: cli.Encode(r)})
		}
		v.Parts = []cli.Part{{Head: []string{"REASON", "OF", "COUNT", "RETRIED"}, Rows: rows}}
		return
	}
	for i := range stats.Groups {
		g := &stats.Groups[i]
		name := g.Name
		if g.Other {
			name = "(other)"
		}
		rows = append(rows, groupRow(name, &g.Figures))
		v.Items = append(v.Items, cli.Item{Name: name, JSON: cli.Encode(g)})
	}
	if stats.All != nil {
		rows = append(rows, groupRow("total", stats.All))
	}
	head := append([]string{strings.ToUpper(stats.By)}, groupHead...)
	v.Parts = []cli.Part{{Head: head, Rows: rows}}
}

var groupHead = []string{"DELIVERED", "DEAD", "FIRST TRY", "RETRIED", "TRIES", "TO SUCCESS P50", "P95", "P99", "LATENCY P50", "P95", "P99",
	"ERRORS", "DUPLICATES"}

func groupRow(name string, f *client.Figures) []string {
	var errors int64
	for _, n := range f.Errors {
		errors += n
	}
	row := []string{name, number(f.Delivered), number(f.Failed), percent(f.FirstAttemptSuccessRate), percent(f.RetryRate), ""}
	if f.AttemptsPerDelivery != nil {
		row[len(row)-1] = fmt.Sprintf("%.2f", *f.AttemptsPerDelivery)
	}
	for _, l := range []client.Latency{f.TimeToSuccess, f.Latency} {
		row = append(row, brief(l.P50), brief(l.P95), brief(l.P99))
	}
	return append(row, number(errors), number(f.Duplicates))
}

func percent(part *float64) string {
	if part == nil {
		return ""
	}
	return fmt.Sprintf("%.1f%%", 100**part)
}

// brief is a duration to three digits or so.
func brief(d *policy.Duration) string {
	if d == nil {
		return ""
	}
	unit := 100 * time.Microsecond
	if d.Std() >= time.Minute {
		unit = time.Second
	} else if d.Std() >= time.Second {
		unit = 10 * time.Millisecond
	}
	return d.Std().Round(unit).String()
}
