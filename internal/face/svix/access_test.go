package svix_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/server"
)

func TestPortal(t *testing.T) {
	c := asAdmin(t)
	got := c.must(200, "POST", "/auth/app-portal-access/portal1", `{"application":{"name":"Portal","uid":"portal1"}}`)
	if !strings.Contains(got["url"].(string), "/portal") {
		t.Fatalf("answered %v", got)
	}
	holder := caller{t, got["token"].(string)}
	ep := holder.must(201, "POST", "/app/portal1/endpoint", `{"url":"http://127.0.0.1:9/","filterTypes":[]}`)["id"].(string)
	holder.must(200, "GET", "/app/portal1/endpoint/"+ep+"/secret", "")
	holder.must(200, "GET", "/app/portal1", "")
	c.app("portal2")
	holder.must(404, "GET", "/app/portal2", "")
	holder.must(404, "GET", "/app/portal2/endpoint", "")
	reader := caller{t, c.must(200, "POST", "/auth/app-portal-access/portal1", `{"readOnly":true}`)["token"].(string)}
	reader.must(200, "GET", "/app/portal1/endpoint", "")
	reader.must(403, "POST", "/app/portal1/endpoint", `{"url":"http://127.0.0.1:9/"}`)
	reader.must(403, "GET", "/app/portal1/endpoint/"+ep+"/secret", "")
	reader.must(204, "POST", "/auth/logout", "")
	reader.must(401, "GET", "/app/portal1/endpoint", "")
	c.must(204, "POST", "/auth/app/portal1/expire-all", "")
	holder.must(401, "GET", "/app/portal1", "")
	status, header, _ := caller{t, ""}.ask("OPTIONS", "/api/v1/app/portal1/endpoint", "", "Origin", "https://app.example")
	if status != 204 || header.Get("Access-Control-Allow-Origin") != "*" || header.Get("Access-Control-Allow-Credentials") != "" ||
		!strings.Contains(header.Get("Access-Control-Allow-Headers"), "authorization") {
		t.Errorf("answered %d %v", status, header)
	}
}

// TestTenancy: a key that is bound to a tenant sees its own application, and no part of another.
func TestTenancy(t *testing.T) {
	c := asAdmin(t)
	c.app("bee")
	c.app("wasp")
	ep := c.must(201, "POST", "/app/bee/endpoint", `{"url":"http://127.0.0.1:9/","uid":"hive","disabled":true}`)["id"].(string)
	msg := c.must(202, "POST", "/app/bee/msg", `{"eventType":"a.b","eventId":"honey","payload":{"of":"bee"}}`)["id"].(string)
	wasp := bound(t, "wasp", grapnel.ScopeAdmin)
	for _, app := range []string{"bee", "app_uid_bee"} {
		for _, path := range []string{"", "/endpoint", "/endpoint/" + ep, "/endpoint/hive/secret", "/endpoint/" + ep + "/headers", "/endpoint/" + ep + "/stats",
			"/endpoint/" + ep + "/msg", "/msg", "/msg/" + msg, "/msg/honey", "/attempt/endpoint/" + ep, "/attempt/msg/" + msg, "/msg/" + msg + "/endpoint"} {
			wasp.must(404, "GET", "/app/"+app+path, "")
		}
		wasp.must(404, "PUT", "/app/"+app, `{"name":"x"}`)
		wasp.must(404, "DELETE", "/app/"+app, "")
		wasp.must(404, "POST", "/app/"+app+"/msg", `{"eventType":"a.b","payload":{},"application":{"name":"x","uid":"bee"}}`)
		wasp.must(404, "POST", "/auth/app-portal-access/"+app, `{}`)
	}
	// What another tenant has is not found through the own application either.
	for _, path := range []string{"/endpoint/" + ep, "/endpoint/hive", "/endpoint/" + ep + "/secret", "/msg/" + msg, "/msg/honey", "/attempt/endpoint/" + ep} {
		wasp.must(404, "GET", "/app/wasp"+path, "")
		c.must(404, "GET", "/app/wasp"+path, "")
	}
	wasp.must(404, "POST", "/app/wasp/msg/"+msg+"/endpoint/"+ep+"/resend", "")
	if got := ids(wasp.must(200, "GET", "/app", "")); !slices.Equal(got, []string{"app_uid_wasp"}) {
		t.Errorf("listed %v", got)
	}
	wasp.must(403, "POST", "/app", `{"name":"x","uid":"third"}`)
	wasp.must(403, "POST", "/app?get_if_exists=true", `{"name":"x","uid":"bee"}`)
	wasp.must(202, "POST", "/app/wasp/msg", `{"eventType":"a.b","payload":{}}`)
	publisher := bound(t, "wasp", grapnel.ScopePublish)
	publisher.must(202, "POST", "/app/wasp/msg", `{"eventType":"a.b","payload":{}}`)
	publisher.must(403, "GET", "/app/wasp/msg", "")
	publisher.must(403, "POST", "/app/wasp/endpoint", `{"url":"http://127.0.0.1:9/"}`)
	for _, key := range []string{"", "grp_nobodys", strings.ToUpper(c.key)} {
		for _, path := range []string{"/app", "/app/bee", "/app/none", "/event-type", "/background-task/qtask_1"} {
			caller{t, key}.must(401, "GET", path, "")
		}
	}
	caller{t, ""}.must(204, "GET", "/health", "")
}

// TestRefusals: each is in the form of Svix, and names the field.
func TestRefusals(t *testing.T) {
	c := asAdmin(t)
	c.app("strict")
	c.must(201, "POST", "/app/strict/endpoint", `{"url":"http://127.0.0.1:9/","uid":"e"}`)
	for _, r := range []struct{ method, path, body, loc string }{
		{"POST", "/app", `{}`, "body.name"},
		{"POST", "/app", `{"name":"x","uid":"a.b"}`, "body.uid"},
		{"POST", "/app", `{"name":"x","uid":"app_x"}`, "body.uid"},
		{"POST", "/app", `{"name":"x","throttleRate":5}`, "body.throttleRate"},
		{"POST", "/app", `{"name":7}`, "body.name"},
		{"POST", "/app", `{"name":"x","colour":"red"}`, "body.colour"},
		{"POST", "/app", `{"name":"x","metadata":{"svix.uid":"1"}}`, "body.metadata.svix.uid"},
		{"POST", "/app", `{"name":"x","metadata":{"a b":"1"}}`, "body.metadata.a b"},
		{"PATCH", "/app/strict", `{"uid":"other"}`, "body.uid"},
		{"GET", "/app?limit=251", "", "query.limit"},
		{"GET", "/app/strict/endpoint?iterator=ep_none", "", "query.iterator"},
		{"GET", "/app/strict/endpoint?order=up", "", "query.order"},
		{"GET", "/app/strict/msg?iterator=-x", "", "query.iterator"},
		{"GET", "/app/strict/msg?iterator=x", "", "query.iterator"},
		{"GET", "/app/strict/msg?after=yesterday", "", "query.after"},
		{"POST", "/app/strict/endpoint", `{"url":"ftp://x"}`, "body.url"},
		{"POST", "/app/strict/endpoint", `{"url":"http://127.0.0.1:9/","eventTypes":["a b"]}`, "body.eventTypes.0"},
		{"POST", "/app/strict/endpoint", `{"url":"http://127.0.0.1:9/","channels":["a b"]}`, "body.channels.0"},
		{"POST", "/app/strict/endpoint", `{"url":"http://127.0.0.1:9/","throttleRate":0}`, "body.throttleRate"},
		{"POST", "/app/strict/endpoint", `{"url":"http://127.0.0.1:9/","version":2}`, "body.version"},
		{"POST", "/app/strict/endpoint", `{"url":"http://127.0.0.1:9/","uid":"ep_1"}`, "body.uid"},
		{"POST", "/app/strict/endpoint", `{"url":"http://127.0.0.1:9/","secret":"whsec_x"}`, "body.secret"},
		{"PATCH", "/app/strict/endpoint/e", `{"secret":"whsec_x"}`, "body.secret"},
		{"POST", "/app/strict/endpoint/e/secret/rotate", `{"gracePeriodSeconds":-1}`, "body.gracePeriodSeconds"},
		{"POST", "/app/strict/endpoint/e/recover", `{}`, "body.since"},
		{"POST", "/app/strict/endpoint/e/recover", `{"since":"2020-01-01T00:00:00Z"}`, "body.since"},
		{"POST", "/app/strict/msg", `{"payload":{}}`, "body.eventType"},
		{"POST", "/app/strict/msg", `{"eventType":"a"}`, "body.payload"},
		{"POST", "/app/strict/msg", `{"eventType":"a","payload":[]}`, "body.payload"},
		{"POST", "/app/strict/msg", `{"eventType":"a b","payload":{}}`, "body.eventType"},
		{"POST", "/app/strict/msg", `{"eventType":"a","payload":{},"deliverAt":"2030-01-01T00:00:00Z"}`, "body.deliverAt"},
		{"POST", "/app/strict/msg", `{"eventType":"a","payload":{},"payloadRetentionPeriod":5}`, "body.payloadRetentionPeriod"},
		{"POST", "/app/strict/msg", `{"eventType":"a","payload":{},"transformationsParams":{"rawPayload":"<a/>"}}`, "body.transformationsParams.rawPayload"},
		{"POST", "/event-type", `{"name":"a.b"}`, "body.description"},
		{"POST", "/event-type", `{"name":"a.b","description":"","featureFlags":["x"]}`, "body.featureFlags"},
		{"POST", "/event-type", `{"name":"a.b","description":"","schemas":{"v1":{}}}`, "body.schemas.v1"},
		{"POST", "/auth/app-portal-access/strict", `{"expiry":604800}`, "body.expiry"},
		{"POST", "/auth/app-portal-access/strict", `{"featureFlags":["x"]}`, "body.featureFlags"},
	} {
		got := c.must(422, r.method, r.path, r.body)
		spots, _ := got["detail"].([]any)
		found := false
		for _, s := range spots {
			var loc []string
			for _, part := range s.(object)["loc"].([]any) {
				loc = append(loc, part.(string))
			}
			found = found || strings.Join(loc, ".") == r.loc && s.(object)["msg"] != "" && s.(object)["type"] != ""
		}
		if !found {
			t.Errorf("%s %s %s: answered %v, want %s", r.method, r.path, r.body, got, r.loc)
		}
	}
	if got := c.must(400, "POST", "/app", `{`); got["code"] != "bad_request" {
		t.Errorf("answered %v", got)
	}
	if got := c.must(404, "GET", "/app/none", ""); got["code"] != "not_found" || got["detail"] == "" {
		t.Errorf("answered %v", got)
	}
	c.must(404, "GET", "/ingest/source", "")
	c.must(413, "POST", "/app/strict/msg", `{"eventType":"a","payload":{"x":"`+strings.Repeat("x", 1<<20)+`"}}`)
}

// TestTheStrictSDKGetsOlderNames: the SDK for Go with versions 1 refuses members that it does not
// know. All others get both.
func TestTheStrictSDKGetsOlderNames(t *testing.T) {
	c := asAdmin(t)
	c.app("older")
	body := `{"url":"http://127.0.0.1:9/","filterTypes":["a.b"],"rateLimit":5,"disabled":true}`
	old := c.must(201, "POST", "/app/older/endpoint", body, "User-Agent", "svix-libs/1.44.0/go")
	if old["eventTypes"] != nil || old["throttleRate"] != nil || fmt.Sprint(old["filterTypes"], old["rateLimit"]) != "[a.b] 5" {
		t.Errorf("the older one gets %v", old)
	}
	for _, agent := range []string{"svix-libs/2.9.1/go", "svix-libs/1.99.1/javascript", ""} {
		got := c.must(200, "GET", "/app/older/endpoint/"+old["id"].(string), "", "User-Agent", agent)
		if fmt.Sprint(got["eventTypes"], got["throttleRate"], got["filterTypes"], got["rateLimit"]) != "[a.b] 5 [a.b] 5" {
			t.Errorf("%q gets %v", agent, got)
		}
	}
	list := c.must(200, "GET", "/app/older/endpoint", "", "User-Agent", "svix-libs/1.44.0/go")
	if one := data(list)[0].(object); one["eventTypes"] != nil || one["id"] != old["id"] {
		t.Errorf("listed %v", list)
	}
}

// TestOffUnlessAsked: without the flag there is no such path, and no secret comes back.
func TestOffUnlessAsked(t *testing.T) {
	s, err := server.Open(t.Context(), server.Options{Listen: server.Nowhere, Store: "sqlite:" + filepath.Join(t.TempDir(), "grapnel.db")})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	accepts, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- s.Run(ctx, func() { close(accepts) }) }()
	<-accepts
	defer func() { cancel(); <-ended }()
	key, err := os.ReadFile(s.AdminKey().Path)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(method, path, body string) *httptest.ResponseRecorder {
		r, w := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body)), httptest.NewRecorder()
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(key)))
		r.Header.Set("Content-Type", "application/json")
		s.Handler().ServeHTTP(w, r)
		return w
	}
	if w := ask("GET", "/api/v1/app", ""); w.Code != 404 {
		t.Errorf("answered %d %s", w.Code, w.Body)
	}
	var ep struct{ ID string }
	if err := json.Unmarshal(ask("POST", "/v1/endpoints", `{"url":"https://a.example"}`).Body.Bytes(), &ep); err != nil {
		t.Fatal(err)
	}
	if w := ask("POST", "/v1/endpoints/"+ep.ID+"/reveal-secret", ""); w.Code != 403 || strings.Contains(w.Body.String(), "whsec_") {
		t.Errorf("answered %d %s", w.Code, w.Body)
	}
}
