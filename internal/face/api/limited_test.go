package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/pass"
)

// portalScopes are all scopes that a portal can have.
var portalScopes = []grapnel.Scope{grapnel.ScopeRead, grapnel.ScopeReplay, grapnel.ScopeEndpointsWrite, grapnel.ScopeSecretsReveal,
	grapnel.ScopePayloadRead, grapnel.ScopeAlertsRead}

// pass makes a pass for the portal of acme.
func (w *world) pass(scopes []grapnel.Scope, endpoints ...string) string {
	w.t.Helper()
	text, err := w.options.Passes.Seal(pass.Pass{Subject: "portal/jane", Tenant: "acme", Scopes: scopes, Portal: true, Endpoints: endpoints,
		Series: w.engine.Access(grapnel.SeriesID("acme")).Series, Begins: w.clock, Ends: w.clock.Add(time.Hour)})
	if err != nil {
		w.t.Fatal(err)
	}
	return text
}

// colony is what one endpoint has: a thing of each kind, all with its mark in each text.
type colony struct{ endpoint, event, delivery, dead, replay, issue, alert string }

// settle fills an endpoint of a tenant with things that have a mark in every text.
func (w *world) settle(key, mark string) (c colony) {
	w.t.Helper()
	c.endpoint = w.as(key, 201, "POST", "/v1/endpoints", fmt.Sprintf(`{"url":"https://%s.example/","description":"%s","event_types":["%s.*"],
		"labels":{"%s":"%s"}}`, mark, mark, mark, mark, mark))["id"].(string)
	publish := func() {
		c.event = w.as(key, 202, "POST", "/v1/events", fmt.Sprintf(`{"type":"%s.made","key":"%s","data":{"%s":"%s"},"metadata":{"m":"%s"}}`,
			mark, mark, mark, mark, mark))["id"].(string)
	}
	publish()
	d := w.newest(w.t)
	w.finish(d, grapnel.Failed, grapnel.ReasonExhausted, "failed: "+mark)
	c.dead = storeIDs.Of(d)
	w.as(key, 200, "PATCH", "/v1/deliveries/"+c.dead, `{"note":"`+mark+`"}`)
	publish()
	w.attempt(w.newest(w.t), 1, 503, w.clock.Add(time.Minute))
	c.delivery = storeIDs.Of(w.newest(w.t))
	c.replay = w.as(key, 202, "POST", "/v1/endpoints/"+c.endpoint+"/replay", `{"reason":"`+mark+`"}`)["id"].(string)
	c.issue = w.issue(d.Tenant, c.endpoint, 422, 2, mark)
	w.as(key, 200, "PATCH", "/v1/issues/"+c.issue, `{"note":"`+mark+`"}`)
	c.alert = w.alertAbout(d.Tenant, c.endpoint, mark)
	w.as(key, 200, "POST", "/v1/endpoints/"+c.endpoint+"/pause", `{"reason":"`+mark+`"}`)
	return c
}

// ids are the ids of a colony by the paths that they stand in.
func (c colony) ids() map[string]string {
	return map[string]string{"/v1/endpoints/": c.endpoint, "/v1/deliveries/": c.dead, "/v1/events/": c.event, "/v1/replays/": c.replay, "/v1/issues/": c.issue, "/v1/alerts/": c.alert,
		"/v1/policies/": "pol_none", "/v1/event-types/": "typ_none", "/v1/keys/": "key_none", "/v1/channels/": c.endpoint, "/v1/queues/": c.endpoint, "/queues/": c.endpoint,
		"/v1/leases/": "lse_none", "/v1/sources/": "src_none", "/v1/inbox/": c.event, "/v1/tenants/": "globex"}
}

// A pass that is limited to an endpoint sees of the tenant's other endpoints, and of other tenants,
// what it sees of endpoints that do not exist: on every route, by id, by filter and in lists.
func TestALimitedPassSeesNothingElse(t *testing.T) {
	w := newWorld(t)
	w.key("key_globex", "grp_test_globex", "globex", grapnel.ScopeAdmin)
	mine := w.settle(acmeAdmin, "mine")
	others := []colony{w.settle(acmeAdmin, "stranger-sibling"), w.settle("grp_test_globex", "stranger-globex")}
	nobody := colony{endpoint: "ep_none", event: "evt_none", delivery: storeIDs.Delivery(w.clock, 99), dead: storeIDs.Delivery(w.clock, 98),
		replay: "rpl_none", issue: "iss_none", alert: "alr_none"}
	me := w.pass(portalScopes, mine.endpoint)
	before := w.dump()
	ask := func(method, target, body string) reply {
		if method != http.MethodPost && method != http.MethodPatch {
			body = ""
		}
		return w.ask(me, method, target, body)
	}
	clean := func(t *testing.T, r reply) {
		t.Helper()
		if strings.Contains(string(r.body), "stranger") {
			t.Errorf("answered %d with another's things: %s", r.StatusCode, r.body)
		}
	}
	for _, rt := range routes() {
		if rt.scope == "" || rt.name == "stream" {
			continue
		}
		for _, path := range rt.paths() {
			t.Run(rt.method+" "+path, func(t *testing.T) {
				body := bodies()[rt.name]
				if strings.Contains(path, "{") {
					absent := ask(rt.method, fill(path, nobody.ids()), body)
					if absent.StatusCode != 404 && absent.StatusCode != 403 {
						t.Errorf("absent: answered %d %s", absent.StatusCode, absent.body)
					}
					for _, other := range others {
						foreign := ask(rt.method, fill(path, other.ids()), body)
						clean(t, foreign)
						if d := cmp.Diff(anonymous(t, absent), anonymous(t, foreign)); d != "" || foreign.StatusCode != absent.StatusCode {
							t.Errorf("another's and absent differ: %s", d)
						}
					}
				} else if rt.method == http.MethodGet {
					clean(t, ask("GET", path, ""))
				}
				if d := cmp.Diff(before, w.dump()); d != "" {
					t.Fatalf("something has changed: %s", d)
				}
				if rt.method != http.MethodGet || rt.portal == "" {
					return
				}
				if r := ask("GET", fill(path, mine.ids()), ""); r.StatusCode == 200 {
					clean(t, r)
				}
				for _, p := range rt.query {
					for _, other := range append(others, nobody) {
						value := map[string]string{"endpoint": other.endpoint, "delivery": other.delivery, "type": "stranger-sibling.*", "key": "stranger-sibling",
							"tenant": "globex", "text": "stranger-sibling", "label": "stranger-sibling"}[p.name]
						if value == "" {
							continue
						}
						r := ask("GET", fill(path, mine.ids())+"?"+p.name+"="+value, "")
						clean(t, r)
						if r.StatusCode == 200 && strings.Contains(string(r.body), `"data":[{`) && !strings.HasPrefix(path, "/v1/policies") {
							t.Errorf("?%s=%s finds %s", p.name, value, r.body)
						}
					}
				}
			})
		}
	}
	// Without this the silence above would mean nothing.
	for target, n := range map[string]int{"/v1/endpoints": 1, "/v1/deliveries": 2, "/v1/dead-letters": 1, "/v1/events": 2, "/v1/replays": 1, "/v1/issues": 1, "/v1/alerts": 1,
		"/v1/deliveries?text=mine": 2, "/v1/deliveries?endpoint=" + mine.endpoint: 2} {
		if got := w.as(me, 200, "GET", target, "")["data"].([]any); len(got) != n {
			t.Errorf("%s lists %d of mine, want %d: %v", target, len(got), n, got)
		}
	}
	for _, target := range []string{"/v1/endpoints/" + mine.endpoint, "/v1/deliveries/" + mine.delivery, "/v1/events/" + mine.event,
		"/v1/replays/" + mine.replay, "/v1/issues/" + mine.issue, "/v1/alerts/" + mine.alert, "/v1/endpoints/" + mine.endpoint + "/stats", "/v1/stats", "/v1/endpoints/" + mine.endpoint + "/lanes"} {
		w.as(me, 200, "GET", target, "")
	}
	if got := w.as(me, 200, "GET", "/v1/audit", "")["data"].([]any); len(got) < 3 {
		t.Errorf("the audit has %d entries of mine", len(got))
	}
}

// What each portal route needs is refused without it, whatever else the pass has.
func TestEachScopeOfAPortalCountsAlone(t *testing.T) {
	w := newWorld(t)
	mine := w.settle(acmeAdmin, "mine")
	for _, rt := range routes() {
		if rt.scope == "" || rt.portal == anyScope {
			continue
		}
		without := slices.DeleteFunc(slices.Clone(portalScopes), func(s grapnel.Scope) bool { return s == rt.portal })
		r := w.ask(w.pass(without), rt.method, fill(rt.path, mine.ids()), bodies()[rt.name])
		if r.StatusCode != 403 {
			t.Errorf("%s: answered %d %s", rt.name, r.StatusCode, r.body)
		}
		if limited := w.pass(portalScopes, mine.endpoint); rt.whole {
			if r := w.ask(limited, rt.method, fill(rt.path, mine.ids()), bodies()[rt.name]); r.StatusCode != 403 {
				t.Errorf("%s by a limited pass: answered %d %s", rt.name, r.StatusCode, r.body)
			}
		}
	}
}

func TestAPassEndsAndIsRevoked(t *testing.T) {
	w := newWorld(t)
	me := w.pass(portalScopes)
	who := w.as(me, 200, "GET", "/v1/whoami", "")
	if who["id"] != "portal/jane" || who["tenant"] != "acme" || who["expires_at"] == nil {
		t.Errorf("it is %v", who)
	}
	w.ask(me, "POST", "/v1/endpoints", `{"url":"https://a.example"}`)
	if got := w.must(200, "GET", "/v1/audit", "")["data"].([]any)[0].(map[string]any); got["actor"] != "portal/jane" {
		t.Errorf("the audit says %v", got)
	}
	w.as(acmeAdmin, 404, "DELETE", "/v1/tenants/globex/portal-links", "")
	w.as(me, 200, "GET", "/v1/endpoints", "")
	w.as(acmeAdmin, 204, "DELETE", "/v1/tenants/acme/portal-links?reason=lost", "")
	if r := w.ask(me, "GET", "/v1/endpoints", ""); r.StatusCode != 401 || !strings.Contains(string(r.body), "revoked") {
		t.Errorf("revoked: answered %d %s", r.StatusCode, r.body)
	}
	if n := len(w.must(200, "GET", "/v1/keys", "")["data"].([]any)); n != 12 {
		t.Errorf("%d keys are listed", n)
	}
	me = w.pass(portalScopes)
	w.as(me, 200, "GET", "/v1/endpoints", "")
	r := w.ask("", "GET", "/v1/endpoints", "", "Cookie", "__Host-grapnel_portal="+me)
	if r.StatusCode != 401 {
		t.Errorf("in a cookie: answered %d", r.StatusCode)
	}
	w.clock = w.clock.Add(time.Hour)
	w.as(me, 401, "GET", "/v1/endpoints", "")
}

// Without payload:read no answer has data, bodies or values of headers, and each says so.
func TestPayloadsAreHidden(t *testing.T) {
	w := newWorld(t)
	mine := w.settle(acmeAdmin, "mine")
	me := w.pass([]grapnel.Scope{grapnel.ScopeRead, grapnel.ScopeReplay})
	ev := w.as(me, 200, "GET", "/v1/events/"+mine.event, "")
	if ev["payload_hidden"] != true || ev["data"] != nil || ev["data_base64"] != nil {
		t.Errorf("the event has its data: %v", ev)
	}
	for _, e := range w.as(me, 200, "GET", "/v1/events", "")["data"].([]any) {
		if e := e.(map[string]any); e["payload_hidden"] != true || e["data"] != nil {
			t.Errorf("a listed event has its data: %v", e)
		}
	}
	at := w.as(me, 200, "GET", "/v1/deliveries/"+mine.delivery, "")["attempts"].([]any)[0].(map[string]any)
	if at["payload_hidden"] != true || at["response_body"] != "" || at["response_body_base64"] != nil ||
		at["response_headers"].(map[string]any)["Server"] != hidden || at["request_headers"].(map[string]any)["User-Agent"] != hidden {
		t.Errorf("the attempt shows %v", at)
	}
	retried := w.as(me, 200, "POST", "/v1/deliveries/"+mine.delivery+"/retry", "")["attempts"].([]any)[0].(map[string]any)
	if retried["payload_hidden"] != true || retried["response_body"] != "" {
		t.Errorf("the answer to a retry shows %v", retried)
	}
	for _, target := range []string{"/v1/deliveries", "/v1/dead-letters", "/v1/deliveries/export", "/v1/dead-letters/export"} {
		w.as(me, 403, "GET", target+"?text=mine", "")
	}
	// The same holds for passes of people, and for every route in the table.
	w.as(acmeAdmin, 202, "POST", "/v1/events", `{"type":"mine.made","data":{"x":"payload-canary"}}`)
	d := w.newest(t)
	w.attempt(d, 1, 503, w.clock.Add(time.Minute))
	viewer, err := w.options.Passes.Seal(pass.Pass{Subject: "jane", Tenant: "acme", Role: grapnel.RoleViewer,
		Scopes: []grapnel.Scope{grapnel.ScopeRead}, Begins: w.clock, Ends: w.clock.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	mine.dead, mine.event = storeIDs.Of(d), d.EventID
	for _, rt := range routes() {
		for _, path := range rt.paths() {
			if rt.scope != grapnel.ScopeRead || strings.HasPrefix(path, "/metrics") {
				continue
			}
			r := w.ask(viewer, rt.method, fill(path, mine.ids()), bodies()[rt.name])
			if strings.Contains(string(r.body), "payload-canary") || strings.Contains(string(r.body), `"down`) {
				t.Errorf("%s shows a payload: %s", path, r.body)
			}
		}
	}
	if shown := w.ask(acmeAdmin, "GET", "/v1/events/"+mine.event, ""); !strings.Contains(string(shown.body), "payload-canary") {
		t.Error("the payload is not there to be hidden")
	}
	for scope, shown := range map[grapnel.Scope]bool{grapnel.ScopeRead: false, grapnel.ScopeSecretsReveal: true} {
		made := w.as(w.pass([]grapnel.Scope{scope, grapnel.ScopeEndpointsWrite}), 201, "POST", "/v1/endpoints", `{"url":"https://b.example"}`)
		id := made["id"].(string)
		rotated := w.as(w.pass([]grapnel.Scope{scope, grapnel.ScopeEndpointsWrite}), 200, "POST", "/v1/endpoints/"+id+"/rotate-secret", "")
		if (made["secret"] != nil) != shown || (rotated["secret"] != nil) != shown {
			t.Errorf("with %s the secret is shown: %v, %v", scope, made["secret"], rotated["secret"])
		}
	}
}
