package api

import (
	"net/http"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/wire"
)

func duplicateRoutes() []route {
	return []route{{method: "GET", path: "/v1/duplicates", scope: grapnel.ScopeRead, handle: listDuplicates,
		name: "list-duplicates", tag: "Events", summary: "List events that were published or received again, the latest first",
		about: "Of each tenant the 200 events that came again last, for 90 days. A repetition changes nothing, so it is noted in memory and " +
			"written within some seconds: one that came just before a crash may be missing, and of thousands at once only some are noted. " +
			"An Idempotency-Key that is used again is no duplicate.",
		query: []param{tenantParam, {name: "event", form: "id", doc: "only this event"}}, gives: map[int]any{200: list[wire.Duplicate]{}}}}
}

// mostDuplicateTenants bounds the tenants of which one answer has duplicates.
const mostDuplicateTenants = 50

func listDuplicates(a *api, c *call) (answer, error) {
	q := store.DocumentQuery{Kind: store.DuplicatesKind, Tenant: c.query.text("tenant"), Limit: mostDuplicateTenants}
	event := c.query.text("event")
	docs, err := a.History.DocumentList(c.Context(), c.scope, q)
	if err != nil {
		return answer{}, err
	}
	var all []grapnel.Duplicate
	for i := range docs {
		of, err := store.DecodeDuplicates(docs[i].Body)
		if err != nil {
			return answer{}, err
		}
		for _, d := range of {
			if event == "" || d.Event == event {
				all = append(all, d)
			}
		}
	}
	store.SortDuplicates(all)
	out := list[wire.Duplicate]{Data: []wire.Duplicate{}}
	for _, d := range all[:min(len(all), store.MostDuplicates)] {
		out.Data = append(out.Data, wire.Duplicate{EventID: d.Event, Tenant: d.Tenant, Source: d.Source, Times: d.Times,
			FirstAt: d.First, LastAt: d.Last})
	}
	return jsonAnswer(http.StatusOK, out), nil
}
