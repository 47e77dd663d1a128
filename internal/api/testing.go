package api

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/api/strict"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/wire"
)

func testRoutes() []route {
	return []route{
		{method: "POST", path: "/v1/endpoints/{id}/test", also: []string{"/webhooks/{id}/test"},
			scope: grapnel.ScopeManage, portal: grapnel.ScopeEndpointsWrite, lever: true,
			handle: testEndpoint,
			name:   "test-endpoint", tag: "Endpoints", summary: "Send a test event to one endpoint",
			about: "Creates a new event and one delivery of it, whatever the endpoint subscribes to. It is attempted once, and its reason_code is test. It counts nowhere: in no statistic, promise, issue or alert, and not towards the endpoint's health or its being disabled. A test that fails ends as discarded, and is no dead letter.",
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

	// Of an event as a receiver got it, which can be given as it is. A test is an event of its own all
	// the same.
	ID        string `json:"id,omitempty" maxLength:"64" doc:"not used: the test gets an id of its own"`
	Timestamp string `json:"timestamp,omitempty" maxLength:"64" doc:"not used"`
	Occurred  string `json:"occurredAt,omitempty" maxLength:"64" doc:"not used; as the preset parseo writes it"`
}

// testEndpoint sends one endpoint an event of its own.
func testEndpoint(a *api, c *call) (answer, error) {
	var f strict.Faults
	in := decode[newTest](c.body, &f)
	d := draft{kind: optional{in.Type, true}, data: in.Data, hasData: true, contentType: grapnel.JSONType}
	if in.Type == "" {
		d.kind.text = "grapnel.test"
	}
	if in.Data == nil {
		d.data = []byte(`{"message":"This is a test of this endpoint."}`)
	}
	ep, err := a.endpoint(c)
	if err == nil && ep.Channel != nil {
		err = store.ErrNotFound("endpoint")
	}
	if err != nil {
		return answer{}, err
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
