package web

import (
	"fmt"
	"html/template"
	"net/url"

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
	Tenant   string
}

func (v *visit) endpointRow(e *client.Endpoint) endpointRow {
	r := endpointRow{
		ID: e.ID, Href: v.link("/endpoints/" + e.ID), Name: endpointName(e), Tenant: e.Tenant,
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

func endpoints(v *visit) (endpointsModel, error) {
	var m endpointsModel
	cursor := v.URL.Query().Get("cursor")
	found, err := v.client.Endpoints(v.Context(), client.EndpointFilter{Limit: v.web.Bounds.Page * 4, Cursor: cursor})
	if err != nil {
		return m, err
	}
	if len(found.Data) == 0 && cursor == "" {
		m.Empty, m.Publish = true, "grapnel endpoints create --url https://example.com/hooks"
		return m, nil
	}
	bad := troubled(found.Data)
	for i := range bad {
		m.Bad = append(m.Bad, v.endpointRow(&bad[i]))
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
	q := url.Values{"limit": {fmt.Sprint(v.web.Bounds.Page * 4)}}
	if cursor := v.URL.Query().Get("cursor"); cursor != "" {
		q.Set("cursor", cursor)
	}
	return "/v1/endpoints", q
}
