package api

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/api/openapi"
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

// deliveryView is a delivery as it is shown.
type deliveryView struct {
	ID            string    `json:"id"`
	EventID       string    `json:"event_id"`
	EndpointID    string    `json:"endpoint_id"`
	Tenant        string    `json:"tenant"`
	Type          string    `json:"type"`
	Key           *string   `json:"key"`
	Sequence      *int64    `json:"sequence" doc:"position in the line of its key; null: it has no line, or joined it a moment ago"`
	Status        string    `json:"status" enum:"pending,held,delivered,failed,dropped,discarded,skipped"`
	ReasonCode    *string   `json:"reason_code" doc:"why it failed: exhausted, permanent, rejected, expired, endpoint_gone, damaged"`
	Reason        string    `json:"reason" doc:"one sentence: why it is where it is"`
	AttemptsMade  int       `json:"attempts_made"`
	NextAttemptAt *stamp    `json:"next_attempt_at" nullable:"true"`
	CreatedAt     stamp     `json:"created_at"`
	FinishedAt    *stamp    `json:"finished_at" nullable:"true"`
	ReplayOf      *string   `json:"replay_of" doc:"the delivery that this one repeats"`
	Last          *lastView `json:"last" nullable:"true" doc:"its last attempt; null: there was none"`
	Marks
	PurgeAt  *stamp        `json:"purge_at" nullable:"true" doc:"not kept after this; null: it is not over, or is kept for ever"`
	DaysLeft *int          `json:"days_left" nullable:"true" doc:"whole days until then"`
	Attempts []attemptView `json:"attempts,omitzero" nullable:"false" doc:"only when one delivery is asked for"`
	Planned  []plannedView `json:"planned,omitzero" nullable:"false" doc:"what comes if every attempt fails; only when one delivery is asked for"`
}

// lastView is what lists tell of a delivery's last attempt.
type lastView struct {
	StatusCode *int   `json:"status_code" doc:"null: there was no response"`
	ErrorClass string `json:"error_class"`
	Duration   span   `json:"duration"`
}

// Schema says how it looks; a reference could not say that it may be null.
func (lastView) Schema(huma.Registry) *huma.Schema {
	s := openapi.Object(map[string]*huma.Schema{
		"status_code": {Type: huma.TypeInteger, Nullable: true, Description: "null: there was no response"},
		"error_class": {Type: huma.TypeString},
		"duration":    durationSchema(),
	}, "status_code", "error_class", "duration")
	s.AdditionalProperties = nil
	return s
}

// Marks is what was noted on a delivery since it was over. It changes nothing about what became of it.
type Marks struct {
	Note          *string `json:"note"`
	DiscardedAt   *stamp  `json:"discarded_at" nullable:"true" doc:"it is no dead letter any more since then: somebody has looked at it"`
	DiscardReason *string `json:"discard_reason"`
	ReplayedAt    *stamp  `json:"replayed_at" nullable:"true" doc:"when it was last delivered again"`
	ReplayedBy    *string `json:"replayed_by" doc:"the replay; null: by hand"`
	ReplayedAs    *string `json:"replayed_as" doc:"the new delivery; null: there is none"`
	ReplayResult  *string `json:"replay_result" doc:"what became of the new delivery; pending: it is not over"`
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

// delivery finds a delivery by the id in the path. A reading whose row id exists but whose time is another's is of an id that was guessed, or
// that another cell gave.
func (a *api) delivery(c *call, id string) (*grapnel.Delivery, error) {
	for _, reading := range a.Engine.Readings(id) {
		d, err := a.History.Delivery(c.Context(), c.scope, reading.Seq)
		switch {
		case grapnel.CodeOf(err) == grapnel.CodeNotFound:
		case err != nil:
			return nil, err
		case reading.Is(d):
			return d, nil
		}
	}
	return nil, grapnel.Errorf(grapnel.CodeNotFound, "there is no such delivery")
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

// look shows deliveries to one caller. It asks for each endpoint's health and each repeated delivery's id only once.
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
	s := situation{delivery: d, now: l.c.now, ids: l.c.ids}
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

// ask learns at once how all endpoints are doing for which something of a list waits.
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
func (l *look) view(d *grapnel.Delivery) (deliveryView, error) {
	repeats, err := l.numbered(d.ReplayOf)
	if err != nil {
		return deliveryView{}, err
	}
	v := viewDelivery(l.situation(d), repeats)
	v.Marks = viewMarks(&d.Mark, l.c.ids)
	if kept := l.a.Keep.Of(d.Tenant, d.Type); kept > 0 && d.Status.Final() {
		end := d.FinishedAt.Add(kept)
		days := max(0, int(end.Sub(l.c.now)/day))
		v.PurgeAt, v.DaysLeft = stampOf(end), &days
	}
	return v, nil
}

func viewMarks(m *grapnel.Mark, ids *grapnel.IDs) Marks {
	v := Marks{
		Note: orNull(m.Note), DiscardedAt: stampOf(m.DiscardedAt), DiscardReason: orNull(m.DiscardReason),
		ReplayedAt: stampOf(m.ReplayedAt), ReplayedBy: orNull(m.ReplayedBy), ReplayResult: orNull(m.ReplayResult),
	}
	if m.ReplayedAs != 0 {
		id := ids.Delivery(m.ReplayedAt, m.ReplayedAs) // a delivery is accepted when it is made
		v.ReplayedAs = &id
	}
	return v
}

// whole shows a delivery with its attempts and its plan.
func (l *look) whole(d *grapnel.Delivery) (deliveryView, error) {
	v, err := l.view(d)
	if err != nil {
		return v, err
	}
	return v.with(l.situation(d)), nil
}

// numbered is the id of a delivery known by its number; null when it is gone.
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
	return orNull(id), nil
}

func viewDelivery(s situation, replayOf *string) deliveryView {
	d := s.delivery
	return deliveryView{
		ID: s.ids.Of(d), EventID: d.EventID, EndpointID: d.EndpointID, Tenant: d.Tenant, Type: d.Type, Key: orNull(d.Key),
		Sequence: numberOrNull(d.Position), Status: string(s.status()), ReasonCode: orNull(d.ReasonCode), Reason: s.reason(),
		AttemptsMade: d.AttemptsMade, NextAttemptAt: stampOf(s.next()), CreatedAt: stamp(d.CreatedAt), FinishedAt: stampOf(d.FinishedAt),
		ReplayOf: replayOf, Last: viewLast(&d.Last),
	}
}

func viewLast(l *grapnel.Last) *lastView {
	if l.Class == "" {
		return nil
	}
	return &lastView{StatusCode: numberOrNull(l.StatusCode), ErrorClass: string(l.Class), Duration: span(l.Duration)}
}

// with adds the attempts that were made and those to come.
func (v deliveryView) with(s situation) deliveryView {
	v.Attempts, v.Planned = viewAttempts(s.delivery, s.ids), plan(s)
	return v
}

// some is one page of a selection, each delivery shown by show.
func some[T any](a *api, c *call, s selection, before int64, limit int, show func(*look, *grapnel.Delivery) (T, error)) (list[T], error) {
	found, resume, err := a.find(c, s, before, limit)
	if err != nil {
		return list[T]{}, err
	}
	out := list[T]{Data: make([]T, len(found))}
	if resume > 0 {
		out.Next = c.cursor(strconv.FormatInt(resume, 10))
	}
	look := a.look(c)
	look.ask(found)
	for i := range found {
		if out.Data[i], err = show(look, &found[i]); err != nil {
			return list[T]{}, err
		}
	}
	return out, nil
}
