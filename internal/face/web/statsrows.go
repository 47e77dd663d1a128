package web

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	grammar "github.com/grapnelhq/grapnel/internal/base/search"
	"github.com/grapnelhq/grapnel/internal/face/web/picture"
	"github.com/grapnelhq/grapnel/internal/face/words"
	"github.com/grapnelhq/grapnel/policy"
)

// rows are the groups, or the reasons.
func (m *statsModel) rows(v *visit, s *statsState, stats *client.Stats) {
	if s.by == "reason" {
		var most int64
		for _, r := range stats.Reasons {
			most = max(most, r.Count)
		}
		for _, r := range stats.Reasons {
			m.Reasons = append(m.Reasons, v.statsReason(s, r, most))
		}
		return
	}
	var most int64
	for i := range stats.Groups {
		if !stats.Groups[i].Other {
			most = max(most, stats.Groups[i].Finished()+stats.Groups[i].TriedAgain)
		}
	}
	for i := range stats.Groups {
		g := &stats.Groups[i]
		row := statsRow{Name: cmp.Or(g.EndpointName, g.Name), Delivered: say.Count(g.Delivered), Dead: say.Count(g.Failed),
			First: withUnit(g.FirstAttemptSuccessRate), Each: each(g.AttemptsPerDelivery), P95: within(g.TimeToSuccess.P95),
			Fails: say.Count(g.FailedAttempts), Bad: g.Failed > 0}
		if m.Chart == nil && !g.Other {
			row.Bar = drawn(picture.Progress(int(g.Delivered), int(g.Failed), int(g.TriedAgain), int(most), outcome(&g.Totals)+"."))
		}
		v.statsLinks(s, g, &row)
		m.Rows = append(m.Rows, row)
	}
	if s.by == "hour" || s.by == "day" {
		slices.Reverse(m.Rows) // the newest first, as in every list
		m.Hint = "the newest first; in the others nothing happened"
		if all := len(m.Rows); all > v.web.Bounds.Times { // the chart has all of them
			m.Rows = m.Rows[:v.web.Bounds.Times]
			m.Hint = fmt.Sprintf("the newest %d of %d; the chart shows all", len(m.Rows), all)
		}
	} else if n := len(stats.Groups); n > 0 && stats.Groups[n-1].Other {
		m.Hint = "the busiest " + say.Count(n-1) + "; the last row adds up the others"
	}
}

// statsLinks are where a group's deliveries and its reasons are.
func (v *visit) statsLinks(s *statsState, g *client.Group, row *statsRow) {
	if g.Other {
		row.Name = "all others"
		return
	}
	since := " since:" + s.span.since
	switch s.by {
	case "type":
		row.Href = v.link("/deliveries" + withQuery("q", token{"type", g.Name}.String()+s.conditions()+since))
		row.Why = v.link(s.query("reason", s.span.since, "type", g.Name))
	case "endpoint":
		row.Href, row.Why = v.ownerLink(g.Name), v.link(s.query("reason", s.span.since, "endpoint", g.Name))
	case "tenant":
		row.Href = v.link(s.query("type", s.span.since, "tenant", g.Name))
		row.Why = v.link(s.query("reason", s.span.since, "tenant", g.Name))
	default:
		at, err := time.Parse(time.RFC3339, g.Name)
		if err != nil {
			return
		}
		width, form := time.Hour, "Mon 2 Jan 15:04"
		if s.by == "day" {
			width, form = statsDay, "Mon 2 Jan"
		}
		row.Name, row.Href = at.UTC().Format(form), v.finishedIn(s, at, at.Add(width))
	}
}

// finishedIn is the list of the deliveries of a part of time.
func (v *visit) finishedIn(s *statsState, from, to time.Time) string {
	q := s.conditions() + " from:" + from.UTC().Format(time.RFC3339) + " to:" + to.UTC().Format(time.RFC3339)
	return v.link("/deliveries" + withQuery("q", strings.TrimSpace(q)))
}

// narrowing are the parameters that narrow the page.
var narrowing = []string{"endpoint", "type", "tenant"}

// conditions are what the state is narrowed to, as words of a search.
func (s *statsState) conditions() (text string) {
	for _, name := range narrowing {
		if value := s.narrow[name]; value != "" {
			text += " " + token{name, value}.String()
		}
	}
	return text
}

func (v *visit) statsReason(s *statsState, r client.Reason, most int64) statsReason {
	out := statsReason{Count: say.Count(r.Count), Of: r.Of, Retried: "–"}
	q := ""
	if r.Of == "attempts" {
		class := policy.Class(r.Name)
		out.Name, out.Retried = words.Failure(class), say.Count(r.Retried)
		if slices.Contains(grammar.Classes(), class) {
			q = token{"error", r.Name}.String()
		}
	} else {
		code := grapnel.ReasonCode(r.Name)
		out.Name = words.Reason(code)
		if slices.Contains(grammar.Reasons(), code) {
			q = token{"reason", r.Name}.String()
		}
	}
	if q != "" {
		out.Href = v.link("/deliveries" + withQuery("q", q+s.conditions()+" since:"+s.span.since))
	}
	out.Bar = drawn(picture.Progress(0, int(r.Count-r.Retried), int(r.Retried), int(most), out.Count+" "+r.Of+": "+out.Name+"."))
	return out
}

// worstOf names the group with the most dead letters, or the most frequent reason.
func worstOf(stats *client.Stats) string {
	if len(stats.Reasons) > 0 {
		r := &stats.Reasons[0]
		if r.Of == "attempts" {
			name := words.Failure(policy.Class(r.Name))
			return "Attempts fail most often with: " + name + ", " + say.Many(r.Count, "time", "times") + ", " + say.Count(r.Retried) + " of them tried again."
		}
		return ""
	}
	var worst *client.Group
	for i := range stats.Groups {
		if g := &stats.Groups[i]; !g.Other && g.Failed > 0 && (worst == nil || g.Failed > worst.Failed) {
			worst = g
		}
	}
	if worst == nil || stats.By == "endpoint" {
		return ""
	}
	name := worst.Name
	if at, err := time.Parse(time.RFC3339, name); err == nil {
		name = map[string]string{"hour": at.UTC().Format("Mon 15:04 UTC"), "day": at.UTC().Format("Mon 2 Jan")}[stats.By]
	}
	return "Most dead letters: " + name + ", " + say.Count(worst.Failed) + "."
}

// partOf is a ratio as a number of per cent, 100 only if it is all; a dash if there is none.
func partOf(ratio *float64) string {
	if ratio == nil {
		return "–"
	}
	return say.Percent(int64(*ratio*1e6), 1e6)
}

func unitOf(ratio *float64) string {
	if ratio == nil {
		return ""
	}
	return "%"
}

func withUnit(ratio *float64) string { return strings.TrimSpace(partOf(ratio) + " " + unitOf(ratio)) }

// each is a mean.
func each(mean *float64) string {
	if mean == nil {
		return "–"
	}
	return strings.TrimSuffix(strconv.FormatFloat(*mean, 'f', 2, 64), ".00")
}

// within is a percentile.
func within(d *policy.Duration) string {
	if d == nil {
		return "–"
	}
	return say.Took(time.Duration(*d))
}

const statsDay = 24 * time.Hour

// query is the page with another state.
func (s *statsState) query(by, since string, more ...string) string {
	q := url.Values{"by": {by}, "since": {since}}
	for name, value := range s.narrow {
		q.Set(name, value)
	}
	for i := 0; i+1 < len(more); i += 2 {
		q.Set(more[i], more[i+1])
	}
	return "/stats?" + q.Encode()
}
