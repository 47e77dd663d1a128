package web

import (
	"fmt"
	"html/template"
	"net/url"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
)

// endpointsModel is the list of endpoints, those that need eyes first.
type endpointsModel struct {
	Empty   bool
	Publish string
	Answer  string
	Next    string
	Bad     []endpointRow
	Well    []endpointRow
	Older   string
	Newest  string
}

// endpointRow is one endpoint in a list.
type endpointRow struct {
	ID, Href string
	Name     string
	Where    string
	Pill     pill
	Waiting  string
	Why      string
	Heart    template.HTML
}

func (v *visit) endpointRow(e *client.Endpoint) endpointRow {
	r := endpointRow{
		ID: e.ID, Href: v.link("/endpoints/" + e.ID), Name: endpointName(e),
		Pill: healthPill(e.Health.State), Why: consequence(v.now, e),
	}
	if e.Description != "" {
		r.Where = where(e.URL)
	}
	if n := max(e.Health.Held, e.Health.Waiting); n > 0 {
		r.Waiting = count(n)
		if e.Health.HeldMore {
			r.Waiting += "+"
		}
	}
	return r
}

// mostHearts is how many endpoints of a list have a heartbeat, which is a call of the API for each.
const mostHearts = 12

// troubledRows are rows of endpoints that need attention; the first of them have a heartbeat.
func (v *visit) troubledRows(bad []client.Endpoint, most int) (rows []endpointRow, err error) {
	for i := range bad[:min(len(bad), most)] {
		r := v.endpointRow(&bad[i])
		if i < mostHearts {
			stats, err := v.client.Stats(v.Context(), client.StatsFilter{Endpoint: r.ID, From: v.now.Add(-beats * time.Hour), Bucket: "hour"})
			if err != nil {
				return nil, err
			}
			r.Heart = heart(hourly(stats, v.now))
		}
		rows = append(rows, r)
	}
	return rows, nil
}

func endpoints(v *visit) (endpointsModel, error) {
	var m endpointsModel
	cursor := v.URL.Query().Get("cursor")
	found, err := v.client.Endpoints(v.Context(), client.EndpointFilter{Limit: v.web.Bounds.Page * 3, Cursor: cursor})
	if err != nil {
		return m, err
	}
	if len(found.Data) == 0 && cursor == "" {
		m.Empty, m.Publish = true, createCommand
		return m, nil
	}
	bad := troubled(found.Data)
	if m.Bad, err = v.troubledRows(bad, len(bad)); err != nil {
		return m, err
	}
	for i := range found.Data {
		if found.Data[i].Health.State == grapnel.HealthHealthy {
			m.Well = append(m.Well, v.endpointRow(&found.Data[i]))
		}
	}
	m.Answer = fmt.Sprintf("%s healthy.", many(len(m.Well), "endpoint is", "endpoints are"))
	if len(m.Bad) > 0 {
		m.Answer = fmt.Sprintf("%s attention; %s healthy.", many(len(m.Bad), "endpoint needs", "endpoints need"), many(len(m.Well), "other is", "others are"))
	}
	if found.Next != "" {
		m.Older = v.link("/endpoints" + withQuery("cursor", found.Next))
		m.Next = "These are not all; the list has further pages."
	}
	if cursor != "" {
		m.Newest = v.link("/endpoints")
	}
	return m, nil
}

func endpointsTwin(v *visit) (string, url.Values) {
	q := url.Values{"limit": {fmt.Sprint(v.web.Bounds.Page * 3)}}
	if cursor := v.URL.Query().Get("cursor"); cursor != "" {
		q.Set("cursor", cursor)
	}
	return "/v1/endpoints", q
}
