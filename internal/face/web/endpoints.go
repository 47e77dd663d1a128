package web

import (
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/face/words"
)

// endpointsModel is the list of endpoints, those that need eyes first.
type endpointsModel struct {
	pager
	Verdict verdict
	Bad     []endpointRow
	Well    []endpointRow
	Shown   string // how many of the healthy ones are on this page; empty: there is no endpoint yet
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
		r := v.endpointRow(&bad[i])
		if i < mostHearts {
			stats, err := v.client.Stats(v.Context(), client.StatsFilter{Endpoint: r.ID, From: v.now.Add(-beats * time.Hour), Bucket: "hour"})
			if err != nil {
				return nil, err
			}
			r.Heart = heart(ofHours, hourly(stats.Data, stats.From, v.now), false)
		}
		rows = append(rows, r)
	}
	return rows, nil
}

func endpoints(v *visit) (endpointsModel, error) {
	m := endpointsModel{Verdict: verdict{Acts: v.offers("Add an endpoint", "/endpoints/new")}}
	cursor, word := v.URL.Query().Get("cursor"), v.word()
	if to := jump(word); to != "" {
		return m, jumped(to)
	}
	found, err := v.client.Endpoints(v.Context(), client.EndpointFilter{Search: word, Limit: v.web.Bounds.Page * 2, Cursor: cursor})
	if err != nil {
		return m, err
	}
	if len(found.Data) == 0 && v.unfound(&m.Verdict, "endpoint") {
		return m, nil
	}
	if len(found.Data) == 0 && cursor == "" {
		m.Verdict.say("There is no endpoint yet.", "", "An endpoint is an address that gets your events as signed requests.")
		_, m.Verdict.Command = v.teach("", createCommand)
		return m, nil
	}
	o, err := v.client.Overview(v.Context(), "")
	if err != nil {
		return m, err
	}
	if word != "" {
		o.Attention = nil
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
	m.Verdict.say(say.Many(healthy, "endpoint is", "endpoints are")+" healthy.", "", words.Pending(v.now, o))
	if others > 0 {
		m.Verdict.Pieces[0].Text = say.Many(others, "endpoint needs", "endpoints need") + " attention; " +
			say.Many(healthy, "other is", "others are") + " healthy."
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
