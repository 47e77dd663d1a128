package web

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/face/web/picture"
	"github.com/grapnelhq/grapnel/internal/face/words"
)

var (
	sixHours   = statsSpan{"6h", "6 h", 6 * time.Hour}
	oneDay     = statsSpan{"24h", "24 h", statsDay}
	sevenDays  = statsSpan{"7d", "7 days", 7 * statsDay}
	thirtyDays = statsSpan{"30d", "30 days", 30 * statsDay}
	ninetyDays = statsSpan{"90d", "90 days", 90 * statsDay}
	statsSpans = []statsSpan{sixHours, oneDay, sevenDays, thirtyDays}

	groupings = []grouping{
		{"type", "By type", "Event type", statsSpans},
		{"endpoint", "By endpoint", "Endpoint", statsSpans},
		{"tenant", "By tenant", "Tenant", statsSpans},
		{"reason", "By reason", "Reason", statsSpans},
		{"hour", "By hour", "Hour from, UTC", []statsSpan{sixHours, oneDay}},
		{"day", "By day", "Day, UTC", []statsSpan{sevenDays, thirtyDays, ninetyDays}},
	}
)

func (v *visit) statsState() statsState {
	q := v.URL.Query()
	s := statsState{narrow: map[string]string{}}
	for _, name := range narrowing {
		if value := q.Get(name); value != "" {
			s.narrow[name] = value
		}
	}
	usual := "type"
	if !v.groups(&s, usual) {
		usual = "reason"
	}
	for _, g := range groupings {
		if g.by == usual && s.by == "" || g.by == q.Get("by") && v.groups(&s, g.by) {
			s.grouping = g
		}
	}
	s.span = s.spans[1]
	for _, span := range s.spans {
		if span.since == q.Get("since") {
			s.span = span
		}
	}
	return s
}

// groups says whether the page can group in this way: types and endpoints are not counted together,
// and a session of one tenant has no others.
func (v *visit) groups(s *statsState, by string) bool {
	switch by {
	case "type", "endpoint":
		return s.narrow["endpoint"] == "" && s.narrow["type"] == ""
	case "tenant":
		bound := v.session != nil && v.session.Tenant != ""
		return !bound && s.narrow["tenant"] == "" && s.narrow["endpoint"] == ""
	}
	return true
}

func statistics(v *visit) (m statsModel, err error) {
	s := v.statsState()
	stats, err := v.client.Stats(v.Context(), client.StatsFilter{By: s.by, From: v.now.Add(-s.span.width), Endpoint: s.narrow["endpoint"],
		Type: s.narrow["type"], Tenant: s.narrow["tenant"], Groups: v.web.Bounds.Page})
	if err != nil {
		return m, err
	}
	name := s.narrow["type"]
	if id := s.narrow["endpoint"]; id != "" {
		if name, err = v.nameOf(id); err != nil {
			return m, err
		}
	}
	if tenant := s.narrow["tenant"]; tenant != "" {
		name = strings.TrimPrefix(name+" of "+tenant, " of ")
	}
	if name != "" {
		v.steps = []crumb{{name, ""}}
	}
	for _, g := range groupings {
		if v.groups(&s, g.by) {
			since := s.span.since
			if !slices.ContainsFunc(g.spans, func(span statsSpan) bool { return span.since == since }) {
				since = g.spans[1].since
			}
			m.By = append(m.By, savedView{g.name, v.link(s.query(g.by, since)), g.by == s.by})
		}
	}
	for _, span := range s.spans {
		m.Spans = append(m.Spans, savedView{span.name, v.link(s.query(s.by, span.since)), span.since == s.span.since})
	}
	m.Head = s.head
	m.statsAnswer(stats, s.span.name)
	if m.Empty != "" {
		_, m.Teach = v.teach("", publishCommand)
		return m, nil
	}
	if s.by == "hour" || s.by == "day" {
		m.Chart = v.statsChart(&s, stats)
	}
	m.rows(v, &s, stats)
	return m, nil
}

// statsAnswer is the sentence above the page, and its numbers.
func (m *statsModel) statsAnswer(stats *client.Stats, span string) {
	f := cmp.Or(stats.All, new(client.Figures))
	finished := f.Finished()
	if finished+f.Attempts+f.Duplicates == 0 {
		m.Verdict.Pieces = []piece{{"Nothing was delivered or attempted in the last " + span + ".", ""}}
		m.Empty = "Choose a longer time above, or publish an event."
		return
	}
	switch {
	case finished == 0:
		m.Verdict.Pieces = []piece{{"No delivery finished in the last " + span + "; " + say.Many(f.Attempts, "attempt was", "attempts were") + " made.", ""}}
	case f.Failed == 0:
		m.Verdict.Pieces = []piece{{say.Count(f.Delivered) + " of " + say.Many(finished, "finished delivery", "finished deliveries") + " arrived in the last " + span + ", and none failed.", ""}}
	default:
		m.Verdict.Pieces = []piece{{say.Count(f.Failed) + " of " + say.Many(finished, "finished delivery", "finished deliveries") + " failed", toneBad},
			{" in the last " + span + "; " + say.Percent(f.Delivered, finished) + "\u00a0% arrived.", ""}}
	}
	pending := ""
	if stats.Pending != nil {
		pending = say.Many(*stats.Pending, "delivery is", "deliveries are") + " pending now."
	}
	m.Verdict.Next = strings.Join(slices.DeleteFunc([]string{pending, words.Attempts(&f.Totals), worstOf(stats)},
		func(text string) bool { return text == "" }), " ")
	m.Figures = []figure{
		{Name: "Delivered", Value: say.Count(f.Delivered), Note: say.Many(f.Failed, "dead letter", "dead letters")},
		{Name: "At the first attempt", Value: partOf(f.FirstAttemptSuccessRate), Unit: unitOf(f.FirstAttemptSuccessRate),
			Note: "of " + say.Many(f.FirstAttempts, "first attempt", "first attempts")},
		{Name: "Time to success, p95", Value: within(f.TimeToSuccess.P95), Note: "half within " + within(f.TimeToSuccess.P50)},
		{Name: "Time to an answer, p95", Value: within(f.Latency.P95),
			Note: each(f.AttemptsPerDelivery) + " attempts for each finished delivery"},
	}
}

// statsChart has a column for each hour or day, also for those in which nothing happened.
func (v *visit) statsChart(s *statsState, stats *client.Stats) *chart {
	width, form := time.Hour, "Mon 15:04 UTC"
	if s.by == "day" {
		width, form = statsDay, "Mon 2 Jan"
	}
	by := map[string]*client.Figures{}
	for i := range stats.Groups {
		by[stats.Groups[i].Name] = &stats.Groups[i].Figures
	}
	c := chart{Title: "Deliveries", Hint: "finished or tried again, by " + s.by}
	var bars []picture.Bar
	for at := stats.From; at.Before(stats.To); at = at.Add(width) {
		f := cmp.Or(by[at.UTC().Format(time.RFC3339)], new(client.Figures))
		bars = append(bars, column(at.UTC().Format(form), v.finishedIn(s, at, at.Add(width)), &f.Totals))
	}
	says := fmt.Sprintf("%s, in %s.", outcome(&stats.All.Totals), say.Many(len(bars), s.by, s.by+"s"))
	c.Picture = drawn(picture.Bars(bars, says))
	middle := stats.From.Add(stats.To.Sub(stats.From) / 2).Truncate(width)
	c.Axis = []string{stats.From.UTC().Format(form), middle.UTC().Format(form), "now"}
	return &c
}

func statsTwin(v *visit) (string, url.Values) {
	s := v.statsState()
	q := url.Values{"by": {s.by}, "from": {v.now.Add(-s.span.width).UTC().Format(time.RFC3339)}}
	for name, value := range s.narrow {
		q.Set(name, value)
	}
	return "/v1/stats", q
}

func statsCommand(v *visit) string {
	s := v.statsState()
	command := "grapnel stats --by " + s.by + " --since " + s.span.since
	for _, name := range narrowing {
		if value := s.narrow[name]; value != "" {
			command += " --" + name + " " + shellQuote(value)
		}
	}
	return command
}
