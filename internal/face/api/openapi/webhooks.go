package openapi

import (
	"encoding/json"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/tell/alert"
)

// notice is the data of an operational event about an endpoint, as the engine makes it.
type notice struct {
	EndpointID string `json:"endpoint_id" doc:"the endpoint that this is about"`
	Tenant     string `json:"tenant"`
	Reason     string `json:"reason" doc:"what happened, for people"`
}

type warning struct {
	notice
	Percent int `json:"percent" doc:"of the way to being disabled"`
}

type loss struct {
	notice
	DeliveryID string `json:"delivery_id"`
	EventID    string `json:"event_id" doc:"the event that was not delivered"`
	EventType  string `json:"event_type"`
	Key        string `json:"key,omitempty" doc:"the event's ordering key, if it has one"`
	Attempts   int    `json:"attempts" doc:"made of the delivery"`
	ReasonCode string `json:"reason_code" doc:"reason, for programs"`
	Blocked    bool   `json:"blocked,omitempty" doc:"the key is held until an operator retries or skips the delivery"`
}

// Examples of data.
const (
	aboutEndpoint = `"endpoint_id":"ep_01kdyak3sefb6ah8f2txkpcrzk","tenant":"default","reason":`
	ofAlert       = `{"alert_id":"alr_01kdyamyceb3d5f7h9j1k3m5n7","rule":"endpoint_failing","state":"firing","severity":"page","tenant":"default",` +
		`"subject":{"kind":"endpoint","id":"ep_01kdyak3sefb6ah8f2txkpcrzk","name":"Billing"},"title":"Billing: no attempt succeeds",` +
		`"text":"12 attempts failed in 10 min.","since":"2026-01-02T03:05:05.678901Z",` +
		`"url":"https://hooks.example.com/alerts/alr_01kdyamyceb3d5f7h9j1k3m5n7","acknowledge_url":"","count":1,"alerts":[]}`
)

// operational are the events that the server itself publishes.
var operational = []struct {
	name, about string
	data        any
	example     string
}{
	{grapnel.EventDeliveryFailed, "A delivery has failed for good: it is a dead letter", loss{}, `{` + aboutEndpoint +
		`"failed: all attempts are used up","delivery_id":"dlv_01kdyamycerqa34b32qxhjn000","event_id":"evt_01kdyamycee47t96514ccwy3p1",` +
		`"event_type":"invoice.paid","key":"customer_42","attempts":12,"reason_code":"exhausted"}`},
	{grapnel.EventEndpointFailing, "An endpoint is at 50 % or 90 % of the way to being disabled", warning{}, `{` + aboutEndpoint +
		`"50 deliveries in a row were answered 404","percent":50}`},
	{grapnel.EventEndpointRecovered, "That endpoint has succeeded again", notice{}, `{` + aboutEndpoint + `"a delivery succeeded"}`},
	{grapnel.EventEndpointDisabled, "An endpoint was disabled", notice{}, `{` + aboutEndpoint + `"an operator disabled it"}`},
	{grapnel.EventEndpointEnabled, "A disabled endpoint was enabled", notice{}, `{` + aboutEndpoint + `"an operator enabled it"}`},
	{grapnel.EventAlertFired, "An alert has fired", alert.Data{}, ofAlert},
	{grapnel.EventAlertResolved, "An alert is resolved", alert.Data{}, ofAlert},
	{grapnel.EventAlertDigest, "Several alerts that a channel has gathered", alert.Data{}, ofAlert},
	{grapnel.EventAlertTest, "A test of a channel", alert.Data{}, ofAlert},
}

// webhooks are the requests that the server sends: deliveries, of which some are of operational
// events.
func (d *describer) webhooks() map[string]*huma.PathItem {
	all := map[string]*huma.PathItem{"delivery": {Post: delivery()}}
	for _, e := range operational {
		all[e.name] = &huma.PathItem{Post: &huma.Operation{OperationID: e.name, Summary: e.about, Security: []map[string][]string{},
			RequestBody: envelope(d.object(reflect.TypeOf(e.data), answered), e.name, e.example), Responses: responses()}}
	}
	return all
}

// envelope is the body of a delivery in the format standard.
func envelope(data *huma.Schema, name, example string) *huma.RequestBody {
	return &huma.RequestBody{Content: map[string]*huma.MediaType{grapnel.JSONType: {
		Schema: Object(map[string]*huma.Schema{
			"id": {Type: huma.TypeString}, "type": {Type: huma.TypeString}, "timestamp": {Type: huma.TypeString, Format: "date-time"}, "data": data,
			"data_base64": {Type: huma.TypeString, ContentEncoding: "base64", Description: "instead of data, if that is not JSON"},
		}, "id", "type", "timestamp"),
		Example: json.RawMessage(`{"id":"evt_01kdyamycee47t96514ccwy3p1","type":"` + name +
			`","timestamp":"2026-01-02T03:05:05.678901Z","data":` + example + `}`),
	}}}
}

func responses() map[string]*huma.Response {
	return map[string]*huma.Response{"2XX": {Description: "the delivery is finished"}, "default": {Description: "the policy decides what follows"}}
}

// delivery describes what a receiver gets.
func delivery() *huma.Operation {
	op := &huma.Operation{
		OperationID: "delivery", Security: []map[string][]string{}, Summary: "A delivery as the receiver gets it",
		Description: "A POST with the event as JSON (format standard), as its data alone (raw), or as a CloudEvent in binary mode. " +
			"Only an answer of 2xx is success; redirects are not followed. With the header webhook-delivery: stop an answer ends " +
			"the delivery, with webhook-delivery: disable it disables the endpoint, where the policy obeys a 410. The same event can come more than once, with the same webhook-id.",
		RequestBody: envelope(&huma.Schema{Description: "byte for byte as published"}, "invoice.paid", `{"invoice":"in_1001","amount":4200}`),
		Responses:   responses(),
	}
	for _, h := range []struct{ name, doc string }{
		{"webhook-id", "the event's id, the same at every attempt and replay"},
		{"webhook-timestamp", "unix seconds of this attempt"},
		{"webhook-signature", "v1,<base64 HMAC-SHA256> or v1a,<base64 ed25519> over id.timestamp.body; " +
			"one for each live secret, separated by spaces"},
		{"grapnel-attempt", "1 for the first"},
		{"grapnel-delivery", "the delivery's id"},
		{"grapnel-hops", "through how many servers like this one it has come"},
		{"grapnel-sequence", "position in its lane"},
		{"grapnel-trigger", "schedule, manual, replay, probe or test"},
	} {
		op.Parameters = append(op.Parameters, &huma.Param{Name: h.name, In: "header", Description: h.doc,
			Schema: &huma.Schema{Type: huma.TypeString}})
	}
	return op
}
