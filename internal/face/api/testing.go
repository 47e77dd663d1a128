package api

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/api/strict"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/wire"
)

func testRoutes() []route {
	return []route{
		{method: "POST", path: "/v1/endpoints/{id}/test", also: []string{"/webhooks/{id}/test"},
			scope: grapnel.ScopeManage, portal: grapnel.ScopeEndpointsWrite, lever: true,
			handle: testEndpoint,
			name:   "test-endpoint", tag: "Endpoints", summary: "Send a test event to one endpoint",
			about: "Creates a new event and one delivery of it, whatever the endpoint subscribes to. It is attempted once, and its reason_code is test. It counts nowhere: in no statistic, promise, issue or alert, and not towards the endpoint's health or its being disabled. A test that fails ends as discarded, and is no dead letter. But a body that is the payload of one of the endpoint's dead letters (the same id, and the body as it was sent or its type and data, as JSON values) is replayed under the event's own id, like a retry, if the key has the scope replay: success clears the dead letter. Under /webhooks the payload of an event may have any shape.",
			body:  &intake{types: []string{grapnel.JSONType}, limit: perEvent, deep: true, optional: true}, takes: newTest{},
			gives: map[int]any{200: wire.Delivery{}}},
	}
}

// newTest is what a test event carries.
type newTest struct {
	Type string          `json:"type,omitempty" form:"type" doc:"grapnel.test if not given"`
	Data json.RawMessage `json:"data,omitempty" doc:"any JSON"`
	// A receiver is tried with late events, and with events in another order, by different delays.
	Delay string `json:"delay,omitempty" form:"delay" doc:"the first attempt is not before this has passed: 0s to 24h; 0s if not given"`

	// Of an event as a receiver got it, which can be given as it is. Unless it is a dead letter's, the
	// test is an event of its own.
	ID        string `json:"id,omitempty" maxLength:"64" doc:"of the event whose dead letter is replayed; else not used: a test gets an id of its own"`
	Timestamp string `json:"timestamp,omitempty" maxLength:"64" doc:"not used"`
	Occurred  string `json:"occurredAt,omitempty" maxLength:"64" doc:"not used; as the preset parseo writes it"`
}

// testEndpoint sends one endpoint an event of its own.
func testEndpoint(a *api, c *call) (answer, error) {
	var f strict.Faults
	ep, err := a.endpoint(c)
	if err == nil && ep.Channel != nil {
		err = store.ErrNotFound("endpoint")
	}
	if err != nil {
		return answer{}, err
	}
	if dead, err := a.deadLetterOf(c, &ep, c.body); err != nil || dead != nil {
		return a.retry(c, dead, c.by("its payload was posted as a test"), err)
	}
	body := c.body
	if takesPayloads(c) {
		body = asTest(body)
	}
	in := decode[newTest](body, &f)
	d := draft{kind: optional{in.Type, true}, data: in.Data, hasData: true, contentType: grapnel.JSONType}
	if in.Type == "" {
		d.kind.text = "grapnel.test"
	}
	if in.Data == nil {
		d.data = []byte(`{"message":"This is a test of this endpoint."}`)
	}
	if err := a.tooMuchData(d.data); err != nil {
		return answer{}, err
	}
	d.tenant = optional{ep.Tenant, true}
	ev := a.event(c, &d, "/", &f).Event
	if err := f.Err(); err != nil {
		return answer{}, err
	}
	return a.sendTest(c, &ep, ev, duration(in.Delay))
}

// sendTest gives one endpoint an event after a delay, and answers with its delivery.
func (a *api) sendTest(c *call, ep *grapnel.Endpoint, ev *grapnel.Event, delay time.Duration) (answer, error) {
	was := situation{endpoint: ep, now: c.now, ids: c.ids, urgent: true}
	reply := func(done store.Accepted) answer { return tested(was, ev, done) }
	done, err := a.Engine.Test(c.Context(), c.scope, ep.ID, ev, delay, withEffect(c, reply))
	if err == nil {
		err = first(done.Answer)
	}
	if err != nil {
		return answer{}, err
	}
	noteTest(a, c, ep, done)
	return reply(done), nil
}

// tested shows the delivery of a test event. Without a key it is the head of its own line, so the
// engine names it.
func tested(s situation, ev *grapnel.Event, done store.Accepted) answer {
	d := grapnel.Delivery{
		EventID: ev.ID, EndpointID: s.endpoint.ID, Tenant: ev.Tenant, Type: ev.Type,
		Status: grapnel.Pending, ReasonCode: grapnel.ReasonTest, CreatedAt: done.Events[0].AcceptedAt,
	}
	for _, h := range done.Heads {
		d.Seq, d.Waiting = h.Delivery, grapnel.Waiting{Head: true, Due: h.Due, Anchor: h.Anchor}
	}
	s.delivery = &d
	return jsonAnswer(http.StatusOK, withAttempts(viewDelivery(s, nil), s))
}

// payloadPath is the path whose users send the payload of an event, of any shape.
const payloadPath = "/webhooks/{id}/test"

// asTest is the body of a test of a payload with members that a test does not have: its type, and
// its data, or all of it if it has none.
func asTest(body []byte) []byte {
	known := []string{"type", "data", "delay", "id", "timestamp", "occurredAt"}
	payload, foreign := gjson.ParseBytes(body), false
	payload.ForEach(func(name, _ gjson.Result) bool {
		foreign = !slices.Contains(known, name.Str)
		return !foreign
	})
	if !payload.IsObject() || !foreign || !json.Valid(body) {
		return body
	}
	test := newTest{Data: body}
	if kind := payload.Get("type").Str; grapnel.ValidType(kind) {
		test.Type = kind
	}
	if data := payload.Get("data"); data.Exists() {
		test.Data = json.RawMessage(data.Raw)
	}
	return encode(test)
}

func takesPayloads(c *call) bool { return strings.HasSuffix(c.Pattern, payloadPath) }
