package api

import (
	"errors"
	"net/http"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/api/openapi"
	"github.com/grapnelhq/grapnel/internal/api/strict"
	"github.com/grapnelhq/grapnel/internal/store"
)

func queueRoutes() []route {
	lever := func(verb, summary, about string, handle func(*api, *call) (answer, error)) route {
		return route{method: "POST", path: "/v1/queues/{name}/" + verb, scope: grapnel.ScopeManage, handle: handle,
			name: verb + "-queue", tag: "Queues", summary: summary, about: about, query: []param{tenantParam},
			body: &intake{types: []string{grapnel.JSONType}, optional: true}, takes: newReason{}, gives: map[int]any{200: queueView{}}}
	}
	return []route{
		{method: "POST", path: "/v1/queues", scope: grapnel.ScopeManage, handle: createQueue,
			name: "create-queue", tag: "Queues", summary: "Create a queue",
			about: "A queue is an endpoint that is pulled: it gets its own copy of every event that it wants, and consumers take leases. By its id it is " +
				"found at /v1/endpoints/{id}/… too, with its deliveries, lanes, statistics and replays; it is in no list of endpoints.",
			body: &intake{types: []string{grapnel.JSONType}}, takes: newQueue{}, gives: map[int]any{201: queueView{}}},
		{method: "GET", path: "/v1/queues", scope: grapnel.ScopeRead, handle: listQueues,
			name: "list-queues", tag: "Queues", summary: "List queues, with what is in them",
			query: pageOf(tenantParam), gives: map[int]any{200: list[queueView]{}}},
		{method: "GET", path: "/v1/queues/{name}", scope: grapnel.ScopeRead, handle: getQueue,
			name: "get-queue", tag: "Queues", summary: "Get a queue by its name or id, with what is in it and who takes from it",
			query: []param{tenantParam}, gives: map[int]any{200: queueView{}}},
		{method: "PATCH", path: "/v1/queues/{name}", scope: grapnel.ScopeManage, handle: patchQueue,
			name: "update-queue", tag: "Queues", summary: "Change a queue",
			about: "A JSON merge patch: null sets a field back to its default. When pausing or disabling is answered nothing more is handed out; leases that " +
				"there are can be settled.",
			query: []param{tenantParam, reasonParam},
			body:  &intake{types: []string{openapi.TypeMergePatch, grapnel.JSONType}}, takes: QueueSettings{}, gives: map[int]any{200: queueView{}}},
		{method: "DELETE", path: "/v1/queues/{name}", scope: grapnel.ScopeManage, handle: deleteQueue,
			name: "delete-queue", tag: "Queues", summary: "Delete a queue",
			about: "What waits in it ends as dropped, and its leases are over. Its history stays.", query: []param{tenantParam, reasonParam}, gives: map[int]any{204: nil}},
		lever("pause", "Hand nothing out of a queue", "Leases that there are can be settled. One that is paused already stays so; a disabled one answers 409.", pauseQueue),
		lever("resume", "Hand out again", "One that is not paused stays as it is; a disabled one answers 409: it is enabled by a PATCH of its status.", resumeQueue),
		{method: "POST", path: "/v1/queues/{name}/purge", scope: grapnel.ScopeManage, handle: purgeQueue,
			name: "purge-queue", tag: "Queues", summary: "Discard everything that is in a queue",
			about: "Whoever has a lease: it is over. Dead letters are not touched. confirm has to be the queue's name.",
			query: []param{tenantParam}, body: &intake{types: []string{grapnel.JSONType}}, takes: newPurge{}, gives: map[int]any{200: purgeView{}}},
	}
}

// createQueue makes a queue.
func createQueue(a *api, c *call) (answer, error) {
	var f strict.Faults
	in := decode[newQueue](c.body, &f)
	ep := grapnel.Endpoint{
		ID: a.newID(grapnel.QueuePrefix, c.now), CreatedAt: c.now, UpdatedAt: c.now,
		Tenant: c.tenant(optional{in.Tenant, in.Tenant != ""}, "/tenant", &f),
	}
	setQueue(a, c, &ep, in.QueueSettings, &f)
	if err := f.Err(); err != nil {
		return answer{}, err
	}
	reply := func(done store.Put) answer {
		ep := ep
		ep.Revision = done.Revision
		v := viewQueue(&ep)
		v.QueueCounts = viewCounts(grapnel.QueueCounts{}, nil, c.now)
		return jsonAnswer(http.StatusCreated, v)
	}
	done, err := a.Engine.PutEndpoint(c.Context(), c.scope, ep,
		store.With{Once: withEffect(c, reply), Audit: c.entry(grapnel.VerbCreate, &ep, "")})
	return answered(done, done.Answer, err, reply)
}

// listQueues lists those in scope, by id, which is by age.
func listQueues(a *api, c *call) (answer, error) {
	limit, after, tenant := c.query.limit(), c.position(), c.query.text("tenant")
	if err := c.query.faults.Err(); err != nil {
		return answer{}, err
	}
	found := slices.DeleteFunc(a.Engine.Queues(c.scope), func(ep grapnel.Endpoint) bool {
		return ep.ID <= after || tenant != "" && ep.Tenant != tenant
	})
	room, err := a.room()
	if err != nil {
		return answer{}, err
	}
	part := page(c, found, limit, func(ep *grapnel.Endpoint) string { return ep.ID })
	out := list[queueView]{Data: make([]queueView, len(part.Data)), Next: part.Next}
	for i := range part.Data {
		counts, err := room.Counts(c.Context(), part.Data[i].ID)
		if err != nil {
			return answer{}, err
		}
		out.Data[i] = viewQueue(&part.Data[i])
		out.Data[i].QueueCounts = viewCounts(counts, nil, c.now)
	}
	return jsonAnswer(http.StatusOK, out), nil
}

func getQueue(a *api, c *call) (answer, error) {
	ep, err := a.queue(c)
	if err != nil {
		return answer{}, err
	}
	return showQueue(a, c, ep)
}

func showQueue(a *api, c *call, ep grapnel.Endpoint) (answer, error) {
	room, err := a.room()
	if err != nil {
		return answer{}, err
	}
	counts, err := room.Counts(c.Context(), ep.ID)
	if err != nil {
		return answer{}, err
	}
	consumers, err := room.Consumers(c.Context(), ep.ID)
	if err != nil {
		return answer{}, err
	}
	v := viewQueue(&ep)
	v.QueueCounts = viewCounts(counts, consumers, c.now)
	return jsonAnswer(http.StatusOK, v), nil
}

// patchQueue merges a patch into the settings and reads the result as if it had been given as a whole.
func patchQueue(a *api, c *call) (answer, error) {
	patch := gjson.ParseBytes(c.body)
	reason := c.reason()
	ep, err := a.change(c, (*api).queue, reason, func(ep *grapnel.Endpoint) error {
		var f strict.Faults
		checkPatch[QueueSettings](patch, &f)
		merged := strict.Merge(gjson.ParseBytes(encode(queueSettings(ep))), patch, "/", &f)
		if err := f.Err(); err != nil {
			return err
		}
		setQueue(a, c, ep, decode[QueueSettings](merged, &f), &f)
		return f.Err()
	}, notOnce)
	if err != nil {
		return answer{}, err
	}
	return showQueue(a, c, ep)
}

// deleteQueue stops a queue for good.
func deleteQueue(a *api, c *call) (answer, error) {
	reason := c.reason()
	ep, err := a.queue(c)
	if err != nil {
		return answer{}, err
	}
	if err := a.Engine.DeleteEndpoint(c.Context(), c.scope, ep.ID, grapnel.By{Actor: c.key.ID, Reason: reason}); err != nil {
		return answer{}, err
	}
	return nothing(), nil
}

func pauseQueue(a *api, c *call) (answer, error) { return steerQueue(a, c, paused) }

func resumeQueue(a *api, c *call) (answer, error) { return steerQueue(a, c, resumed) }

// steerQueue changes a queue's status for the reason in the body, and shows how the queue is then.
func steerQueue(a *api, c *call, edit func(*call, *grapnel.Endpoint) error) (answer, error) {
	by, err := c.by()
	if err != nil {
		return answer{}, err
	}
	ep, err := a.change(c, (*api).queue, by.Reason, func(ep *grapnel.Endpoint) error { return edit(c, ep) }, notOnce)
	if err != nil && !errors.Is(err, errAsItIs) {
		return answer{}, err
	}
	return showQueue(a, c, ep)
}

// newPurge empties a queue.
type newPurge struct {
	Confirm string `json:"confirm" required:"true" minLength:"1" doc:"the queue's name, so that nobody empties another one by mistake"`
	Reason  string `json:"reason,omitempty" minLength:"1" maxLength:"500" doc:"why; kept in the audit"`
}

// purgeView says what emptying a queue has done.
type purgeView struct {
	Discarded int `json:"discarded" doc:"deliveries that were in the queue"`
}

// purgeQueue discards what is in a queue. A repetition finds nothing more, so its answer need not be part of the effect.
func purgeQueue(a *api, c *call) (answer, error) {
	var f strict.Faults
	in := decode[newPurge](c.body, &f)
	ep, err := a.queue(c)
	if err != nil {
		return answer{}, err
	}
	if in.Confirm != "" && in.Confirm != ep.Queue.Name {
		f.Add("/confirm", "must be %s, the queue's name", ep.Queue.Name)
	}
	if err := f.Err(); err != nil {
		return answer{}, err
	}
	n, err := a.Engine.Empty(c.Context(), c.scope, ep.ID, grapnel.By{Actor: c.key.ID, Reason: in.Reason})
	if err != nil {
		return answer{}, err
	}
	return jsonAnswer(http.StatusOK, purgeView{n}), nil
}
