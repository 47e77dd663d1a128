package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/face/cli"
	"github.com/grapnelhq/grapnel/internal/face/words"
	"github.com/grapnelhq/grapnel/policy"
)

// groupsView shows figures by group, or reasons.
func groupsView(stats *client.Stats) cli.View {
	if stats.By == "reason" {
		return list(stats.JSON(), []string{"REASON", "OF", "COUNT", "RETRIED"}, stats.Reasons, func(r *client.Reason) []string {
			retried := ""
			if r.Of == "attempts" {
				retried = number(r.Retried)
			}
			return []string{r.Name, r.Of, number(r.Count), retried}
		})
	}
	head := append([]string{strings.ToUpper(stats.By)}, groupHead...)
	v := list(stats.JSON(), head, stats.Groups, func(g *client.Group) []string {
		name := g.Name
		if g.Other {
			name = "(other)"
		}
		return groupRow(name, &g.Figures)
	})
	for i := range stats.Groups {
		v.Parts[0].Rows[i][0] = named(stats.Groups[i].EndpointName, v.Parts[0].Rows[i][0])
	}
	if stats.All != nil {
		v.Parts[0].Rows = append(v.Parts[0].Rows, groupRow("total", stats.All))
		v.Parts[0].Text = statsSaid(stats)
	}
	return v
}

// statsSaid is the totals as a sentence: what finished, what did not, and what failed meanwhile.
func statsSaid(stats *client.Stats) string {
	parts := []string{say.Many(stats.All.Finished(), "delivery", "deliveries") + " finished"}
	if stats.Pending != nil {
		parts = append(parts, say.Count(*stats.Pending)+" pending now")
	}
	if text := words.FailedAttempts(&stats.All.Totals); text != "" {
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ") + ".\n"
}

var groupHead = []string{"DELIVERED", "DEAD", "FIRST TRY", "OF", "RETRIED", "TRIES", "TO SUCCESS P50", "P95", "P99", "LATENCY P50", "P95", "P99",
	"ERRORS", "DUPLICATES"}

func groupRow(name string, f *client.Figures) []string {
	row := []string{name, number(f.Delivered), number(f.Failed), percent(f.FirstAttemptSuccessRate), number(f.FirstAttempts), percent(f.RetryRate), ""}
	if f.AttemptsPerDelivery != nil {
		row[len(row)-1] = fmt.Sprintf("%.2f", *f.AttemptsPerDelivery)
	}
	for _, l := range []client.Latency{f.TimeToSuccess, f.Latency} {
		row = append(row, brief(l.P50), brief(l.P95), brief(l.P99))
	}
	return append(row, number(f.FailedAttempts), number(f.Duplicates))
}

func percent(part *float64) string {
	if part == nil {
		return ""
	}
	return say.Share(*part) + "%"
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
