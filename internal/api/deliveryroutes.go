package api

import (
	"net/http"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/api/strict"
	"github.com/grapnelhq/grapnel/internal/store"
)

func deliveryRoutes() []route {
	return []route{
		{method: "GET", path: "/v1/deliveries", scope: grapnel.ScopeRead, handle: listDeliveries,
			name: "list-deliveries", tag: "Deliveries", summary: "List deliveries, the newest first",
			query: pageOf(append(deliveryFilter(), endpointParam)...),
			gives: map[int]any{200: list[deliveryView]{}}},
		{method: "GET", path: "/v1/endpoints/{id}/deliveries", also: []string{"/webhooks/{id}/deliveries"}, scope: grapnel.ScopeRead,
			handle: listDeliveries,
			name:   "list-endpoint-deliveries", tag: "Deliveries", summary: "List the deliveries of an endpoint, the newest first",
			query: pageOf(deliveryFilter()...),
			gives: map[int]any{200: list[deliveryView]{}}},
		{method: "GET", path: "/v1/deliveries/{id}", scope: grapnel.ScopeRead, handle: getDelivery,
			name: "get-delivery", tag: "Deliveries", summary: "Get a delivery with its attempts and its plan",
			gives: map[int]any{200: deliveryView{}}},
		{method: "POST", path: "/v1/deliveries/{id}/retry", scope: grapnel.ScopeReplay, handle: retryDelivery,
			name: "retry-delivery", tag: "Deliveries", summary: "Try a delivery now",
			about: "A delivery that waits is tried now and is the answer. For one that is over a new delivery is made, at the end of its key's " +
				"line; that is the answer, with replay_of. Neither counts towards disabling, and neither waits for a breaker that is open.",
			body: &intake{types: []string{grapnel.JSONType}, optional: true}, takes: newReason{},
			gives: map[int]any{200: deliveryView{}}},
		{method: "POST", path: "/v1/endpoints/{id}/deliveries/{delivery_id}/retry", scope: grapnel.ScopeReplay, handle: retryDelivery,
			name: "retry-endpoint-delivery", tag: "Deliveries", summary: "Try a delivery of an endpoint now",
			body: &intake{types: []string{grapnel.JSONType}, optional: true}, takes: newReason{},
			gives: map[int]any{200: deliveryView{}}},
		{method: "POST", path: "/v1/deliveries/{id}/skip", scope: grapnel.ScopeReplay, handle: skipDelivery,
			name: "skip-delivery", tag: "Deliveries", summary: "Give up a waiting delivery",
			about: "The event is acknowledged by a person and its key moves on. A delivery that is over answers 409.",
			body:  &intake{types: []string{grapnel.JSONType}}, takes: newSkip{},
			gives: map[int]any{200: deliveryView{}}},
	}
}

// newSkip is how a delivery is skipped.
type newSkip struct {
	Reason string `json:"reason" required:"true" minLength:"1" maxLength:"500" doc:"kept as the delivery's reason, and in the audit"`
}

// listDeliveries lists those of one endpoint or of all.
func listDeliveries(a *api, c *call) (answer, error) {
	endpoint := c.PathValue("id")
	if endpoint != "" {
		if err := a.known(c, endpoint); err != nil {
			return answer{}, err
		}
	}
	s, limit, before := a.selection(c, endpoint), c.query.limit(), c.number()
	if err := c.query.faults.Err(); err != nil {
		return answer{}, err
	}
	out, err := some(a, c, s, before, limit, (*look).view)
	if err != nil {
		return answer{}, err
	}
	return jsonAnswer(http.StatusOK, out), nil
}

// getDelivery shows one delivery with everything known of it.
func getDelivery(a *api, c *call) (answer, error) {
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
func retryDelivery(a *api, c *call) (answer, error) {
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
	done, err := a.Engine.Retry(c.Context(), c.scope, old.Seq, by, withEffect(c, reply))
	return answered(done, done.Answer, err, reply)
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
	old := was.ids.Of(&d)
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
func skipDelivery(a *api, c *call) (answer, error) {
	var f strict.Faults
	in := decode[newSkip](c.body, &f)
	if err := f.Err(); err != nil {
		return answer{}, err
	}
	d, err := a.delivery(c, c.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	if err := a.Engine.Skip(c.Context(), c.scope, d.Seq, grapnel.By{Actor: c.key.ID, Reason: in.Reason}); err != nil {
		return answer{}, err
	}
	after, err := a.delivery(c, c.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	return a.showDelivery(c, after)
}
