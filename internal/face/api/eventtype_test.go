package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/grapnelhq/grapnel"
)

// eventTypeInputs are bad inputs about event types. TYP is one with two versions.
func eventTypeInputs() (all []bad) {
	add := func(name, method, target, body string, status int, code grapnel.Code, pointer string) {
		name = "event type: " + name
		all = append(all, bad{name: name, method: method, target: target, body: body, status: status, code: code, pointer: pointer})
	}
	create := func(name, members, pointer string) {
		add(name, "POST", "/v1/event-types", `{"name":"order.made",`+members+`}`, 422, grapnel.CodeInvalid, pointer)
	}
	add("no name", "POST", "/v1/event-types", `{}`, 422, grapnel.CodeInvalid, "/name")
	add("name with a star", "POST", "/v1/event-types", `{"name":"order.*"}`, 422, grapnel.CodeInvalid, "/name")
	add("name taken", "POST", "/v1/event-types", `{"name":"checked"}`, 409, grapnel.CodeConflict, "-")
	create("tenant with a space", `"tenant":"a b"`, "/tenant")
	create("description too long", `"description":"`+strings.Repeat("a", 1001)+`"`, "/description")
	create("check unknown", `"check":"warn"`, "/check")
	create("check without schema", `"check":"refuse"`, "/check")
	create("example without schema", `"example":1`, "/example")
	create("note without schema", `"note":"x"`, "/note")
	create("note too long", `"schema":true,"note":"`+strings.Repeat("a", 1001)+`"`, "/note")
	create("schema a number", `"schema":1`, "/schema")
	create("schema with an unknown type", `"schema":{"properties":{"a":{"type":"text"}}}`, "/schema/properties/a/type")
	create("schema that is elsewhere", `"schema":{"$ref":"https://a.example/schema"}`, "/schema/$ref")
	create("schema too large", `"schema":{"title":"`+strings.Repeat("a", 65<<10)+`"}`, "/schema")
	create("example that does not satisfy", `"schema":{"required":["a"]},"example":{}`, "/example/a")
	create("example too large", `"schema":true,"example":"`+strings.Repeat("a", 65<<10)+`"`, "/example")
	create("versions", `"versions":[]`, "/versions")
	for name, c := range map[string][2]string{"name": {`{"name":"x"}`, "/name"}, "schema": {`{"schema":true}`, "/schema"},
		"tenant":        {`{"tenant":"x"}`, "/tenant"},
		"check unknown": {`{"check":"on"}`, "/check"}, "no object": {`[]`, ""}} {
		add("patch "+name, "PATCH", "/v1/event-types/TYP", c[0], 422, grapnel.CodeInvalid, c[1])
	}
	for name, c := range map[string][2]string{"no schema": {`{}`, "/schema"}, "schema null": {`{"schema":null}`, "/schema"},
		"bad schema": {`{"schema":{"minimum":"1"}}`, "/schema/minimum"}, "bad example": {`{"schema":{"type":"null"},"example":1}`, "/example"},
		"unknown member": {`{"schema":true,"version":7}`, "/version"}} {
		add("add a version: "+name, "POST", "/v1/event-types/TYP/versions", c[0], 422, grapnel.CodeInvalid, c[1])
	}
	costly := strings.Repeat(`{"x":`, 40) + "1" + strings.Repeat("}", 40)
	add("example that costs too much", "POST", "/v1/event-types/TYP/versions", `{"schema":{"$defs":{"a":{"type":"object",
		"anyOf":[{"properties":{"x":{"$ref":"#/$defs/a"}}},
		{"properties":{"x":{"$ref":"#/$defs/a"}}}]}},"$ref":"#/$defs/a"},"example":`+costly+`}`, 422, grapnel.CodeSchemaTooCostly, "-")
	add("patch a version's schema", "PATCH", "/v1/event-types/TYP/versions/1", `{"schema":true}`, 422, grapnel.CodeInvalid, "/schema")
	add("patch a version's mark", "PATCH", "/v1/event-types/TYP/versions/1", `{"deprecated":"yes"}`, 422, grapnel.CodeInvalid, "/deprecated")
	for _, n := range []string{"0", "3", "-1", "x", "99999999999999999999"} {
		add("patch version "+n, "PATCH", "/v1/event-types/TYP/versions/"+n, `{"note":"x"}`, 404, grapnel.CodeNotFound, "-")
	}
	for query, pointer := range map[string]string{"from=3": "?from", "to=3": "?to", "to=1": "?from", "from=0": "?from", "to=x": "?to", "x=1": "?x"} {
		add("compare "+query, "GET", "/v1/event-types/TYP/compare?"+query, "", 422, grapnel.CodeInvalid, pointer)
	}
	for name, target := range map[string]string{"get": "/v1/event-types/none.such", "compare": "/v1/event-types/typ_none/compare"} {
		add("none to "+name, "GET", target, "", 404, grapnel.CodeNotFound, "-")
	}
	// Events of a type that is checked.
	add("data", "POST", "/v1/events", `{"type":"checked","data":{"amount":"7"}}`, 422, grapnel.CodeInvalid, "/data/amount")
	add("a version that does not exist", "POST", "/v1/events", `{"type":"checked","data":{"amount":7},"metadata":{"schema_version":"3"}}`,
		422, grapnel.CodeInvalid, "/metadata/schema_version")
	add("a version that is no number", "POST", "/v1/events", `{"type":"checked","data":{"amount":7},"metadata":{"schema_version":"new"}}`,
		422, grapnel.CodeInvalid, "/metadata/schema_version")
	add("data in a batch", "POST", "/v1/events/batch", `{"events":[{"type":"checked","data":{}}]}`, 422, grapnel.CodeInvalid, "/events/0/data/amount")
	add("raw data", "POST", "/v1/events/raw?type=checked", `{"amount":null}`, 422, grapnel.CodeInvalid, "/amount")
	return all
}

// checkedType registers a type with two versions and returns its id.
func (w *world) checkedType(key string) string {
	w.t.Helper()
	id := w.as(key, 201, "POST", "/v1/event-types", `{"name":"checked","check":"refuse",
		"schema":{"type":"object","required":["amount"],"properties":{"amount":{"type":"string"}}}}`)["id"].(string)
	w.as(key, 201, "POST", "/v1/event-types/"+id+"/versions", `{"schema":{"type":"object","required":["amount"],"properties":{"amount":{"type":"integer"}}},
		"example":{"amount":7},"note":"amount is a number"}`)
	return id
}

func TestEventTypes(t *testing.T) {
	w := newWorld(t)
	id := w.checkedType(admin)
	got := w.must(200, "GET", "/v1/event-types/checked", "")
	versions := got["versions"].([]any)
	if got["id"] != id || got["check"] != "refuse" || got["revision"] != 2.0 || len(versions) != 2 {
		t.Fatalf("%v", got)
	}
	second := versions[1].(map[string]any)
	if second["version"] != 2.0 || second["note"] != "amount is a number" || second["deprecated_at"] != nil ||
		fmt.Sprint(second["example"]) != "map[amount:7]" || second["schema"].(map[string]any)["type"] != "object" {
		t.Errorf("version 2: %v", second)
	}
	if first := versions[0].(map[string]any); first["example"] != nil || first["schema"] == nil {
		t.Errorf("version 1: %v", first)
	}
	listed := w.must(200, "GET", "/v1/event-types", "")["data"].([]any)[0].(map[string]any)
	if listed["id"] != id || listed["versions"].([]any)[1].(map[string]any)["schema"] != nil {
		t.Errorf("listed: %v", listed)
	}

	again := w.must(200, "POST", "/v1/event-types/checked/versions", `{"schema":{"type":"object", "required":["amount"],
		"properties":{"amount":{"type":"integer"}}}}`)
	if len(again["versions"].([]any)) != 2 {
		t.Errorf("the same schema again: %v", again)
	}
	w.must(200, "PATCH", "/v1/event-types/checked/versions/1", `{"deprecated":true,"note":"texts"}`)
	marked := w.must(200, "PATCH", "/v1/event-types/checked/versions/1", `{"note":"amount is a text"}`)["versions"].([]any)[0].(map[string]any)
	if marked["deprecated_at"] == nil || marked["note"] != "amount is a text" {
		t.Errorf("deprecated: %v", marked)
	}
	back := w.must(200, "PATCH", "/v1/event-types/checked/versions/1", `{"deprecated":false}`)["versions"].([]any)[0].(map[string]any)
	if back["deprecated_at"] != nil {
		t.Errorf("not deprecated any more: %v", back)
	}

	found := w.must(200, "GET", "/v1/event-types/checked/compare", "")
	want := map[string]any{"pointer": "/properties/amount/type", "what": "amount is an integer instead of a string.", "breaking": true, "stricter": true}
	if found["from"] != 1.0 || found["to"] != 2.0 || found["breaking"] != true || fmt.Sprint(found["differences"]) != fmt.Sprint([]any{want}) {
		t.Errorf("differences: %v", found)
	}
	none := w.must(200, "GET", "/v1/event-types/checked/compare?from=2&to=2", "")
	if none["breaking"] != false || len(none["differences"].([]any)) != 0 {
		t.Errorf("the same version: %v", none)
	}

	verbs := []any{} // the clock stands still, so equal changes are one entry
	for _, e := range w.must(200, "GET", "/v1/audit", "")["data"].([]any) {
		if e := e.(map[string]any); e["endpoint_id"] == id {
			verbs = append(verbs, e["verb"])
		}
	}
	if fmt.Sprint(verbs) != "[change create]" {
		t.Errorf("audit: %v", verbs)
	}
	if r := w.ask(admin, http.MethodDelete, "/v1/event-types/"+id, ""); r.StatusCode != 204 {
		t.Errorf("delete: %d %s", r.StatusCode, r.body)
	}
	w.must(404, "GET", "/v1/event-types/"+id, "")
	w.must(202, "POST", "/v1/events", `{"type":"checked","data":"anything"}`)
}

// TestCheckedEvents publishes in each way: the events that satisfy the schema are stored, the
// others are not, and tenants without the type notice nothing.
func TestCheckedEvents(t *testing.T) {
	w := newWorld(t)
	w.checkedType(admin)
	events := func() int { return len(w.must(200, "GET", "/v1/events", "")["data"].([]any)) }
	const good, bad = `{"type":"checked","data":{"amount":7}}`, `{"type":"checked","data":{"amount":"7"}}`
	w.must(202, "POST", "/v1/events", good)
	w.must(202, "POST", "/v1/events", `{"type":"checked","data":{"amount":"7"},"metadata":{"schema_version":"1"}}`)
	w.must(202, "POST", "/v1/events/raw?type=checked", `{"amount":1}`)
	w.as(acmeAdmin, 202, "POST", "/v1/events", bad)
	before := events()
	p := w.must(422, "POST", "/v1/events", bad)
	if at := p["errors"].([]any)[0].(map[string]any); at["pointer"] != "/data/amount" || at["detail"] != "must be an integer, not a string" {
		t.Errorf("%v", p)
	}
	w.must(422, "POST", "/v1/events/raw?type=checked", `{}`)
	if n := events(); n != before {
		t.Errorf("%d events, and %d after those that were refused", before, n)
	}
	r := w.ask(admin, "POST", "/v1/events/raw?type=checked", "amount=1", "Content-Type", "text/plain")
	if r.StatusCode != 422 || !strings.Contains(string(r.body), "must be JSON") {
		t.Errorf("text: %d %s", r.StatusCode, r.body)
	}

	batch := `{"events":[` + strings.Join([]string{good, bad, `{"type":"other","data":1}`, `{"type":"checked"}`, bad, good}, ",") + `]}`
	got := w.must(202, "POST", "/v1/events/batch", batch)["data"].([]any)
	statuses := ""
	for i, one := range got {
		one := one.(map[string]any)
		if one["status"] != nil {
			statuses += fmt.Sprint(i, one["errors"].([]any)[0].(map[string]any)["pointer"], " ")
		}
	}
	if statuses != "1/events/1/data/amount 3/events/3/data 4/events/4/data/amount " {
		t.Errorf("refused in a batch: %s", statuses)
	}
	if n := events(); n != before+3 {
		t.Errorf("%d events of a batch were stored, want 3", n-before)
	}
	lines := w.ask(admin, "POST", "/v1/events/batch", good+"\n"+bad+"\n", "Content-Type", "application/x-ndjson")
	if lines.StatusCode != 202 || !strings.Contains(string(lines.body), `"pointer":"/1/data/amount"`) {
		t.Errorf("lines: %d %s", lines.StatusCode, lines.body)
	}
}

// TestRepeatedEventsHaveTheirAnswer: an event that was accepted is a duplicate, whatever its type's
// schema says by now. Another one under its id is refused.
func TestRepeatedEventsHaveTheirAnswer(t *testing.T) {
	w := newWorld(t)
	id := w.checkedType(admin)
	const event = `{"type":"checked","id":"mine","data":{"amount":7}}`
	w.must(202, "POST", "/v1/events", event)
	keyed := w.ask(admin, "POST", "/v1/events", `{"type":"checked","data":{"amount":8}}`, "Idempotency-Key", "k")
	w.must(201, "POST", "/v1/event-types/"+id+"/versions", `{"schema":{"type":"null"}}`)
	if again := w.must(200, "POST", "/v1/events", event); again["duplicate"] != true {
		t.Errorf("repeated: %v", again)
	}
	batch := w.must(202, "POST", "/v1/events/batch", `{"events":[`+event+`,{"type":"checked","data":null}]}`)["data"].([]any)
	if again := batch[0].(map[string]any); again["duplicate"] != true {
		t.Errorf("repeated in a batch: %v", again)
	}
	same := w.ask(admin, "POST", "/v1/events", `{"type":"checked","data":{"amount":8}}`, "Idempotency-Key", "k")
	if same.StatusCode != 202 || string(same.body) != string(keyed.body) {
		t.Errorf("repeated with its Idempotency-Key: %d %s", same.StatusCode, same.body)
	}
	w.must(422, "POST", "/v1/events", `{"type":"checked","id":"mine","data":{"amount":9}}`)
}

// TestTheCatalogueHasRoomForSoMuch reaches each of a tenant's limits.
func TestTheCatalogueHasRoomForSoMuch(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Bounds.EventTypes, o.Bounds.TypeVersions, o.Bounds.CatalogueBytes = 2, 3, 1000 })
	w.must(201, "POST", "/v1/event-types", `{"name":"a","schema":true}`)
	w.must(201, "POST", "/v1/event-types", `{"name":"b"}`)
	w.must(409, "POST", "/v1/event-types", `{"name":"c"}`)
	w.as(acmeAdmin, 201, "POST", "/v1/event-types", `{"name":"c"}`)
	w.must(201, "POST", "/v1/event-types/a/versions", `{"schema":false}`)
	w.must(409, "POST", "/v1/event-types/b/versions", `{"schema":{"title":"`+strings.Repeat("x", 1000)+`"}}`)
	w.must(201, "POST", "/v1/event-types/a/versions", `{"schema":{}}`)
	w.must(409, "POST", "/v1/event-types/a/versions", `{"schema":{"type":"null"}}`)
}

// TestATenantHasSoManyRecords: sources, policies and keys are limited for each tenant. A repeated
// request gets its answer, and a tenant that deletes one may create another.
func TestATenantHasSoManyRecords(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Bounds.Sources, o.Bounds.Policies, o.Bounds.Keys = 2, 2, 8 })
	for path, body := range map[string]string{
		"/v1/sources": `{"name":"%s","verify":{"scheme":"none"}}`, "/v1/policies": `{"name":"%s","timeout":"5s"}`,
		"/v1/keys": `{"name":"%s","scopes":["read"]}`,
	} {
		made := ""
		for n := 0; ; n++ {
			r := w.ask(acmeAdmin, "POST", path, fmt.Sprintf(body, fmt.Sprint("n", n)), "Idempotency-Key", fmt.Sprint(path, n))
			if r.StatusCode == 409 {
				if n == 0 || !strings.Contains(string(r.body), "which is the limit") {
					t.Errorf("%s: %s", path, r.body)
				}
				if again := w.ask(acmeAdmin, "POST", path, fmt.Sprintf(body, fmt.Sprint("n", n-1)),
					"Idempotency-Key", fmt.Sprint(path, n-1)); again.StatusCode != 201 {
					t.Errorf("%s repeated: %d %s", path, again.StatusCode, again.body)
				}
				break
			}
			if r.StatusCode != 201 || n > 5 {
				t.Fatalf("%s %d: %d %s", path, n, r.StatusCode, r.body)
			}
			made = gjson.GetBytes(r.body, "id").String()
		}
		w.as(admin, 201, "POST", path, fmt.Sprintf(body, "other"))
		w.as(acmeAdmin, 204, "DELETE", path+"/"+made, "")
		w.as(acmeAdmin, 201, "POST", path, fmt.Sprintf(body, "new"))
	}
}

// TestEventTypesByName: a key of no tenant finds a name that one tenant has; of several, it says
// which.
func TestEventTypesByName(t *testing.T) {
	w := newWorld(t)
	w.must(201, "POST", "/v1/event-types", `{"name":"a"}`)
	acme := w.as(acmeAdmin, 201, "POST", "/v1/event-types", `{"name":"a"}`)["id"]
	w.must(404, "GET", "/v1/event-types/a", "")
	named, own := w.must(200, "GET", "/v1/event-types/a?tenant=acme", ""), w.as(acmeAdmin, 200, "GET", "/v1/event-types/a", "")
	for _, got := range []map[string]any{named, own} {
		if got["id"] != acme {
			t.Errorf("%v", got)
		}
	}
	w.as(acmeAdmin, 404, "GET", "/v1/event-types/a?tenant=default", "")
}
