package api

import (
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel/internal/store"
)

// TestTargets: an endpoint goes over from a URL to a broker and back. Its password stays while other
// fields change, is given again when the address leads elsewhere, and is in no answer.
func TestTargets(t *testing.T) {
	w := newWorld(t)
	made := w.must(201, "POST", "/v1/endpoints", `{"target":{"kind":"rabbitmq","address":"amqps://b.example/shop","name":"events",
		"username":"me","password":"canary"},"tls":{"ca":`+quoted(authority)+`}}`)
	id := made["id"].(string)
	at := "/v1/endpoints/" + id
	if made["url"] != "amqps://b.example:5671/shop/events" {
		t.Errorf("the address is shown as %v", made["url"])
	}
	password := func() string {
		ep, _ := w.engine.Endpoint(store.Of("default"), id)
		if ep.Target == nil {
			return ""
		}
		return ep.Target.Password.Text
	}
	for _, patch := range []string{`{"description":"x"}`, `{"target":{"name":"other"}}`, `{"target":{"options":{"routing_key":"{event.type}"}}}`,
		`{"target":{"password":"[redacted]"}}`} {
		if w.must(200, "PATCH", at, patch); password() != "canary" {
			t.Errorf("after %s the password is %q", patch, password())
		}
	}
	for patch, pointer := range map[string]string{
		`{"target":{"address":"amqps://evil.example"}}`: "/target/password", `{"target":null}`: "/url", `{"url":"https://a.example"}`: "/url",
		`{"target":{"address":"amqp://b.example","password":"x"}}`: "/tls",
	} {
		if r := w.ask(admin, "PATCH", at, patch); r.StatusCode != 422 || !strings.Contains(string(r.body), `"pointer":"`+pointer+`"`) {
			t.Errorf("%s: %d %s", patch, r.StatusCode, r.body)
		}
	}
	w.must(200, "PATCH", at, `{"target":{"address":"amqps://c.example","password":"second"}}`)
	if r := w.ask(admin, "GET", at, ""); strings.Contains(string(r.body), "second") || password() != "second" {
		t.Errorf("shown as %s with %q", r.body, password())
	}
	if got := w.must(200, "PATCH", at, `{"url":"https://a.example","target":null}`); got["url"] != "https://a.example" || got["target"] != nil {
		t.Errorf("back to a URL: %v", got)
	}
	if got := w.must(200, "PATCH", at, `{"target":{"kind":"nats","address":"tls://n.example","name":"x"}}`); got["url"] != "tls://n.example:4222/x" {
		t.Errorf("and to a broker again: %v", got)
	}
}

// TestBrokersOfSources: a source's broker is checked by the rows of sources, its password stays and
// is in no answer, and settings about requests are refused next to it.
func TestBrokersOfSources(t *testing.T) {
	w := newWorld(t)
	made := w.must(201, "POST", "/v1/sources", `{"name":"orders","broker":{"kind":"nats","address":"tls://n.example","name":"ORDERS","username":"me",
		"password":"canary","options":{"subject":"orders.>"}},"tls":{"ca":`+quoted(authority)+`},"type":"event.headers['type']","event_id":"event.headers['id']"}`)
	id := made["id"].(string)
	at := "/v1/sources/" + id
	consumer := made["consumer"].(map[string]any)
	if made["ingest_url"] != nil || consumer["place"] != "tls://n.example:4222/ORDERS" || made["broker"].(map[string]any)["password"] != "[redacted]" {
		t.Errorf("shown as %v", made)
	}
	for _, patch := range []string{`{"description":"x"}`, `{"broker":{"name":"OTHER"}}`, `{"status":"paused"}`, `{"type":null}`, `{"key":"event.key"}`} {
		w.must(200, "PATCH", at, patch)
		if s, _ := w.engine.Source(store.Of("default"), id); s.Broker.Password.Text != "canary" || s.TLS == nil || s.EventID == "" {
			t.Errorf("after %s the source is %+v", patch, s)
		}
	}
	if r := w.ask(admin, "GET", at, ""); strings.Contains(string(r.body), "canary") {
		t.Errorf("shown as %s", r.body)
	}
	for patch, pointer := range map[string]string{
		`{"broker":{"address":"tls://evil.example"}}`: "/broker/password", `{"broker":{"name":"a.b"}}`: "/broker/name", `{"max_body":1}`: "/max_body",
		`{"broker":{"options":{"stream":"x"}}}`: "/broker/options/stream", `{"event_id":"nonsense("}`: "/event_id", `{"verify":{"scheme":"none"}}`: "/verify",
		`{"broker":{"address":"nats://n.example","password":"x"}}`: "/tls", `{"outbox":{"dsn":"postgres://h/d"}}`: "/outbox",
		`{"broker":{"address":"tls://127.0.0.1","password":"x"}}`: "/broker/address", `{"broker":null}`: "/verify",
	} {
		if r := w.ask(admin, "PATCH", at, patch); r.StatusCode != 422 || !strings.Contains(string(r.body), `"pointer":"`+pointer+`"`) {
			t.Errorf("%s: %d %s", patch, r.StatusCode, r.body)
		}
	}
	if got := w.must(200, "PATCH", at, `{"broker":null,"tls":null,"type":null,"key":null,"event_id":null,"verify":{"scheme":"none"}}`); got["broker"] != nil || got["ingest_url"] == nil {
		t.Errorf("back to requests: %v", got)
	}
}
