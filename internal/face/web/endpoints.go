package web

import (
	"fmt"
	"net/url"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/face/web/picture"
	"github.com/grapnelhq/grapnel/internal/face/words"
)

// endpointsModel is the list of endpoints, those that need eyes first.
type endpointsModel struct {
	pager
	Verdict verdict
	Bad     []endpointRow
	Well    []endpointRow
	Shown   string  // how many of the healthy ones are on this page; empty: there is no endpoint yet
	Rates   []chart // of a portal: how the first attempts went, by the hour and by the day
}

func (v *visit) endpointRow(e *client.OverviewEndpoint) endpointRow {
	r := endpointRow{
		ID: e.ID, Href: v.link("/endpoints/" + e.ID), Name: words.Name(e), Whose: v.whose(e.Tenant),
		Pill: healthPill(e.Health.State), Why: words.Consequence(v.now, e),
	}
	if e.Description != "" {
		r.Where = words.Where(e.URL)
	}
	if n := max(e.Health.Held, e.Health.Waiting); n > 0 {
		r.Waiting = say.Capped(n, e.Health.HeldMore)
	}
	return r
}

// mostHearts is how many endpoints of a list have a heartbeat, which is a call of the API for each.
const mostHearts = 8

// troubledRows are rows of endpoints that need attention; the first of them have a heartbeat.
func (v *visit) troubledRows(bad []client.OverviewEndpoint, most int) (rows []endpointRow, err error) {
	for i := range bad[:min(len(bad), most)] {
		rows = append(rows, v.endpointRow(&bad[i]))
	}
	var ask errgroup.Group
	for i := range rows[:min(len(rows), mostHearts)] {
		ask.Go(func() error {
			stats, err := v.client.Stats(v.Context(), client.StatsFilter{Endpoint: rows[i].ID, From: v.now.Add(-beats * time.Hour), Bucket: "hour"})
			if err == nil {
				rows[i].Heart = heart(ofHours, hourly(stats.Data, stats.From, v.now), false)
			}
			return err
		})
	}
	return rows, ask.Wait()
}

func endpoints(v *visit) (endpointsModel, error) {
	m := endpointsModel{Verdict: verdict{Acts: v.formLinks("/endpoints/", "new", "Add an endpoint")}}
	cursor, word := v.URL.Query().Get("cursor"), v.word()
	if to := jump(word); to != "" {
		return m, jumped(to)
	}
	found, err := v.client.Endpoints(v.Context(), client.EndpointFilter{Search: word, Limit: v.web.Bounds.Page * 2, Cursor: cursor})
	if err != nil || len(found.Data) == 0 && v.unfound(&m.Verdict, "endpoint") {
		return m, err
	}
	if len(found.Data) == 0 && cursor == "" {
		m.Verdict.say("There is no endpoint yet.", "", "An endpoint is an address that gets your events as signed requests.")
		_, m.Verdict.Command = v.teach("", createCommand)
		return m, nil
	}
	o := new(client.Overview)
	if word == "" { // a search needs no count of all endpoints
		if o, err = v.client.Overview(v.Context(), ""); err != nil {
			return m, err
		}
	}
	bad := attention(o, found.Data, cursor == "")
	if m.Bad, err = v.troubledRows(bad, len(bad)); err != nil {
		return m, err
	}
	for i := range found.Data {
		if found.Data[i].Health.State == grapnel.HealthHealthy {
			m.Well = append(m.Well, v.endpointRow(about(&found.Data[i])))
		}
	}
	healthy, others := o.Endpoints.Healthy, o.Endpoints.All-o.Endpoints.Healthy
	well := "healthy"
	if v.session.portal {
		well = "working"
	}
	m.Verdict.say(say.Many(healthy, "endpoint is", "endpoints are")+" "+well+".", "", words.Pending(v.now, o))
	if others > 0 {
		m.Verdict.Pieces[0].Text = say.Many(others, "endpoint needs", "endpoints need") + " attention; " +
			say.Many(healthy, "other is", "others are") + " " + well + "."
	}
	if v.session.portal && cursor == "" {
		if err := m.rates(v); err != nil {
			return m, err
		}
	}
	m.pager = v.pager("/endpoints", cursor, found.Next, "q", word)
	if word != "" {
		m.Verdict.say(say.Many(len(found.Data), "endpoint"+m.here()+" has", "endpoints"+m.here()+" have")+" “"+word+"” in the name or URL.", "", "")
		m.Shown = say.Count(len(m.Well))
		return m, nil
	}
	if m.Shown = say.Count(len(m.Well)); len(m.Well) < healthy {
		m.Shown += " of " + say.Count(healthy)
	}
	return m, nil
}

// rateSpans are the times that these charts show.
var rateSpans = []struct {
	bucket, title, hint, form string
	width, parts              time.Duration
}{
	{"hour", "Success by the hour", "last 24 h", "15:04", time.Hour, 24},
	{"day", "Success by the day", "last 28 days", "2 Jan", 24 * time.Hour, 28},
}

// rates are the charts of a customer's own success, counted when first attempts are made.
func (m *endpointsModel) rates(v *visit) error {
	for _, of := range rateSpans {
		stats, err := v.client.Stats(v.Context(), client.StatsFilter{From: v.now.Add(-of.parts * of.width), Bucket: of.bucket})
		if err != nil {
			return err
		}
		c := chart{Title: of.title, Hint: firstAttempts(&stats.Totals) + ", " + of.hint}
		if stats.Totals.FirstAttempts == 0 {
			c.Hint, c.Empty = of.hint, "Nothing was sent to you in this time."
		} else {
			var bars []picture.Bar
			parts := spread(stats.Data, stats.From, v.now, of.width)
			for i := range parts {
				p := &parts[i]
				bars = append(bars, picture.Bar{Says: p.At.UTC().Format(of.form) + " UTC: " + firstAttempts(&p.Totals), Parts: []picture.Part{
					{Tone: toneOK, Value: float64(p.FirstAttemptSuccess)}, {Tone: toneBad, Value: float64(p.FirstAttempts - p.FirstAttemptSuccess)}}})
			}
			c.Picture = drawn(picture.Bars(bars, of.title+": "+firstAttempts(&stats.Totals)+" in the "+of.hint+"."))
			c.Axis = []string{parts[0].At.UTC().Format(of.form), parts[len(parts)/2].At.UTC().Format(of.form), "now (UTC)"}
		}
		m.Rates = append(m.Rates, c)
	}
	return nil
}

// firstAttempts says how many of the first attempts succeeded.
func firstAttempts(t *client.Totals) string {
	if t.FirstAttempts == 0 {
		return "nothing sent"
	}
	return say.Percent(t.FirstAttemptSuccess, t.FirstAttempts) + " % of " +
		say.Many(t.FirstAttempts, "first attempt", "first attempts") + " succeeded"
}

// mostLeading is how many endpoints of all pages the first page begins with.
const mostLeading = 20

// attention is the endpoints that need attention: on the first page the worst of all, also those
// of later pages, and on each page those of the page that are not among these.
func attention(o *client.Overview, page []client.Endpoint, first bool) (bad []client.OverviewEndpoint) {
	worst := o.Attention[:min(len(o.Attention), mostLeading)]
	if first {
		bad = slices.Clone(worst)
	}
	for _, e := range troubled(page) {
		if !slices.ContainsFunc(worst, func(named client.OverviewEndpoint) bool { return named.ID == e.ID }) {
			bad = append(bad, *about(&e))
		}
	}
	return bad
}

func endpointsTwin(v *visit) (string, url.Values) {
	path, q := cursored("/v1/endpoints")(v)
	q.Set("limit", fmt.Sprint(v.web.Bounds.Page*2))
	return path, q
}
