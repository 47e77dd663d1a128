package api

import (
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/inbound/relay"
	"github.com/grapnelhq/grapnel/internal/store"
)

// badOutboxes are requests about sources with an outbox that have to be refused.
func badOutboxes() []bad {
	create := func(name, members, pointer string) bad {
		return bad{name: "outbox: " + name, method: "POST", target: "/v1/sources", body: `{"name":"new",` + members + `}`,
			status: 422, code: grapnel.CodeInvalid, pointer: pointer}
	}
	const fine = `"outbox":{"dsn":"postgres://u:p@db/orders"}`
	return []bad{
		create("no DSN", `"outbox":{}`, "/outbox/dsn"),
		create("DSN of something else", `"outbox":{"dsn":"sqlserver://u:p@db/orders"}`, "/outbox/dsn"),
		create("DSN with an unknown parameter", `"outbox":{"dsn":"mysql://u:p@db/orders?tls=1"}`, "/outbox/dsn"),
		create("DSN that cannot be read", `"outbox":{"dsn":"postgres://u:hunter2@db:x/orders"}`, "/outbox/dsn"),
		create("with verify", fine+`,"verify":{"scheme":"none"}`, "/verify"),
		create("with dedupe", fine+`,"dedupe":{"window":"1h"}`, "/dedupe"),
		create("with quarantine", fine+`,"on_unverified":"quarantine"`, "/on_unverified"),
		create("with key", fine+`,"key":"body.id"`, "/key"),
		create("unknown field", `"outbox":{"dsn":"postgres://db/orders","table":"x"}`, "/outbox/table"),
	}
}

// report is how one relay is doing.
type report map[string]relay.Status

func (r report) Status(source string) (relay.Status, bool) {
	s, there := r[source]
	return s, there
}

func TestASourceWithAnOutbox(t *testing.T) {
	reported := report{}
	w := newWorld(t, func(o *Options) { o.Outboxes = reported })
	made := w.must(201, "POST", "/v1/sources", `{"name":"orders","outbox":{"dsn":"postgres://u:hunter2@db.example:5433/orders"}}`)
	id := made["id"].(string)
	if made["ingest_url"] != nil || made["verify"] != nil || made["dedupe"] != nil || made["status"] != "enabled" {
		t.Errorf("made %v", made)
	}
	if o := made["outbox"].(map[string]any); o["place"] != "db.example:5433 orders" || o["state"] != "connecting" {
		t.Errorf("its outbox is %v", o)
	}
	reported[id] = relay.Status{State: relay.Away, Detail: "the database is starting up", Lag: 3 * time.Second, SeenAt: w.clock,
		Moved: 7, Aside: 1}
	dsn := func() string {
		src, _ := w.engine.Source(store.Everyone(), id)
		return src.Outbox.DSN.Text
	}
	for _, ask := range []struct{ method, target, body string }{
		{"GET", "/v1/sources/" + id, ""}, {"GET", "/v1/sources", ""}, {"PATCH", "/v1/sources/" + id, `{"description":"x"}`},
		{"GET", "/v1/audit", ""},
	} {
		r := w.ask(admin, ask.method, ask.target, ask.body)
		if r.StatusCode != 200 || strings.Contains(string(r.body), "hunter2") || strings.Contains(w.logged.String(), "hunter2") {
			t.Errorf("%s %s: answered %d %s", ask.method, ask.target, r.StatusCode, r.body)
		}
	}
	got := w.must(200, "GET", "/v1/sources/"+id, "")
	if o := got["outbox"].(map[string]any); o["state"] != "away" || o["detail"] != "the database is starting up" ||
		o["lag"] != "3s" || o["events"] != 7.0 || o["set_aside"] != 1.0 || got["description"] != "x" {
		t.Errorf("it is %v", got)
	}
	if dsn() != "postgres://u:hunter2@db.example:5433/orders" {
		t.Error("a patch that says nothing of the DSN has changed it")
	}
	if o := w.must(200, "PATCH", "/v1/sources/"+id,
		`{"status":"paused","outbox":{"dsn":"host=other dbname=orders"}}`)["outbox"].(map[string]any); o["state"] != "paused" ||
		o["place"] != "other:5432 orders" {
		t.Errorf("its outbox is %v", o)
	}
	w.must(422, "PATCH", "/v1/sources/"+id, `{"outbox":null}`)
	w.must(422, "PATCH", "/v1/sources/"+id, `{"verify":{"scheme":"none"}}`)
	if got := w.must(200, "PATCH", "/v1/sources/"+id, `{"outbox":null,"verify":{"scheme":"none"}}`); got["outbox"] != nil ||
		got["ingest_url"] != "/in/"+id {
		t.Errorf("it is %v", got)
	}
	w.must(200, "PATCH", "/v1/sources/"+id, `{"verify":null,"dedupe":null,"outbox":{"dsn":"host=other dbname=orders"}}`)
}

// TestOnlyOperatorsMayMakeTheServerConnect: the network that the server is in is not the tenants'.
func TestOnlyOperatorsMayMakeTheServerConnect(t *testing.T) {
	w := newWorld(t)
	key := w.must(201, "POST", "/v1/keys", `{"name":"acme","scopes":["manage","read"],"tenant":"acme"}`)["key"].(string)
	body := `{"name":"orders","tenant":"acme","outbox":{"dsn":"host=10.0.0.1 dbname=orders"}}`
	if r := w.ask(key, "POST", "/v1/sources", body); r.StatusCode != 422 || !strings.Contains(string(r.body), "/outbox/dsn") {
		t.Errorf("answered %d %s", r.StatusCode, r.body)
	}
	id := w.must(201, "POST", "/v1/sources", body)["id"].(string)
	if r := w.ask(key, "PATCH", "/v1/sources/"+id, `{"outbox":{"dsn":"host=10.0.0.2 dbname=orders"}}`); r.StatusCode != 422 {
		t.Errorf("answered %d %s", r.StatusCode, r.body)
	}
	if r := w.ask(key, "PATCH", "/v1/sources/"+id, `{"status":"paused"}`); r.StatusCode != 200 {
		t.Errorf("answered %d %s", r.StatusCode, r.body)
	}
}
