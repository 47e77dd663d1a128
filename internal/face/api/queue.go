package api

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/api/strict"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
	"github.com/grapnelhq/grapnel/wire"
)

func queueRoutes() []route {
	lever := func(verb, summary, about string, handle func(*api, *call) (answer, error)) route {
		return route{method: "POST", path: "/v1/queues/{name}/" + verb, scope: grapnel.ScopeManage, lever: true, handle: handle,
			name: verb + "-queue", tag: "Queues", summary: summary, about: about, query: []param{tenantParam},
			body: optionalBody, takes: newReason{}, gives: map[int]any{200: wire.Queue{}}}
	}
	return []route{
		{method: "POST", path: "/v1/queues", scope: grapnel.ScopeManage, handle: createQueue,
			name: "create-queue", tag: "Queues", summary: "Create a queue",
			about: "A queue is an endpoint that consumers pull from: it gets its own copy of every event that it wants, and " +
				"consumers lease messages. Its id works at /v1/endpoints/{id}/… too, for deliveries, lanes, statistics and " +
				"replays; lists of endpoints leave it out.",
			body: jsonBody, takes: wire.NewQueue{}, gives: map[int]any{201: wire.Queue{}}},
		{method: "GET", path: "/v1/queues", scope: grapnel.ScopeRead, portal: grapnel.ScopeRead, whole: true, handle: listQueues,
			name: "list-queues", tag: "Queues", summary: "List queues, with their counts",
			query: pageOf(tenantParam, searchParam), gives: map[int]any{200: list[wire.Queue]{}}},
		{method: "GET", path: "/v1/queues/{name}", scope: grapnel.ScopeRead, handle: getting((*api).queue, showQueue),
			name: "get-queue", tag: "Queues", summary: "Get a queue by its name or id, with its counts and consumers",
			query: []param{tenantParam}, gives: map[int]any{200: wire.Queue{}}},
		{method: "PATCH", path: "/v1/queues/{name}", scope: grapnel.ScopeManage,
			handle: patching((*api).queue, showQueue, queueSettings, setQueue),
			name:   "update-queue", tag: "Queues", summary: "Change a queue",
			about: "A JSON merge patch: null sets a field back to its default. Once pausing or disabling is answered, nothing more is leased; leases can still be settled.",
			query: []param{tenantParam, reasonParam}, body: patchBody, takes: wire.NewQueue{}, gives: map[int]any{200: wire.Queue{}}},
		{method: "DELETE", path: "/v1/queues/{name}", scope: grapnel.ScopeManage, handle: deleting((*api).queue),
			name: "delete-queue", tag: "Queues", summary: "Delete a queue",
			about: "Its pending deliveries end as dropped, and its leases end. Its history stays.",
			query: []param{tenantParam, reasonParam}, gives: map[int]any{204: nil}},
		lever("pause", "Lease nothing from a queue",
			"Leases can still be settled. A paused queue stays paused; 409 for a disabled one.", steering((*api).queue, showQueue, paused)),
		lever("resume", "Lease again from a paused queue", "A queue that is not paused stays as it is; 409 for a disabled one: a PATCH of its status enables it.",
			steering((*api).queue, showQueue, resumed)),
		{method: "POST", path: "/v1/queues/{name}/purge", scope: grapnel.ScopeManage, handle: purgeQueue,
			name: "purge-queue", tag: "Queues", summary: "Discard all pending messages of a queue",
			about: "Leases of its messages end. Dead letters stay. confirm has to be the queue's name.",
			query: []param{tenantParam}, body: jsonBody, takes: newPurge{}, gives: map[int]any{200: wire.Purge{}}},
	}
}

// The fields of queues that answers and requests copy: those that every endpoint has, and their
// own.
var (
	queueFields = pairOf[grapnel.Endpoint, wire.Queue]("Name", "Policy", "PolicyChanges", "Lease", "MaxLeased", "Quiet", "Consumers",
		"Ready", "Leased", "Delayed", "Waiting", "Blocked", "Dead", "OldestAge", "OldestAt")
	matchingFields = pairOf[wire.NewEndpoint, wire.NewQueue]("Name", "Lease", "MaxLeased", "Quiet")
	leasingFields  = pairOf[grapnel.Queue, wire.NewQueue]("Tenant", "Description", "EventTypes", "Filter", "Source", "Policy", "Ordering", "Status")
	countFields    = pairOf[grapnel.QueueCounts, wire.QueueCounts]("OldestAge", "OldestAt")
	consumerFields = pairOf[grapnel.Consumer, wire.Consumer]()
)

// createQueue makes a queue.
func createQueue(a *api, c *call) (answer, error) {
	var f strict.Faults
	in := decode[wire.NewQueue](c.body, &f)
	ep := a.newEndpoint(c, grapnel.QueuePrefix, in.Tenant, &f)
	setQueue(a, c, &ep, &in, &f)
	if err := f.Err(); err != nil {
		return answer{}, err
	}
	return a.create(c, ep, func(ep *grapnel.Endpoint) any { return a.viewQueue(ep, &grapnel.QueueCounts{}, nil, c.now) })
}

func listQueues(a *api, c *call) (answer, error) {
	is := func(ep *grapnel.Endpoint) bool { return ep.Queue != nil }
	return listOf(a, c, is, func(eps []grapnel.Endpoint) ([]wire.Queue, error) {
		broker, err := a.broker()
		all := make([]wire.Queue, len(eps))
		for i := 0; i < len(eps) && err == nil; i++ {
			var counts grapnel.QueueCounts
			counts, err = broker.Counts(c.Context(), eps[i].ID)
			all[i] = a.viewQueue(&eps[i], &counts, nil, c.now)
		}
		return all, err
	})
}

func showQueue(a *api, c *call, ep grapnel.Endpoint) (answer, error) {
	broker, err := a.broker()
	if err != nil {
		return answer{}, err
	}
	counts, err := broker.Counts(c.Context(), ep.ID)
	if err != nil {
		return answer{}, err
	}
	consumers, err := broker.Consumers(c.Context(), ep.ID)
	if err != nil {
		return answer{}, err
	}
	return jsonAnswer(http.StatusOK, a.viewQueue(&ep, &counts, consumers, c.now)), nil
}

// newPurge empties a queue.
type newPurge struct {
	Confirm string `json:"confirm" required:"true" minLength:"1" doc:"the queue's name, as a guard against emptying another queue by mistake"`
	Reason  string `json:"reason,omitempty" minLength:"1" maxLength:"500" doc:"why; kept in the audit"`
}

// purgeQueue discards the messages of a queue. A repetition finds none, so its answer need not be
// part of the effect.
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
	n, err := a.Engine.Empty(c.Context(), c.scope, ep.ID, c.by(in.Reason))
	return result(wire.Purge{Discarded: n}, err)
}

// viewQueue is a queue with its counts. Consumers that are nil are not shown.
func (a *api) viewQueue(ep *grapnel.Endpoint, n *grapnel.QueueCounts, consumers []grapnel.Consumer, now time.Time) wire.Queue {
	v := wire.Queue{Policy: showPolicy(ep), PolicyChanges: a.viewChanges(ep), QueueCounts: &wire.QueueCounts{OldestAt: timeOf(n.Oldest)}}
	queueFields.show(ep, &v)
	v.Ordering = ep.Order()
	leasingFields.show(ep.Queue, &v.NewQueue)
	countFields.show(n, v.QueueCounts)
	if !n.Oldest.IsZero() {
		v.OldestAge = new(policy.Duration(max(now.Sub(n.Oldest), 0).Round(time.Millisecond)))
	}
	if consumers != nil {
		v.Consumers = make([]wire.Consumer, len(consumers))
	}
	for i := range consumers {
		consumerFields.show(&consumers[i], &v.Consumers[i])
	}
	return v
}

// queueSettings are a queue's settings as they would be given to make one like it.
func queueSettings(ep *grapnel.Endpoint) wire.NewQueue {
	like, in := settings(ep), wire.NewQueue{}
	matchingFields.show(&like, &in)
	leasingFields.show(ep.Queue, &in)
	return in
}

// setQueue puts settings on a queue, or adds their faults. Settings that every endpoint has are
// set as on any other.
func setQueue(a *api, c *call, ep *grapnel.Endpoint, in *wire.NewQueue, f *strict.Faults) {
	if in.Name != "" && (!grapnel.ValidID(in.Name) || strings.HasPrefix(in.Name, grapnel.QueuePrefix+"_")) {
		f.Add("/name", "must be 1 to %d characters of [A-Za-z0-9_-], and must not begin with %s_", grapnel.MaxQueueName, grapnel.QueuePrefix)
	}
	if in.Policy == nil {
		in.Policy = json.RawMessage(strconv.Quote(policy.QueuePreset))
	}
	like := wire.NewEndpoint{Format: grapnel.FormatRaw}
	matchingFields.set(in, &like)
	strict.Defaults(&like)
	a.set(c, ep, &like, f)
	ep.Queue = &grapnel.Queue{}
	leasingFields.set(in, ep.Queue)
}

// broker hands messages to consumers.
func (a *api) broker() (Queues, error) {
	if a.Queues == nil {
		return nil, grapnel.Errorf(grapnel.CodeUnavailable, "This server has no queues.")
	}
	return a.Queues, nil
}

// queue is the one that the path names, by its name or id. A key that is bound to no tenant may say
// whose it means; else a name that only one tenant has will do, and then that of the default
// tenant.
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

// counter is where the queue that the path names is served, to callers that may see its messages.
// It is asked for once the query has been read, and finds fault with that first.
func (a *api) counter(c *call) (broker Queues, q grapnel.Endpoint, err error) {
	if err = c.query.faults.Err(); err != nil {
		return nil, grapnel.Endpoint{}, err
	}
	if broker, err = a.broker(); err == nil {
		q, err = a.queue(c)
	}
	if err == nil && !c.mayReadPayloads() {
		err = errHidden
	}
	return broker, q, err
}
