package api

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/api/openapi"
	"github.com/grapnelhq/grapnel/internal/api/strict"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
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

// QueueSettings are what can be set on a queue, and changed later.
type QueueSettings struct {
	Name        string      `json:"name" required:"true" minLength:"1" maxLength:"64" form:"queue" doc:"by which consumers ask for it: [A-Za-z0-9_-], and not like a queue's id; one queue of a tenant has it"`
	Description string      `json:"description,omitempty" maxLength:"1000"`
	EventTypes  []string    `json:"event_types,omitempty" maxItems:"100" form:"pattern" nullable:"false" doc:"patterns in which a whole segment may be *; none: every type"`
	Filter      string      `json:"filter,omitempty" maxLength:"4096" doc:"a CEL expression over event (type, key, data, metadata)"`
	Source      string      `json:"source,omitempty" form:"id" doc:"the id of a source: only what came in through it; none: from anywhere"`
	Policy      policyInput `json:"policy,omitempty" doc:"the name of a policy, or a policy; none: queue"`
	Ordering    string      `json:"ordering,omitempty" enum:"key,none" doc:"none: events of one key do not wait for each other; key if not given"`
	Lease       string      `json:"lease,omitempty" form:"lease" doc:"how long a consumer has unless it extends, 1s to 12h; 30s if not given"`
	MaxLeased   int         `json:"max_leased,omitempty" minimum:"1" maximum:"10000" doc:"leases that one consumer may hold at once; 1000 if not given"`
	Quiet       bool        `json:"quiet,omitempty" doc:"nobody but its consumers notices it: no webhook_endpoint.* events are about it, no statistics count it, and what would be a dead letter or block its key is discarded; false if not given"`
	Status      string      `json:"status,omitempty" enum:"enabled,paused,disabled" doc:"paused: nothing is handed out; enabled if not given"`
}

// newQueue is how a queue is created.
type newQueue struct {
	QueueSettings
	Tenant string `json:"tenant,omitempty" form:"tenant" doc:"the key's tenant, else default"`
}

// queueView is a queue as it is shown.
type queueView struct {
	ID             string    `json:"id"`
	Tenant         string    `json:"tenant"`
	Name           string    `json:"name"`
	Description    string    `json:"description"`
	EventTypes     []string  `json:"event_types" nullable:"false"`
	Filter         *string   `json:"filter"`
	Source         *string   `json:"source"`
	Policy         policyRef `json:"policy"`
	Ordering       string    `json:"ordering" enum:"key,none"`
	Lease          span      `json:"lease"`
	MaxLeased      int       `json:"max_leased"`
	Quiet          bool      `json:"quiet"`
	Status         string    `json:"status" enum:"enabled,paused,disabled"`
	DisabledReason *string   `json:"disabled_reason"`
	DisabledAt     *stamp    `json:"disabled_at" nullable:"true"`
	QueueCounts
	CreatedAt stamp `json:"created_at"`
	UpdatedAt stamp `json:"updated_at"`
	Revision  int64 `json:"revision" doc:"grows with every change"`
}

// QueueCounts are what is in a queue, and who takes from it.
type QueueCounts struct {
	Ready     *int64         `json:"ready,omitempty" doc:"due, and nobody has it; this and those below may be rough above 10000"`
	Leased    *int64         `json:"leased,omitempty"`
	Delayed   *int64         `json:"delayed,omitempty" doc:"due later: after a nack, or by the policy"`
	Waiting   *int64         `json:"waiting,omitempty" doc:"behind another one of its key"`
	Blocked   *int64         `json:"blocked,omitempty" doc:"its key waits for a person"`
	Dead      *int64         `json:"dead,omitempty" doc:"dead letters that are not discarded"`
	OldestAge *span          `json:"oldest_age,omitempty" doc:"of the oldest that is not over; absent: there is none"`
	OldestAt  *stamp         `json:"oldest_at,omitempty" doc:"when that was accepted"`
	Consumers []consumerView `json:"consumers,omitzero" nullable:"false" doc:"who has asked within a day, or holds leases; only when one queue is asked for"`
}

// consumerView is who takes from a queue.
type consumerView struct {
	Name   string `json:"name"`
	Leased int64  `json:"leased"`
	SeenAt stamp  `json:"seen_at"`
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

func viewQueue(ep *grapnel.Endpoint) queueView {
	v := queueView{
		ID: ep.ID, Tenant: ep.Tenant, Name: ep.Queue.Name, Description: ep.Description, EventTypes: ep.EventTypes, Filter: orNull(ep.Filter),
		Source: orNull(ep.Source), Policy: policyRef{ep.PolicyName, ep.Policy}, Ordering: string(ep.Ordering), Lease: span(ep.Queue.Lease),
		MaxLeased: ep.Queue.MaxLeased, Quiet: ep.Queue.Quiet, Status: string(ep.Status), DisabledReason: orNull(ep.DisabledReason), DisabledAt: stampOf(ep.DisabledAt),
		CreatedAt: stamp(ep.CreatedAt), UpdatedAt: stamp(ep.UpdatedAt), Revision: ep.Revision,
	}
	if v.EventTypes == nil {
		v.EventTypes = []string{}
	}
	return v
}

func viewCounts(n grapnel.QueueCounts, consumers []grapnel.Consumer, now time.Time) QueueCounts {
	v := QueueCounts{Ready: &n.Ready, Leased: &n.Leased, Delayed: &n.Delayed, Waiting: &n.Waiting, Blocked: &n.Blocked, Dead: &n.Dead,
		OldestAt: stampOf(n.Oldest)}
	if !n.Oldest.IsZero() {
		age := span(max(now.Sub(n.Oldest), 0).Round(time.Millisecond))
		v.OldestAge = &age
	}
	if consumers != nil {
		v.Consumers = make([]consumerView, len(consumers))
	}
	for i, c := range consumers {
		v.Consumers[i] = consumerView{c.Name, c.Leased, stamp(c.SeenAt)}
	}
	return v
}

// queueSettings are a queue's settings as they would be given to make one like it.
func queueSettings(ep *grapnel.Endpoint) QueueSettings {
	return QueueSettings{
		Name: ep.Queue.Name, Description: ep.Description, EventTypes: ep.EventTypes, Filter: ep.Filter, Source: ep.Source,
		Policy: encode(policyRef{ep.PolicyName, ep.Policy}), Ordering: string(ep.Ordering), Lease: ep.Queue.Lease.String(), MaxLeased: ep.Queue.MaxLeased,
		Quiet: ep.Queue.Quiet, Status: string(ep.Status),
	}
}

// setQueue puts settings on a queue, or says what is wrong with them. What is left out is the default. What every endpoint has is set
// as on any other.
func setQueue(a *api, c *call, ep *grapnel.Endpoint, in QueueSettings, f *strict.Faults) {
	if in.Name != "" && (!grapnel.ValidID(in.Name) || strings.HasPrefix(in.Name, grapnel.QueuePrefix+"_")) {
		f.Add("/name", "must be 1 to %d characters of [A-Za-z0-9_-], and must not begin with %s_", grapnel.MaxQueueName, grapnel.QueuePrefix)
	}
	if len(in.Policy) == 0 {
		in.Policy = policyInput(strconv.Quote(queuePolicy))
	}
	a.set(c, ep, EndpointSettings{
		Description: in.Description, EventTypes: in.EventTypes, Filter: in.Filter, Source: in.Source, Policy: in.Policy, Ordering: in.Ordering,
		Format: string(grapnel.FormatRaw), Status: in.Status,
	}, f)
	ep.Queue = &grapnel.Queue{Name: in.Name, Lease: cmp.Or(duration(in.Lease), grapnel.DefaultLease), MaxLeased: cmp.Or(in.MaxLeased, grapnel.DefaultMaxLeased), Quiet: in.Quiet}
}

// queuePolicy is the policy of queues that name none.
const queuePolicy = policy.QueuePreset

// room is where consumers are served.
func (a *api) room() (Queues, error) {
	if a.Queues == nil {
		return nil, grapnel.Errorf(grapnel.CodeUnavailable, "This server has no queues.")
	}
	return a.Queues, nil
}

// queue is the one that the path names, by its name or id. A key that is bound to no tenant may say whose it means; else a name that only
// one tenant has will do, and then that of the default tenant.
func (a *api) queue(c *call) (grapnel.Endpoint, error) {
	name, tenant := c.PathValue("name"), c.query.text("tenant")
	ep, ok := a.Engine.Queue(c.scope, tenant, name)
	if !ok && tenant == "" {
		ep, ok = a.Engine.Queue(c.scope, grapnel.DefaultTenant, name)
	}
	if !ok {
		return ep, store.ErrNotFound("queue")
	}
	return ep, nil
}

// counter is where the queue that the path names is served. It is asked for once the query has been read, and finds fault with that first.
func (a *api) counter(c *call) (room Queues, q grapnel.Endpoint, err error) {
	if err = c.query.faults.Err(); err != nil {
		return nil, grapnel.Endpoint{}, err
	}
	if room, err = a.room(); err == nil {
		q, err = a.queue(c)
	}
	return room, q, err
}
