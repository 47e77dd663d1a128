package svix_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestApplications(t *testing.T) {
	c := asAdmin(t)
	made := c.must(201, "POST", "/app", `{"name":"Acme","uid":"cus_1","metadata":{"planName":"gold"}}`)
	id := made["id"].(string)
	if id != "app_uid_cus_1" || made["uid"] != "cus_1" || made["metadata"].(object)["planName"] != "gold" || made["createdAt"] == nil {
		t.Errorf("created %v", made)
	}
	for _, path := range []string{"/app/cus_1", "/app/" + id} {
		if got := c.must(200, "GET", path, ""); got["id"] != id || got["name"] != "Acme" {
			t.Errorf("%s: %v", path, got)
		}
	}
	c.must(409, "POST", "/app", `{"name":"Again","uid":"cus_1"}`)
	if got := c.must(200, "POST", "/app?get_if_exists=true", `{"name":"Again","uid":"cus_1"}`); got["name"] != "Acme" {
		t.Errorf("got %v", got)
	}
	got := c.must(200, "PUT", "/app/cus_1", `{"name":"Acme Inc.","uid":"cus_1"}`)
	if got["name"] != "Acme Inc." || len(got["metadata"].(object)) > 0 {
		t.Errorf("replaced: %v", got)
	}
	if got := c.must(201, "PUT", "/app/cus_2", `{"name":"Second"}`); got["uid"] != "cus_2" {
		t.Errorf("put: %v", got)
	}
	if got := c.must(200, "PATCH", "/app/cus_2", `{"metadata":{"a":"1"}}`); got["name"] != "Second" || got["metadata"].(object)["a"] != "1" {
		t.Errorf("patched: %v", got)
	}
	minted := c.must(201, "POST", "/app", `{"name":"No uid"}`)
	if id := minted["id"].(string); !strings.HasPrefix(id, "app_") || strings.HasPrefix(id, "app_uid_") || minted["uid"] != nil {
		t.Errorf("without a uid: %v", minted)
	}
	var listed []string
	iterator := ""
	for done := false; !done; {
		part := c.must(200, "GET", "/app?limit=1&iterator="+iterator, "")
		listed, done = append(listed, ids(part)...), part["done"].(bool)
		iterator, _ = part["iterator"].(string)
	}
	for _, want := range []string{id, "app_uid_cus_2", minted["id"].(string)} {
		if !slices.Contains(listed, want) {
			t.Errorf("listed %v, without %s", listed, want)
		}
	}
	c.must(204, "DELETE", "/app/cus_2", "")
	c.must(404, "GET", "/app/cus_2", "")
	c.must(404, "GET", "/app/app_none", "")
	c.must(404, "GET", "/app/default", "") // a tenant without a name is no application
}

func TestIdempotency(t *testing.T) {
	c := asAdmin(t)
	once := func(method, path, body, key string) object {
		t.Helper()
		first := c.must(map[bool]int{true: 202, false: 201}[strings.HasSuffix(path, "/msg")], method, path, body, "Idempotency-Key", key)
		again := c.must(map[bool]int{true: 202, false: 201}[strings.HasSuffix(path, "/msg")], method, path, body, "Idempotency-Key", key)
		if first["id"] != again["id"] || first["id"] == nil && first["name"] != again["name"] {
			t.Errorf("%s %s: first %v, then %v", method, path, first, again)
		}
		return first
	}
	minted := once("POST", "/app", `{"name":"Once"}`, "auto_1")
	once("POST", "/app", `{"name":"Once","uid":"once"}`, "auto_2")
	c.must(409, "POST", "/app", `{"name":"Once","uid":"once"}`, "Idempotency-Key", "auto_3")
	once("POST", "/app/once/endpoint", `{"url":"http://127.0.0.1:9/","uid":"e","disabled":true}`, "auto_4")
	c.must(409, "POST", "/app/once/endpoint", `{"url":"http://127.0.0.1:9/","uid":"e"}`, "Idempotency-Key", "auto_5")
	once("POST", "/app/once/msg", `{"eventType":"a.b","eventId":"x.1","payload":{"n":1}}`, "auto_6")
	c.must(409, "POST", "/app/once/msg", `{"eventType":"a.b","eventId":"x.1","payload":{"n":1}}`, "Idempotency-Key", "auto_7")
	c.must(409, "POST", "/app/once/msg", `{"eventType":"a.b","eventId":"x.1","payload":{"n":2}}`)
	once("POST", "/app/late/msg", `{"eventType":"a.b","payload":{"n":1},"application":{"name":"Late","uid":"late"}}`, "auto_8")
	once("POST", "/event-type", `{"name":"once.made","description":"x","schemas":{"1":{"type":"object"}}}`, "auto_9")
	c.must(409, "POST", "/event-type", `{"name":"once.made","description":"x"}`, "Idempotency-Key", "auto_10")
	if n := len(data(c.must(200, "GET", "/app/once/msg", ""))); n != 1 {
		t.Errorf("%d messages", n)
	}
	_ = minted
}

func TestEndpoints(t *testing.T) {
	c := asAdmin(t)
	c.app("ends")
	made := c.must(201, "POST", "/app/ends/endpoint", `{"url":"http://127.0.0.1:9/a","uid":"main","description":"Main","eventTypes":["a.b"],
		"channels":["ch0","ch1"],"metadata":{"Team":"x"},"throttleRate":7,"disabled":true,"version":1,"secret":"MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}`)
	id := made["id"].(string)
	want := object{"uid": "main", "description": "Main", "disabled": true, "throttleRate": 7.0, "version": 1.0}
	for name, value := range want {
		if made[name] != value {
			t.Errorf("%s is %v, want %v", name, made[name], value)
		}
	}
	if fmt.Sprint(made["channels"], made["eventTypes"], made["filterTypes"], made["metadata"]) != "[ch0 ch1] [a.b] [a.b] map[Team:x]" {
		t.Errorf("created %v", made)
	}
	if got := c.must(200, "GET", "/app/ends/endpoint/main", ""); got["id"] != id {
		t.Errorf("by uid: %v", got)
	}
	if got := c.must(200, "GET", "/app/ends/endpoint/main/secret", ""); got["key"] != "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" {
		t.Errorf("secret: %v", got)
	}
	rotated := c.must(200, "POST", "/app/ends/endpoint/main/secret/rotate", `{"gracePeriodSeconds":60}`)
	if got := c.must(200, "GET", "/app/ends/endpoint/main/secret", ""); got["key"] != rotated["key"] || got["key"] == "" {
		t.Errorf("rotated to %v, shown is %v", rotated, got)
	}
	c.must(204, "PUT", "/app/ends/endpoint/main/headers", `{"headers":{"X-Team":"a","X-Api-Key":"hush"}}`)
	headers := func() string { return fmt.Sprint(c.must(200, "GET", "/app/ends/endpoint/main/headers", "")) }
	if got := headers(); got != "map[headers:map[X-Team:a] sensitive:[X-Api-Key]]" {
		t.Errorf("headers: %v", got)
	}
	c.must(204, "PATCH", "/app/ends/endpoint/main/headers", `{"headers":{"X-More":"b"},"deleteHeaders":["X-Api-Key"]}`)
	if got := headers(); got != "map[headers:map[X-More:b X-Team:a] sensitive:[]]" {
		t.Errorf("headers: %v", got)
	}
	c.must(204, "PUT", "/app/ends/endpoint/main/headers", `{"headers":{}}`)
	if got := c.must(200, "GET", "/app/ends/endpoint/main/headers", ""); fmt.Sprint(got["headers"]) != "map[]" {
		t.Errorf("headers: %v", got)
	}
	got := c.must(200, "PATCH", "/app/ends/endpoint/main", `{"eventTypes":null,"channels":["ch2"],"throttleRate":null}`)
	if got["eventTypes"] != nil ||
		fmt.Sprint(got["channels"]) != "[ch2]" || got["throttleRate"] != nil || got["description"] != "Main" {
		t.Errorf("patched: %v", got)
	}
	if got := c.must(200, "PUT", "/app/ends/endpoint/main", `{"url":"http://127.0.0.1:9/b","eventTypes":[]}`); got["channels"] != nil || got["uid"] != "main" ||
		got["description"] != "" || got["disabled"] != false || len(got["metadata"].(object)) > 0 {
		t.Errorf("replaced: %v", got)
	}
	other := c.must(201, "PUT", "/app/ends/endpoint/other", `{"url":"http://127.0.0.1:9/c"}`)
	c.must(409, "PATCH", "/app/ends/endpoint/other", `{"uid":"main"}`)
	if got := c.must(200, "PATCH", "/app/ends/endpoint/other", `{"uid":"renamed"}`); got["id"] != other["id"] || got["uid"] != "renamed" {
		t.Errorf("renamed: %v", got)
	}
	first := c.must(200, "GET", "/app/ends/endpoint?limit=1", "")
	second := c.must(200, "GET", "/app/ends/endpoint?limit=1&iterator="+first["iterator"].(string), "")
	back := c.must(200, "GET", "/app/ends/endpoint?limit=1&iterator="+second["prevIterator"].(string), "")
	if first["done"] != false || second["done"] != true || !slices.Equal(ids(back), ids(first)) || ids(first)[0] == ids(second)[0] {
		t.Errorf("pages: %v, %v, back %v", first, second, back)
	}
	c.must(204, "DELETE", "/app/ends/endpoint/renamed", "")
	c.must(404, "GET", "/app/ends/endpoint/renamed", "")
	if got := ids(c.must(200, "GET", "/app/ends/endpoint?order=descending", "")); !slices.Equal(got, []string{id}) {
		t.Errorf("left: %v", got)
	}
}

func TestEventTypes(t *testing.T) {
	c := asAdmin(t)
	c.must(201, "POST", "/event-type", `{"name":"user.created","description":"A user","groupName":"users","schemas":{"1":{"type":"object"},"2":{"type":"object","required":["id"]}}}`)
	if got := c.must(200, "GET", "/event-type/user.created", ""); got["groupName"] != "users" || got["deprecated"] != false || len(got["schemas"].(object)) != 2 {
		t.Errorf("got %v", got)
	}
	c.must(422, "PUT", "/event-type/user.created", `{"description":"A user","schemas":{"1":{"type":"string"}}}`)
	if got := c.must(200, "PUT", "/event-type/user.created", `{"description":"Somebody","deprecated":true,
		"schemas":{"1":{"type":"object"},"2":{"type":"object","required":["id"]},"3":{"type":"object","required":["id","name"]}}}`); got["deprecated"] != true ||
		got["groupName"] != nil || got["description"] != "Somebody" || len(got["schemas"].(object)) != 3 {
		t.Errorf("replaced %v", got)
	}
	if got := c.must(200, "PATCH", "/event-type/user.created", `{"deprecated":false}`); got["deprecated"] != false || got["description"] != "Somebody" {
		t.Errorf("patched %v", got)
	}
	c.must(201, "PUT", "/event-type/user.deleted", `{"description":"No user"}`)
	c.must(204, "DELETE", "/event-type/user.created", "")
	named := func(query string) (all []string) {
		for _, one := range data(c.must(200, "GET", "/event-type"+query, "")) {
			all = append(all, one.(object)["name"].(string))
		}
		return all
	}
	if got := named(""); slices.Contains(got, "user.created") || !slices.Contains(got, "user.deleted") {
		t.Errorf("listed %v", got)
	}
	if got := named("?include_archived=true&with_content=true"); !slices.Contains(got, "user.created") || !slices.IsSorted(got) {
		t.Errorf("with archived ones: %v", got)
	}
	if got := c.must(201, "POST", "/event-type", `{"name":"user.created","description":"Back"}`); got["archived"] != false {
		t.Errorf("again: %v", got)
	}
	c.must(204, "DELETE", "/event-type/user.created?expunge=true", "")
	c.must(404, "GET", "/event-type/user.created", "")
}
