package web

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/policy"
)

// TestStatisticsGroupAsTheAPIAllows: whatever the address says, the page asks for no grouping that
// the API refuses, offers none, and its links keep the state.
func TestStatisticsGroupAsTheAPIAllows(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	for query, want := range map[string]struct{ by, since, not string }{
		"":                             {"type", "24h", ""},
		"by=tenant&since=7d":           {"tenant", "7d", ""},
		"by=hour&since=7d":             {"hour", "24h", ""}, // a page of 168 rows would be too large
		"by=day":                       {"day", "30d", ""},
		"by=type&endpoint=ep_1":        {"reason", "24h", "by=type"},
		"by=endpoint&type=a.b":         {"reason", "24h", "by=endpoint"},
		"by=tenant&tenant=acme":        {"type", "24h", "by=tenant"},
		"by=nonsense&since=yesterday":  {"type", "24h", ""},
		"by=reason&type=a.b&since=30d": {"reason", "30d", "by=type"},
	} {
		v := s.visitOf("/stats?" + query)
		if got := v.statsState(); got.by != want.by || got.span.since != want.since {
			t.Errorf("%s: grouped by %s since %s", query, got.by, got.span.since)
		}
		body := s.ask("GET", "/stats?"+query, nil).Body.String()
		views := body[strings.Index(body, `aria-label="Grouping"`):strings.Index(body, `aria-label="Time"`)]
		if want.not != "" && strings.Contains(views, want.not) {
			t.Errorf("%s: offers %s", query, want.not)
		}
		if !strings.Contains(views, `aria-current="true"`) {
			t.Errorf("%s: no grouping is marked", query)
		}
		given, _ := url.ParseQuery(query)
		for _, name := range []string{"endpoint", "type", "tenant"} {
			if value := given.Get(name); value != "" && strings.Count(views, name+"="+value) != strings.Count(views, "href=") {
				t.Errorf("%s: links forget %s", query, name)
			}
		}
	}
}

// TestStatisticsSayWhatTheAnswerHas: the sentence, the numbers and the rows are those of the API.
func TestStatisticsSayWhatTheAnswerHas(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	fill := func(name string, answer any) any {
		m, _ := answer.(map[string]any)
		if name != "stats_groups" {
			return answer
		}
		all := m["all"].(map[string]any)
		all["delivered"], all["failed"], all["dropped"], all["discarded"], all["skipped"] = 970.0, 30.0, 0.0, 0.0, 0.0
		all["first_attempt_success_rate"], all["first_attempts"], all["attempts_per_delivery"] = 0.9, 1200.0, 1.25
		m["pending"], all["attempts"], all["failed_attempts"] = 200.0, 1400.0, 230.0
		g := m["groups"].([]any)[0].(map[string]any)
		g["name"], g["failed"] = "invoice.<paid>", 29.0
		m["groups"] = []any{g, map[string]any{"name": "", "other": true, "delivered": 5.0}}
		return answer
	}
	s.api.edit = fill
	body := s.ask("GET", "/stats", nil).Body.String()
	for _, want := range []string{"30 of " + say.Count(1000) + " finished deliveries failed", "in the last 24 h; 97\u00a0% arrived.",
		"Most dead letters: invoice.&lt;paid&gt;, 29.", "<dd>90 <small>%</small>", "of " + say.Count(1200) + " first attempts", "200 deliveries are pending now.",
		"230 of " + say.Count(1400) + " attempts failed.", "1.25 attempts for each finished delivery", "all others", "the busiest 1; the last row adds up the others"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page does not have %q", want)
		}
	}
	s.api.edit = func(name string, answer any) any {
		if m, is := answer.(map[string]any); is && name == "stats_groups" {
			m["all"], m["groups"] = map[string]any{}, []any{}
		}
		return answer
	}
	if body = s.ask("GET", "/stats", nil).Body.String(); !strings.Contains(body, "Nothing was delivered or attempted in the last 24 h.") {
		t.Error("a page without anything does not say so")
	}
}

// TestStatisticsByTimeHaveAColumnForEachPart: also for hours in which nothing happened.
func TestStatisticsByTimeHaveAColumnForEachPart(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	s.api.edit = func(name string, answer any) any {
		if m, is := answer.(map[string]any); is && name == "stats_groups" {
			g := m["groups"].([]any)[0].(map[string]any)
			g["name"], g["delivered"], g["failed"], g["tried_again"] = "2026-11-23T07:00:00Z", 7.0, 1.0, 2.0
			m["from"], m["to"], m["groups"] = "2026-11-23T04:00:00Z", "2026-11-23T10:00:00Z", []any{g}
		}
		return answer
	}
	body := s.ask("GET", "/stats?by=hour&since=6h&endpoint=ep_1", nil).Body.String()
	svg := body[strings.Index(body, `<svg class="pic bars"`):]
	svg = svg[:strings.Index(svg, "</svg>")]
	if n := strings.Count(svg, "<title>"); n != 6 ||
		!strings.Contains(svg, "Mon 07:00 UTC: 7 delivered, 2 tried again, 1 failed") ||
		!strings.Contains(svg, "Mon 08:00 UTC: 0 delivered, 0 failed") {
		t.Errorf("%d columns: %s", n, svg)
	}
	if !strings.Contains(svg, "endpoint%3Aep_1") {
		t.Error("columns lead to the deliveries of all endpoints")
	}
}

// TestStatisticsOfOneTenant: a session that is bound to a tenant is offered no others.
func TestStatisticsOfOneTenant(t *testing.T) {
	v := &visit{session: &session{Tenant: "acme", Scopes: []grapnel.Scope{grapnel.ScopeRead}}}
	if v.groups(&statsState{}, "tenant") || !v.groups(&statsState{}, "type") {
		t.Error("the groupings are not those of one tenant")
	}
}

// TestMostIsMoreThanHalf: an hour with fewer failures than the others together has no "most
// failures", and a ratio below 1 is never 100 percent.
func TestMostIsMoreThanHalf(t *testing.T) {
	v := &visit{web: &web{}}
	for want, failed := range map[string][]int64{
		"Most failures were in the hour from 10:00 UTC.":     {1, 3, 1},
		"The most failures were in the hour from 10:00 UTC.": {2, 3, 2},
	} {
		var hours []hour
		for i, n := range failed {
			hours = append(hours, hour{time.Date(2026, 11, 23, 9+i, 0, 0, 0, time.UTC), client.Totals{Failed: n}})
		}
		if c := v.outcomes(hours, ""); !strings.Contains(c.Says, " "+want) {
			t.Errorf("%v: %q, want %q", failed, c.Says, want)
		}
	}
	for want, ratio := range map[string]float64{"99.9": 2_999_999. / 3_000_000, "100": 1, "29": 0.29, "50": 0.5} {
		if got := partOf(&ratio); got != want {
			t.Errorf("%v is %s, want %s", ratio, got, want)
		}
	}
}

// TestAnEndpointsLatestPercentileNamesItsHour: without an answer since, it is not of the last hour.
func TestAnEndpointsLatestPercentileNamesItsHour(t *testing.T) {
	begin, p95 := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC), policy.Duration(12*time.Millisecond)
	var day []hour
	for i := range 24 {
		day = append(day, hour{At: begin.Add(time.Duration(i) * time.Hour)})
	}
	day[4].Latency.P95 = &p95
	if f := endpointFigures(&client.Endpoint{}, day)[2]; f.Value != "12 ms" || f.Unit != "in the hour from 04:00 UTC" {
		t.Errorf("%s %s", f.Value, f.Unit)
	}
}
