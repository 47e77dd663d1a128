package api

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/egress"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/wire"
)

func deliveryRoutes() []route {
	return []route{
		{method: "GET", path: "/v1/deliveries", scope: grapnel.ScopeRead, portal: grapnel.ScopeRead, handle: listDeliveries,
			name: "list-deliveries", tag: "Deliveries", summary: "List deliveries, the newest first",
			query: pageOf(append(deliveryFilter(), endpointParam)...), gives: map[int]any{200: list[wire.Delivery]{}}},
		{method: "GET", path: "/v1/endpoints/{id}/deliveries", also: []string{"/webhooks/{id}/deliveries"},
			scope: grapnel.ScopeRead, portal: grapnel.ScopeRead,
			handle: listDeliveries,
			name:   "list-endpoint-deliveries", tag: "Deliveries", summary: "List the deliveries of an endpoint, the newest first",
			about: "Under /v1/webhook-endpoints, /v1/admin/webhook-endpoints and /webhooks the status failed takes dropped deliveries too: all that the endpoint has missed.",
			query: pageOf(deliveryFilter()...), gives: map[int]any{200: list[wire.Delivery]{}}},
		{method: "GET", path: "/v1/deliveries/{id}", scope: grapnel.ScopeRead, portal: grapnel.ScopeRead, handle: getDelivery,
			name: "get-delivery", tag: "Deliveries", summary: "Get a delivery with its attempts and its plan",
			gives: map[int]any{200: wire.Delivery{}}},
		{method: "POST", path: "/v1/deliveries/{id}/retry", scope: grapnel.ScopeReplay, portal: grapnel.ScopeReplay,
			handle: ordered(retryDelivery),
			name:   "retry-delivery", tag: "Deliveries", summary: "Try a delivery now",
			about: "A pending delivery is attempted now and is the answer. For a finished one a new delivery is created at the end of its key's lane; that is the answer, with replay_of. Neither counts towards disabling, and neither waits for an open circuit.",
			body:  optionalBody, takes: newReason{}, gives: map[int]any{200: wire.Delivery{}}},
		{method: "POST", path: "/v1/endpoints/{id}/deliveries/{delivery_id}/retry",
			scope: grapnel.ScopeReplay, portal: grapnel.ScopeReplay, handle: ordered(retryDelivery),
			name: "retry-endpoint-delivery", tag: "Deliveries", summary: "Try a delivery of an endpoint now",
			body: optionalBody, takes: newReason{}, gives: map[int]any{200: wire.Delivery{}}},
		{method: "POST", path: "/v1/deliveries/{id}/skip", scope: grapnel.ScopeReplay, portal: grapnel.ScopeReplay, handle: reading(skipDelivery),
			name: "skip-delivery", tag: "Deliveries", summary: "Skip a pending delivery",
			about: "A person acknowledges the event, and its key moves on. 409 for a finished delivery.",
			body:  jsonBody, takes: newSkip{}, gives: map[int]any{200: wire.Delivery{}}},
	}
}

var (
	markFields = pairOf[grapnel.Mark, wire.Marks]("ReplayedAs")
	lastFields = pairOf[grapnel.Last, wire.Last]("ErrorClass")
)

// newSkip is how a delivery is skipped.
type newSkip struct {
	Reason string `json:"reason" required:"true" minLength:"1" maxLength:"500" doc:"the delivery's reason, also in the audit"`
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
	if !strings.Contains(c.Pattern, " /v1/endpoints/") && endpoint != "" && slices.Contains(c.query.all("status"), string(grapnel.Failed)) {
		s.Status = append(s.Status, grapnel.Dropped) // callers of these paths look for all that was missed
	}
	if err := c.query.faults.Err(); err != nil {
		return answer{}, err
	}
	return result(a.some(c, s, before, limit))
}

// getDelivery shows one delivery with its attempts.
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
	v.Message, err = a.message(c, d)
	return result(v, err)
}

// message is the request of a delivery to a channel; nil: it cannot be made any more, or the caller
// may not see it.
func (a *api) message(c *call, d *grapnel.Delivery) (*wire.ChannelMessage, error) {
	ep, ok := a.Engine.Endpoint(c.scope, d.EndpointID)
	if !ok || ep.Channel == nil || !c.mayReadPayloads() {
		return nil, nil
	}
	ev, _, err := a.History.Event(c.Context(), c.scope, d.Tenant, d.EventID)
	switch {
	case grapnel.CodeOf(err) == grapnel.CodeNotFound, err == nil && (ev.Seq != d.EventSeq || ev.Erased): // purged; the id may be another event's now
		return nil, nil
	case err != nil:
		return nil, err
	}
	m, err := egress.ChannelMessage(&ep, ev)
	if err != nil {
		return nil, nil
	}
	return new(wire.ChannelMessage(m)), nil
}

// retryDelivery attempts a pending delivery now, or creates a new delivery for a finished one.
func retryDelivery(a *api, c *call, by grapnel.By) (answer, error) {
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
	return a.retry(c, old, by, nil)
}

// retry attempts a delivery that was found, or delivers it again; err: finding it failed.
func (a *api) retry(c *call, old *grapnel.Delivery, by grapnel.By, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	was := a.look(c).situation(old)
	was.urgent = true
	reply := func(done store.Redelivered) answer { return retried(was, done) }
	ctx := c.Context()
	if c.once != nil {
		// A repetition would deliver again what this order has delivered meanwhile. So the answer is
		// awaited and stored for a while, also for a caller that has left.
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		defer context.AfterFunc(c.Context(), func() { time.AfterFunc(a.Bounds.RetryTime, cancel) })()
	}
	done, err := a.Engine.Retry(ctx, c.scope, old.Seq, by, withEffect(c, reply))
	return answered(done, done.Answer, err, reply)
}

// retried shows the result of a retry. It is composed in memory instead of read back, because it is
// stored in the transaction of the retry.
func retried(was situation, done store.Redelivered) answer {
	d := *was.delivery
	was.delivery = &d
	if done.Delivery == d.Seq {
		d.Waiting.Due, d.Waiting.Blocked, d.Reason = was.now, false, ""
		return jsonAnswer(http.StatusOK, withAttempts(viewDelivery(was, nil), was))
	}
	old := was.ids.Of(&d)
	d = grapnel.Delivery{
		Seq: done.Delivery, EventSeq: d.EventSeq, EventID: d.EventID, EndpointID: d.EndpointID, Tenant: d.Tenant, Type: d.Type, Key: d.Key,
		Status: grapnel.Pending, CreatedAt: done.CreatedAt, ReplayOf: d.Seq,
	}
	if h := done.Head; h != nil {
		d.Position, d.Waiting = h.Position, grapnel.Waiting{Head: true, Due: h.Due, Anchor: h.Anchor}
	}
	return jsonAnswer(http.StatusOK, withAttempts(viewDelivery(was, &old), was))
}

// skipDelivery ends a pending delivery on a person's request.
func skipDelivery(a *api, c *call, in *newSkip) (answer, error) {
	d, err := a.delivery(c, c.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	if err := a.Engine.Skip(c.Context(), c.scope, d.Seq, c.by(in.Reason)); err != nil {
		return answer{}, err
	}
	return getDelivery(a, c)
}

// look shows deliveries to one caller. It asks for each endpoint's health and each repeated
// delivery's id only once.
type look struct {
	a      *api
	c      *call
	health map[string]grapnel.Health
	ids    map[int64]string
}

func (a *api) look(c *call) *look {
	return &look{a: a, c: c, health: map[string]grapnel.Health{}, ids: map[int64]string{}}
}

func (l *look) situation(d *grapnel.Delivery) situation {
	s := situation{delivery: d, now: l.c.now, ids: l.c.ids, payloads: l.c.mayReadPayloads()}
	if ep, ok := l.a.Engine.Endpoint(l.c.scope, d.EndpointID); ok {
		s.endpoint = &ep
	}
	if d.Status.Final() || s.endpoint == nil {
		return s
	}
	if _, known := l.health[d.EndpointID]; !known {
		l.ask([]grapnel.Delivery{*d})
	}
	s.health = l.health[d.EndpointID]
	return s
}

// ask reads at once the health of all endpoints that have pending deliveries in a list.
func (l *look) ask(list []grapnel.Delivery) {
	var ids []string
	for i := range list {
		if d := &list[i]; !d.Status.Final() {
			ids = append(ids, d.EndpointID)
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	if len(ids) == 0 {
		return
	}
	for i, h := range l.a.Engine.Healths(ids) {
		l.health[ids[i]] = h
	}
}

// view shows a delivery as lists do, without attempts.
func (l *look) view(d *grapnel.Delivery) (wire.Delivery, error) {
	repeats, err := l.numbered(d.ReplayOf)
	if err != nil {
		return wire.Delivery{}, err
	}
	v := viewDelivery(l.situation(d), repeats)
	v.Marks = viewMarks(&d.Mark, l.c.ids)
	keep := l.a.Keep()
	if kept := keep.Of(d.Tenant, d.Type); kept > 0 && d.Status.Final() {
		end := d.FinishedAt.Add(kept)
		v.PurgeAt, v.DaysLeft = timeOf(end), new(max(0, int((min(kept, end.Sub(l.c.now))+day-1)/day))) // it may finish after now was read
	}
	return v, nil
}

func viewMarks(m *grapnel.Mark, ids *grapnel.IDs) (v wire.Marks) {
	markFields.show(m, &v)
	if m.ReplayedAs != 0 {
		v.ReplayedAs = ids.Delivery(m.ReplayedAt, m.ReplayedAs) // a delivery is accepted when it is made
	}
	return v
}

// whole shows a delivery with its attempts and its plan.
func (l *look) whole(d *grapnel.Delivery) (wire.Delivery, error) {
	v, err := l.view(d)
	if err != nil {
		return v, err
	}
	return withAttempts(v, l.situation(d)), nil
}

// numbered is the id of a delivery by its row id; null when it was purged.
func (l *look) numbered(seq int64) (*string, error) {
	if seq == 0 {
		return nil, nil
	}
	id, known := l.ids[seq]
	if !known {
		d, err := l.a.History.Delivery(l.c.Context(), l.c.scope, seq)
		switch {
		case err == nil:
			id = l.c.ids.Of(d)
		case grapnel.CodeOf(err) != grapnel.CodeNotFound:
			return nil, err
		}
		l.ids[seq] = id
	}
	if id == "" {
		return nil, nil
	}
	return &id, nil
}

func viewDelivery(s situation, replayOf *string) wire.Delivery {
	d, name := s.delivery, ""
	if s.endpoint != nil {
		name = title(s.endpoint)
	}
	return wire.Delivery{
		ID: s.ids.Of(d), EventID: d.EventID, EndpointID: d.EndpointID, EndpointName: name, Tenant: d.Tenant, Type: d.Type, Key: d.Key,
		Sequence: d.Position, Status: s.status(), ReasonCode: d.ReasonCode, Reason: s.reason(), AttemptsMade: d.AttemptsMade,
		NextAttemptAt: timeOf(s.next()), CreatedAt: d.CreatedAt, FinishedAt: timeOf(d.FinishedAt), ReplayOf: replayOf, Last: viewLast(&d.Last),
	}
}

func viewLast(l *grapnel.Last) *wire.Last {
	if l.Class == "" {
		return nil
	}
	v := wire.Last{ErrorClass: l.Class}
	lastFields.show(l, &v)
	return &v
}

// withAttempts adds the attempts that were made and those to come.
func withAttempts(v wire.Delivery, s situation) wire.Delivery {
	v.Attempts, v.Planned = viewAttempts(s.delivery, s.ids, s.payloads), plan(s)
	return v
}

// some is one page of a selection.
func (a *api) some(c *call, s selection, before int64, limit int) (list[wire.Delivery], error) {
	found, resume, err := a.find(c, s, before, limit)
	if err != nil {
		return list[wire.Delivery]{}, err
	}
	var out list[wire.Delivery]
	if resume > 0 {
		out.Next = c.cursor(strconv.FormatInt(resume, 10))
	}
	out.Data, err = a.views(c, found)
	return out, err
}

// views shows deliveries as lists do.
func (a *api) views(c *call, list []grapnel.Delivery) (_ []wire.Delivery, err error) {
	look, all := a.look(c), make([]wire.Delivery, len(list))
	look.ask(list)
	for i := 0; i < len(list) && err == nil; i++ {
		all[i], err = look.view(&list[i])
	}
	return all, err
}
