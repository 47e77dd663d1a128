package api

import (
	"net/http"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/api/strict"
	"github.com/grapnelhq/grapnel/internal/send/erase"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/wire"
)

const erasureTag = "Erasures"

func erasureRoutes() []route {
	return []route{
		{method: "POST", path: "/v1/erasures", scope: grapnel.ScopeAdmin, bound: errErasures, handle: createErasure,
			name: "create-erasure", tag: erasureTag, summary: "Erase the content of events",
			about: "Begins a durable job for a tenant's events that were accepted before, selected by exactly one of key, metadata and filter. " +
				"It removes their data, metadata and ordering keys, captured requests and answers, reasons and notes. Ids, types, times, outcomes and " +
				"counts stay. Pending deliveries of these events end as discarded, with the reason code erased, and their keys go on. " +
				"Needs a key that is bound to no tenant, as do all routes of erasures.",
			body: jsonBody, takes: wire.NewErasure{}, gives: map[int]any{202: wire.Erasure{}}},
		{method: "GET", path: "/v1/erasures", scope: grapnel.ScopeAdmin, bound: errErasures, handle: listErasures,
			name: "list-erasures", tag: erasureTag, summary: "List erasures, the newest first",
			query: pageOf(), gives: map[int]any{200: list[wire.Erasure]{}}},
		{method: "GET", path: "/v1/erasures/{id}", scope: grapnel.ScopeAdmin, bound: store.ErrNotFound("erasure"), handle: getErasure,
			name: "get-erasure", tag: erasureTag, summary: "Get an erasure: how far it is, and what may remain",
			gives: map[int]any{200: wire.Erasure{}}},
	}
}

// errErasures refuses callers that are bound to a tenant.
var errErasures = grapnel.Errorf(codeForbidden, "Only a key that is bound to no tenant erases; the API key is bound to one tenant.")

func viewErasure(j *erase.Job) wire.Erasure {
	v := wire.Erasure{ID: j.ID, State: string(j.State), Tenant: j.Tenant, SelectedBy: j.By, Counts: j.Counts, Reason: j.Reason,
		StartedAt: j.StartedAt, StartedBy: j.StartedBy, FinishedAt: timeOf(j.FinishedAt), Remains: j.Remains}
	if v.Counts == nil {
		v.Counts = map[string]int{}
	}
	if v.Remains == nil {
		v.Remains = []string{}
	}
	return v
}

func acceptedErasure(j *erase.Job) answer { return jsonAnswer(http.StatusAccepted, viewErasure(j)) }

func createErasure(a *api, c *call) (answer, error) {
	var f strict.Faults
	in := decode[wire.NewErasure](c.body, &f)
	s := erase.Selection{Key: in.Key, Metadata: in.Metadata, Filter: in.Filter}
	switch key, metadata, filter := in.Key != "", len(in.Metadata) > 0, in.Filter != ""; {
	case !key && !metadata && !filter:
		f.Add("/key", "is required, or metadata, or filter")
	case key && (metadata || filter):
		f.Add("/key", "must not be given together with metadata or filter")
	case metadata && filter:
		f.Add("/metadata", "must not be given together with filter")
	}
	for name, value := range in.Metadata {
		bytes := func(text string) bool { return len(text) <= grapnel.MaxMetadataLength && noNUL.MatchString(text) }
		if !bytes(value) || !bytes(name) || name == "" || !noControls.MatchString(name) {
			f.Add("/metadata/"+strict.Escape(name), "must be text of at most %d bytes, and so must its name", grapnel.MaxMetadataLength)
		}
	}
	if err := f.Err(); err != nil {
		return answer{}, err
	}
	if err := a.Engine.Accepts(in.Tenant); err != nil {
		return answer{}, err
	}
	j, before, err := a.Erasures.Events(c.Context(), in.Tenant, s, c.by(in.Reason), func(j *erase.Job) *store.Once {
		return withEffect(c, func(store.Put) answer { return acceptedErasure(j) })
	})
	return answered(j, before, err, acceptedErasure)
}

func listErasures(a *api, c *call) (answer, error) {
	return pages(c, func(before string, most int) ([]*erase.Job, error) {
		return a.Erasures.List(c.Context(), before, most)
	}, func(j **erase.Job) string { return (*j).ID }, each(func(j **erase.Job) wire.Erasure { return viewErasure(*j) }))
}

func getErasure(a *api, c *call) (answer, error) {
	id := c.PathValue("id")
	if !identifier.MatchString(id) {
		return answer{}, store.ErrNotFound("erasure")
	}
	j, err := a.Erasures.Get(c.Context(), id)
	if err != nil {
		return answer{}, err
	}
	return jsonAnswer(http.StatusOK, viewErasure(j)), nil
}
