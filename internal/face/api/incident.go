package api

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/api/strict"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/tell/statuspage"
	"github.com/grapnelhq/grapnel/wire"
)

// Incidents are documents of the operator. They are public by intention, so only
// keys with the scope admin that are bound to no tenant write them.
func incidentRoutes() []route {
	return []route{
		{method: "GET", path: "/v1/incidents", scope: grapnel.ScopeRead, bound: errIncidents, handle: listIncidents,
			name: "list-incidents", tag: promiseTag, summary: "List incidents and maintenance, the newest first",
			about: "Needs a key that is bound to no tenant, as do all routes of incidents.",
			query: pageOf(), gives: map[int]any{200: list[wire.Incident]{}}},
		{method: "POST", path: "/v1/incidents", scope: grapnel.ScopeAdmin, bound: errIncidents, handle: openIncident,
			name: "open-incident", tag: promiseTag, summary: "Publish an incident or planned maintenance on the status page",
			about: "Everything of it is public. Maintenance needs starts_at and ends_at; its status follows the clock.",
			body:  jsonBody, takes: wire.NewIncident{}, gives: map[int]any{201: wire.Incident{}}},
		{method: "GET", path: "/v1/incidents/{id}", scope: grapnel.ScopeRead, bound: store.ErrNotFound("incident"), handle: getIncident,
			name: "get-incident", tag: promiseTag, summary: "Get an incident with its messages", gives: map[int]any{200: wire.Incident{}}},
		{method: "POST", path: "/v1/incidents/{id}/updates", scope: grapnel.ScopeAdmin, bound: store.ErrNotFound("incident"),
			handle: updateIncident,
			name:   "update-incident", tag: promiseTag, summary: "Add a message to an incident, or resolve it",
			about: "409 for an incident that is resolved, or has 50 messages and is not resolved by this one.",
			body:  jsonBody, takes: wire.NewIncidentUpdate{}, gives: map[int]any{200: wire.Incident{}}},
	}
}

// mostMessages is how many messages an incident may have, besides the one that resolves it: they
// are one document.
const mostMessages = 50

// incidentPrefix begins ids of incidents.
const incidentPrefix = "inc"

// errIncidents refuses callers that are bound to a tenant: incidents are the operator's.
var errIncidents = grapnel.Errorf(codeForbidden, "Incidents are about all tenants; the API key is bound to one tenant.")

// viewIncident is an incident as it is now.
func (c *call) viewIncident(in *wire.Incident) wire.Incident {
	v := *in
	v.Status = statuspage.StatusAt(in, c.now)
	return v
}

func listIncidents(a *api, c *call) (answer, error) {
	return pages(c, func(before string, most int) ([]store.Document, error) {
		q := store.DocumentQuery{Kind: wire.IncidentKind, After: before, Backwards: true, Limit: most}
		return a.Documents.DocumentList(c.Context(), store.Everyone(), q)
	}, func(d *store.Document) string { return d.ID }, func(found []store.Document) (_ []wire.Incident, err error) {
		all := make([]wire.Incident, len(found))
		for i := 0; i < len(found) && err == nil; i++ {
			err = json.Unmarshal(found[i].Body, &all[i])
			all[i] = c.viewIncident(&all[i])
		}
		return all, err
	})
}

// incident reads the one that the path names.
func (a *api) incident(c *call) (in wire.Incident, revision int64, _ error) {
	if !identifier.MatchString(c.PathValue("id")) {
		return in, 0, store.ErrNotFound("incident")
	}
	doc, err := a.Documents.Document(c.Context(), store.Everyone(), "", wire.IncidentKind, c.PathValue("id"))
	if grapnel.CodeOf(err) == grapnel.CodeNotFound {
		return in, 0, store.ErrNotFound("incident")
	}
	if err != nil {
		return in, 0, err
	}
	return in, doc.Revision, json.Unmarshal(doc.Body, &in)
}

func getIncident(a *api, c *call) (answer, error) {
	in, _, err := a.incident(c)
	return shown(in, err, c.viewIncident)
}

func openIncident(a *api, c *call) (answer, error) {
	var f strict.Faults
	req := decode[wire.NewIncident](c.body, &f)
	in := wire.Incident{ID: a.newID(incidentPrefix, c.now), Kind: cmp.Or(req.Kind, "incident"), Title: req.Title, Impact: cmp.Or(req.Impact, "degraded"),
		Components: slices.Clone(req.Components), Status: cmp.Or(req.Status, "investigating"), StartsAt: c.now, CreatedAt: c.now}
	if in.Components == nil {
		in.Components = []string{}
	}
	if req.StartsAt != nil {
		in.StartsAt = *req.StartsAt
	}
	if in.Kind == "maintenance" {
		planMaintenance(&in, &req, c.now, &f)
	} else {
		if req.EndsAt != nil {
			f.Add("/ends_at", "must not be given together with kind incident, which ends with an update whose status is resolved")
		}
		if in.StartsAt.After(c.now) {
			f.Add("/starts_at", "must not be in the future; plan maintenance with kind maintenance")
		}
	}
	if err := f.Err(); err != nil {
		return answer{}, err
	}
	in.Updates = []wire.IncidentUpdate{{At: c.now, Status: in.Status, Text: req.Text}}
	return a.putIncident(c, &in, 0, grapnel.VerbCreate, http.StatusCreated)
}

// planMaintenance checks the window of maintenance.
func planMaintenance(in *wire.Incident, req *wire.NewIncident, now time.Time, f *strict.Faults) {
	if req.StartsAt == nil {
		f.Add("/starts_at", "is required for maintenance")
	}
	if req.EndsAt == nil {
		f.Add("/ends_at", "is required for maintenance")
	}
	if req.Status != "" {
		f.Add("/status", "must not be given together with kind maintenance, whose status follows the clock")
	}
	if req.StartsAt == nil || req.EndsAt == nil {
		return
	}
	if !req.EndsAt.After(*req.StartsAt) || !req.EndsAt.After(now) {
		f.Add("/ends_at", "must be after starts_at, and in the future")
	}
	in.EndsAt, in.Status = req.EndsAt, "planned"
}

// updateIncident adds a message, and begins again if another request has added one meanwhile.
func updateIncident(a *api, c *call) (answer, error) {
	for tries := 1; ; tries++ {
		in, revision, err := a.incident(c)
		if err != nil {
			return answer{}, err
		}
		var f strict.Faults
		req := decode[wire.NewIncidentUpdate](c.body, &f)
		if err := f.Err(); err != nil {
			return answer{}, err
		}
		if err := addMessage(&in, &req, c.now); err != nil {
			return answer{}, err
		}
		ans, err := a.putIncident(c, &in, revision, grapnel.VerbChange, http.StatusOK)
		if grapnel.CodeOf(err) == grapnel.CodeConflict && tries < 5 {
			continue
		}
		return ans, err
	}
}

// addMessage adds a message to an incident, or refuses it.
func addMessage(in *wire.Incident, req *wire.NewIncidentUpdate, at time.Time) error {
	var f strict.Faults
	now := statuspage.StatusAt(in, at)
	switch maintenance := in.Kind == "maintenance"; {
	case now == "resolved" || now == "finished":
		return grapnel.Errorf(grapnel.CodeConflict, "This is %s; open another one.", now)
	case len(in.Updates) >= mostMessages && req.Status != "resolved":
		return grapnel.Errorf(grapnel.CodeConflict, "This has %d messages, which is the most; resolve it and open another one.", mostMessages)
	case maintenance && req.Status != "" && req.Status != "resolved":
		f.Add("/status", "must not be given together with maintenance, which follows the clock; only resolved ends it")
	case maintenance && req.Status == "resolved":
		in.Status, in.EndsAt = "finished", &at
	case maintenance:
		if in.Status = now; req.EndsAt != nil && (!req.EndsAt.After(at) || !req.EndsAt.After(in.StartsAt)) {
			f.Add("/ends_at", "must be after starts_at, and in the future")
		} else if req.EndsAt != nil {
			in.EndsAt = req.EndsAt
		}
	case req.EndsAt != nil:
		f.Add("/ends_at", "must not be given together with an incident; it is for maintenance")
	default:
		if in.Status = cmp.Or(req.Status, in.Status); in.Status == "resolved" {
			in.EndsAt = &at
		}
	}
	in.Updates = append([]wire.IncidentUpdate{{At: at, Status: in.Status, Text: req.Text}}, in.Updates...)
	return f.Err()
}

// putIncident stores an incident with its audit entry, and has the page made anew.
func (a *api) putIncident(c *call, in *wire.Incident, revision int64, verb grapnel.Verb, status int) (answer, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return answer{}, err
	}
	reply := func(store.Put) answer { return jsonAnswer(status, c.viewIncident(in)) }
	done, err := a.Documents.PutDocuments(c.Context(), store.Everyone(),
		[]store.DocumentWrite{{Document: store.Document{Kind: wire.IncidentKind,
			ID: in.ID, Revision: revision, At: c.now, Body: body}}},
		store.With{Once: withEffect(c, reply), Audit: c.entryOf(verb, "", in.ID, in.Title)})
	if err == nil && a.Told != nil {
		a.Told()
	}
	return answered(done, done.Answer, err, reply)
}
