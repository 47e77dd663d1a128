package web

import (
	"cmp"
	"fmt"
	"html/template"
	"net/url"
	"reflect"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/promise"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/tell/statuspage"
	"github.com/grapnelhq/grapnel/wire"
)

// sloModel says how the server keeps its promises, and what readers of the status page are told.
type sloModel struct {
	Verdict   verdict
	Promises  []promiseRow
	Burns     []burnRow
	Latency   []latencyRow
	Incidents []incidentRow
}

// promiseRow is a promise with the bars of its days.
type promiseRow struct {
	Pill                          pill
	Title, Says, Kept, Bad, Words string
	Bars                          template.HTML
}

// burnRow is a pair of windows.
type burnRow struct {
	Pill                                    pill
	Promise, Windows, Limit, Ratios, Events string
}

// latencyRow are durations of the last day.
type latencyRow struct{ Of, P50, P95, P99 string }

// incidentRow is an incident or maintenance.
type incidentRow struct {
	Pill        pill
	Title, What string
	At          moment
	Href        string
}

// slo asks for the promises and the newest incidents. Both are about all tenants.
func slo(v *visit) (m sloModel, _ error) {
	if v.session.Tenant != "" {
		m.Verdict.say("Promises are about the whole server.", "", "This session sees one tenant. The public status page is at /status.")
		return m, nil
	}
	found, err := v.client.SLO(v.Context())
	if err != nil {
		return m, err
	}
	told, err := v.client.Incidents(v.Context(), 20, "")
	if err != nil {
		return m, err
	}
	m.Verdict = promisesVerdict(found)
	m.Verdict.Acts = append(v.formLinks("/incidents/", "new", "Publish an incident"), act{Label: "Look at the status page", Href: v.link("/status")})
	for i := range found.Promises {
		m.addPromise(&found.Promises[i])
	}
	titles := map[string]string{"accept": "Answering a publish", "receive": "Answering a provider", "dispatch": "From commit to attempt",
		"arrive": "From commit to receipt"}
	for _, l := range found.Latency {
		m.Latency = append(m.Latency, latencyRow{titles[l.Of], say.Took(l.P50.Std()),
			say.Took(l.P95.Std()), say.Took(l.P99.Std())})
	}
	for i := range told.Data {
		in := &told.Data[i]
		row := incidentRow{Pill: incidentPill(in.Status), Title: in.Title, At: v.at(in.StartsAt), What: in.Kind + ", " + strings.Join(in.Components, ", ")}
		row.What = strings.TrimSuffix(row.What, ", ")
		if v.mayDo("/incidents/{id}/update") {
			row.Href = v.link("/incidents/" + url.PathEscape(in.ID) + "/update")
		}
		m.Incidents = append(m.Incidents, row)
	}
	return m, nil
}

// promisesVerdict is the worst that there is to say.
func promisesVerdict(s *client.SLO) (out verdict) {
	worst := map[string]*client.Promise{}
	for i := range s.Promises {
		if p := &s.Promises[i]; worst[p.State] == nil {
			worst[p.State] = p
		}
	}
	first := &s.Promises[0]
	switch {
	case worst["broken"] != nil:
		first = worst["broken"]
		out.Pieces = []piece{{first.Title, "bad"}, {" is below its promise over the last " + fmt.Sprint(s.WindowDays) + " days.", ""}}
	case worst["burning"] != nil:
		first = worst["burning"]
		out.Pieces = []piece{{"The budget of " + strings.ToLower(first.Title), "bad"}, {" is used up too fast.", ""}}
	case s.Since == nil:
		out.say("Nothing was counted yet.", "", "The first counts come half a minute after the start.")
		return out
	case worst["kept"] == nil:
		out.Pieces = []piece{{"Too few events to judge the promises.", ""}}
	case worst["few"] != nil:
		out.Pieces = []piece{{"All promises with enough events are kept.", ""}}
		first = worst["kept"]
	default:
		out.Pieces = []piece{{"All promises are kept.", ""}}
		first = worst["kept"]
	}
	out.Next = first.Title + ": " + first.Sentence + ". What callers and receivers do wrong is not counted."
	return out
}

// addPromise adds a promise's row, its bars and its pairs of windows.
func (m *sloModel) addPromise(p *client.Promise) {
	pills := map[string]pill{"kept": {"ok", "kept"}, "burning": {"wait", "burning"}, "broken": {"bad", "broken"}, "few": {toneNone, "too few"}, "informative": {toneNone, "shown"}}
	row := promiseRow{Pill: pills[p.State], Title: p.Title, Bad: say.Count(int(p.Bad)), Words: sentence(p.Sentence)}
	if row.Says = sentenceCase(p.Says); p.Objective > 0 {
		row.Says = promise.Percent(p.Objective) + " of " + p.Says
	}
	if all := p.Good + p.Bad; all > 0 {
		row.Kept = promise.Percent(float64(p.Good) / float64(all))
	}
	days := make([]statuspage.Day, len(p.Days))
	for i, d := range p.Days {
		days[i] = statuspage.DayOf(d.Date, d.Good, d.Bad, max(1-p.Objective, 1e-9))
		if p.Objective == 0 {
			days[i] = statuspage.DayOf(d.Date, d.Good, d.Bad, .05)
		}
	}
	row.Bars = statuspage.Bars(p.Title+" by day", days)
	m.Promises = append(m.Promises, row)
	for _, b := range p.Burns {
		one := burnRow{Pill: pill{"ok", "quiet"}, Promise: p.Title,
			Windows: say.Spoken(b.Long.Std()) + " and " + say.Spoken(b.Short.Std()) + ", " + b.Severity,
			Limit:   fmt.Sprintf("%.3g %%", 100*b.Threshold),
			Ratios:  promise.Percent(b.LongRatio) + " and " + promise.Percent(b.ShortRatio), Events: say.Count(int(b.Events))}
		if b.Fires {
			one.Pill = pill{map[string]string{"page": "bad", "ticket": "wait"}[b.Severity], "fires"}
		}
		m.Burns = append(m.Burns, one)
	}
}

func incidentPill(status string) pill {
	tones := map[string]string{"resolved": "ok", "finished": "ok", "planned": "hold", "underway": "hold", "monitoring": "wait"}
	return pill{cmp.Or(tones[status], "bad"), status}
}

var incidentBlank = blank{of: reflect.TypeFor[wire.NewIncident](), rows: []input{
	{at: "title", label: "Title", sample: "Publishing is slow", help: "public: one line that says what readers notice"},
	{at: "text", label: "Message", kind: kindLong, help: "public: the facts, and the next step"},
	{at: "kind", label: "Kind"},
	{at: "impact", label: "Impact"},
	{at: "components", label: "Parts"},
	{at: "starts_at", label: "Begins", sample: "2026-12-01T06:00:00Z", help: "in UTC. An incident: now if empty", group: "Time"},
	{at: "ends_at", label: "Ends", help: "in UTC; needed for maintenance, and only for that"},
}}

// newIncident is the page that publishes an incident or maintenance.
var newIncident = adding(&incidentBlank, "Publish it", "What do readers of the status page need to know?",
	"It is public at once, at /status and in its feed. Name no customer, and say when the next message comes.")

var addIncident = adds(&incidentBlank, "/v1/incidents", func(made *client.Incident) (to, notice string) {
	return "/slo", made.Title + " is on the status page."
})

var updateBlank = blank{of: reflect.TypeFor[wire.NewIncidentUpdate](), rows: []input{
	{at: "text", label: "Message", kind: kindLong, help: "public"},
	{at: "status", label: "Status", help: "resolved ends it"},
	{at: "ends_at", label: "Ends", help: "another end of planned maintenance"},
}}

// incidentForm is the page that adds a message to an incident.
func incidentForm(v *visit, in *client.Incident) (formModel, error) {
	m := v.formPage(in.Title, v.form(&updateBlank, nil, nil), "Publish the message")
	m.Verdict.Pieces = []piece{{in.Title + ": " + in.Status + ".", ""}}
	for _, u := range in.Updates[:min(len(in.Updates), 5)] {
		m.Notes = append(m.Notes, v.at(u.At).Clock()+", "+u.Status+": "+u.Text)
	}
	if in.Status == "resolved" || in.Status == "finished" {
		m.Form = form{}
		m.Verdict.Next = "It has ended, so no message can follow. Publish another incident if it comes back."
		return m, nil
	}
	m.Verdict.Next = "The message is public at once."
	return m, nil
}

var sayMore = adds(&updateBlank, "/v1/incidents/{id}/updates", func(*client.Incident) (to, notice string) {
	return "/slo", "The message is on the status page."
})

// promisePages are the page of the promises and the forms of incidents.
func promisePages() []page {
	return []page{
		row("Promises", "/slo", "Promises", "slo.html", slo, "grapnel slo").as(alone("/v1/slo"), nil),
		fillIn("Promises", "/incidents/new", "Publish an incident", newIncident, addIncident, openIncidentCommand).needs(grapnel.ScopeAdmin),
		fillIn("Promises", "/incidents/{id}/update", "Incident", byID((*client.Client).Incident, incidentForm), sayMore, "grapnel incidents get").needs(grapnel.ScopeAdmin),
	}
}

const openIncidentCommand = "grapnel incidents open 'Publishing is slow' --text 'We look into it.' --component accepting"
