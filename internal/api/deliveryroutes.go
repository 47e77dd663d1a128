package api

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

func deliveryRoutes() []route {
	return []route{
		{method: "GET", path: "/v1/deliveries", scope: grapnel.ScopeRead, handle: (*api).listDeliveries,
			name: "list-deliveries", tag: "Deliveries", summary: "List deliveries, the newest first",
			query: pageOf(append(deliveryFilter(), param{name: "endpoint", doc: "an endpoint's id"})...),
			gives: map[int]any{200: list[deliveryView]{}}},
		{method: "GET", path: "/v1/endpoints/{id}/deliveries", also: []string{"/webhooks/{id}/deliveries"}, scope: grapnel.ScopeRead,
			handle: (*api).listDeliveries,
			name:   "list-endpoint-deliveries", tag: "Deliveries", summary: "List the deliveries of an endpoint, the newest first",
			query: pageOf(deliveryFilter()...),
			gives: map[int]any{200: list[deliveryView]{}}},
		{method: "GET", path: "/v1/deliveries/{id}", scope: grapnel.ScopeRead, handle: (*api).getDelivery,
			name: "get-delivery", tag: "Deliveries", summary: "Get a delivery with its attempts and its plan",
			gives: map[int]any{200: deliveryView{}}},
		{method: "POST", path: "/v1/deliveries/{id}/retry", scope: grapnel.ScopeReplay, handle: (*api).retryDelivery,
			name: "retry-delivery", tag: "Deliveries", summary: "Try a delivery now",
			about: "A delivery that waits is tried now and is the answer. For one that is over a new delivery is made, at the end of its key's " +
				"line; that is the answer, with replay_of. Neither counts towards disabling, and neither waits for a breaker that is open.",
			body: &intake{types: []string{grapnel.JSONType}, optional: true}, takes: newReason{},
			gives: map[int]any{200: deliveryView{}}},
		{method: "POST", path: "/v1/endpoints/{id}/deliveries/{delivery_id}/retry", scope: grapnel.ScopeReplay, handle: (*api).retryDelivery,
			name: "retry-endpoint-delivery", tag: "Deliveries", summary: "Try a delivery of an endpoint now",
			body: &intake{types: []string{grapnel.JSONType}, optional: true}, takes: newReason{},
			gives: map[int]any{200: deliveryView{}}},
		{method: "POST", path: "/v1/deliveries/{id}/skip", scope: grapnel.ScopeReplay, handle: (*api).skipDelivery,
			name: "skip-delivery", tag: "Deliveries", summary: "Give up a waiting delivery",
			about: "The event is acknowledged by a person and its key moves on. A delivery that is over answers 409.",
			body:  &intake{types: []string{grapnel.JSONType}}, takes: newSkip{},
			gives: map[int]any{200: deliveryView{}}},
	}
}

func deliveryFilter() []param {
	var names []string
	for _, s := range grapnel.Statuses() {
		names = append(names, string(s))
	}
	return []param{
		{name: "status", repeat: true, one: names, doc: "one or more statuses, repeated or separated by commas"},
		typeParam, keyParam, tenantParam, fromParam, toParam,
	}
}

// newSkip is how a delivery is skipped.
type newSkip struct {
	Reason string `json:"reason" required:"true" minLength:"1" maxLength:"500" doc:"kept as the delivery's reason, and in the audit"`
}

// listDeliveries lists those of one endpoint or of all.
func (a *api) listDeliveries(c *call) (answer, error) {
	endpoint := c.PathValue("id")
	if endpoint != "" {
		if _, ok := a.Street.Endpoint(c.scope, endpoint); !ok {
			// The history of an endpoint outlives it.
			past, err := a.History.DeliveryList(c.Context(), c.scope, store.DeliveryQuery{Endpoint: endpoint, Limit: 1})
			if err != nil || len(past) == 0 {
				return answer{}, cmp.Or(err, store.ErrNotFound("endpoint"))
			}
		}
	} else {
		endpoint = c.query.text("endpoint")
	}
	limit := c.query.limit()
	q := store.DeliveryQuery{
		Endpoint: endpoint, Type: c.query.pattern("type"), Key: c.query.text("key"), Tenant: c.query.text("tenant"),
		Before: c.number(), Limit: limit + 1,
	}
	q.From, q.To = c.query.span()
	for _, s := range c.query.all("status") {
		q.Status = append(q.Status, grapnel.Status(s))
	}
	if slices.Contains(q.Status, grapnel.Held) || slices.Contains(q.Status, grapnel.Pending) {
		q.HeldEndpoints = a.Street.Held()
	}
	if err := c.query.faults.err(); err != nil {
		return answer{}, err
	}
	found, err := a.History.DeliveryList(c.Context(), c.scope, q)
	if err != nil {
		return answer{}, err
	}
	part := page(c, found, limit, func(d *grapnel.Delivery) string { return strconv.FormatInt(d.Seq, 10) })
	out := list[deliveryView]{Data: make([]deliveryView, len(part.Data)), Next: part.Next}
	look := a.look(c)
	look.ask(part.Data)
	for i := range part.Data {
		if out.Data[i], err = look.view(&part.Data[i]); err != nil {
			return answer{}, err
		}
	}
	return jsonAnswer(http.StatusOK, out), nil
}

// getDelivery shows one delivery with everything known of it.
func (a *api) getDelivery(c *call) (answer, error) {
	d, err := a.delivery(c, c.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	return a.showDelivery(c, d)
}

func (a *api) showDelivery(c *call, d *grapnel.Delivery) (answer, error) {
	v, err := a.look(c).whole(d)
	if err != nil {
		return answer{}, err
	}
	return jsonAnswer(http.StatusOK, v), nil
}

// retryDelivery tries a waiting delivery now, or makes a new one of one that is over.
func (a *api) retryDelivery(c *call) (answer, error) {
	by, err := c.by()
	if err != nil {
		return answer{}, err
	}
	id, endpoint := c.PathValue("id"), ""
	if c.PathValue("delivery_id") != "" {
		id, endpoint = c.PathValue("delivery_id"), id
	}
	old, err := a.delivery(c, id)
	if err != nil {
		return answer{}, err
	}
	if endpoint != "" && endpoint != old.EndpointID {
		return answer{}, store.ErrNotFound("delivery")
	}
	was := a.look(c).situation(old)
	was.urgent = true
	reply := func(done store.Redelivered) answer { return retried(was, done) }
	done, err := a.Street.Retry(c.Context(), c.scope, old.Seq, by, withEffect(c, reply))
	if err == nil {
		err = first(done.Answer)
	}
	if err != nil {
		return answer{}, err
	}
	return reply(done), nil
}

// retried shows what a retry made. It is composed from what is known instead of read back, because it is stored in the transaction that
// makes it so.
func retried(was situation, done store.Redelivered) answer {
	d := *was.delivery
	was.delivery = &d
	if done.Delivery == d.Seq {
		d.Waiting.Due, d.Waiting.Blocked, d.Reason = was.now, false, ""
		return jsonAnswer(http.StatusOK, viewDelivery(was, nil).with(was))
	}
	old := d.ID()
	d = grapnel.Delivery{
		Seq: done.Delivery, EventSeq: d.EventSeq, EventID: d.EventID, EndpointID: d.EndpointID, Tenant: d.Tenant, Type: d.Type, Key: d.Key,
		Status: grapnel.Pending, CreatedAt: done.CreatedAt, ReplayOf: d.Seq,
	}
	if h := done.Head; h != nil {
		d.Position, d.Waiting = h.Position, grapnel.Waiting{Head: true, Due: h.Due, Anchor: h.Anchor}
	}
	return jsonAnswer(http.StatusOK, viewDelivery(was, &old).with(was))
}

// skipDelivery ends a waiting delivery because a person says so.
func (a *api) skipDelivery(c *call) (answer, error) {
	var f faults
	in := decode[newSkip](c.body, &f)
	if err := f.err(); err != nil {
		return answer{}, err
	}
	d, err := a.delivery(c, c.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	if err := a.Street.Skip(c.Context(), c.scope, d.Seq, grapnel.By{Actor: c.key.ID, Reason: in.Reason}); err != nil {
		return answer{}, err
	}
	after, err := a.delivery(c, c.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	return a.showDelivery(c, after)
}
