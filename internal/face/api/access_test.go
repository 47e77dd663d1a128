package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnelhq/grapnel"
)

// bodies are good bodies for the routes that need one, by operation.
func bodies() map[string]string {
	return map[string]string{
		"publish-event": `{"type":"a","data":1}`, "preview-event": `{"type":"a","data":1}`, "publish-batch": `{"events":[{"type":"a","data":1}]}`, "publish-raw": `1`,
		"create-endpoint": `{"url":"https://a.example"}`, "update-endpoint": `{"description":"x"}`, "rotate-secret": `{}`, "test-endpoint": `{}`,
		"pause-endpoint": `{"reason":"x"}`, "resume-endpoint": `{"reason":"x"}`, "probe-endpoint": `{"reason":"x"}`, "ask-consent": `{"reason":"x"}`, "retry-endpoint": `{"reason":"x"}`,
		"retry-delivery": `{"reason":"x"}`, "retry-deliveries": `{"reason":"x"}`,
		"retry-endpoint-delivery": `{"reason":"x"}`,
		"skip-delivery":           `{"reason":"x"}`, "note-delivery": `{"note":"x"}`, "discard-delivery": `{"reason":"x"}`,
		"create-policy": `{"name":"p"}`, "update-policy": `{"timeout":"1s"}`,
		"create-event-type": `{"name":"order.sent"}`, "update-event-type": `{"description":"x"}`,
		"add-event-type-version": `{"schema":{"type":"object"}}`, "update-event-type-version": `{"note":"x"}`, "simulate-policy": `{"outage":{"duration":"1h"}}`,
		"start-replay": `{"status":["failed"],"rate":20}`, "pause-replay": `{"reason":"x"}`, "resume-replay": `{"reason":"x"}`,
		"cancel-replay":  `{"reason":"x"}`,
		"create-channel": `{"url":"ntfy://ntfy.sh/topic"}`, "update-channel": `{"description":"x"}`,
		"create-contact": `{"mail":"a@example.com"}`, "update-contact-sender": `{"per_day":5}`,
		"create-queue": `{"name":"q2"}`, "update-queue": `{"description":"x"}`, "pause-queue": `{"reason":"x"}`,
		"resume-queue": `{"reason":"x"}`,
		"purge-queue":  `{"confirm":"orders"}`, "ack-lease": `{}`, "nack-lease": `{"reason":"x","delay":"5s"}`, "reject-lease": `{"reason":"x"}`,
		"extend-lease": `{"by":"1m"}`, "settle-leases": `{"acks":["lse_none"]}`,
		"create-source": `{"name":"s2","verify":{"scheme":"none"}}`, "update-source": `{"description":"x"}`,
		"rotate-source-secret": `{"secret":"whsec_another"}`,
		"update-issue":         `{"state":"acknowledged"}`, "replay-issue": `{"rate":20}`, "create-portal-link": `{"expires_in":"5m"}`, "update-portal": `{"name":"Acme"}`,
		"open-incident": `{"title":"x","text":"y"}`, "update-incident": `{"text":"y"}`,
		"acknowledge-alert": `{"reason":"x"}`, "update-alert-rule": `{"threshold":20}`, "backtest-alert-rule": `{"for":"7d"}`,
		"create-erasure": `{"tenant":"acme","key":"k","reason":"x"}`,
		"create-key":     `{"name":"k","scopes":["read"]}`, "update-key": `{"name":"k"}`,
		"create-tenant": `{"tenant":"newcomer","name":"New"}`,
		"update-tenant": `{"max_pending":5}`,
	}
}

// things are the ids that stand in a route's path, of things that it can do something about.
func things(names *strings.Replacer, rt *route) map[string]string {
	delivery := "DLV"
	if rt.name == "note-delivery" || rt.name == "discard-delivery" {
		delivery = "DONE"
	}
	return map[string]string{"/v1/endpoints/": names.Replace("EP"), "/v1/deliveries/": names.Replace(delivery),
		"/v1/events/":   names.Replace("EVT"),
		"/v1/policies/": names.Replace("POL"), "/v1/event-types/": names.Replace("TYP"), "/v1/keys/": names.Replace("KEY"), "/v1/replays/": names.Replace("RPL"), "/v1/erasures/": names.Replace("ERS"), "/v1/issues/": names.Replace("ISS"),
		"/v1/channels/": names.Replace("CHN"), "/v1/contacts/": names.Replace("CON"),
		"/v1/queues/": names.Replace("QUE"), "/queues/": names.Replace("QUE"), "/v1/leases/": names.Replace("LSE"),
		"/v1/sources/": names.Replace("SRC"), "/v1/inbox/": names.Replace("REQ"), "/v1/tenants/": "globex",
		"/v1/alerts/": names.Replace("ALR"), "/v1/alert-rules/": "disk_full", "/v1/incidents/": names.Replace("INC")}
}

// fill puts ids into a route's path.
func fill(path string, ids map[string]string) string {
	id := ids["/v1/endpoints/"]
	for prefix, other := range ids {
		if strings.HasPrefix(path, prefix) {
			id = other
		}
	}
	path = strings.NewReplacer("{id}", id, "{name}", id, "{lease}", id, "{tenant}", id, "{version}", "1", "{number}", "1", "{delivery_id}", ids["/v1/deliveries/"]).Replace(path)
	if path == "/v1/events/raw" {
		path += "?type=a"
	}
	if path == "/v1/feed" {
		path += "?endpoint=" + ids["/v1/endpoints/"]
	}
	if path == "/v1/search" {
		path += "?word=a"
	}
	if path == "/v1/sessions" {
		path += "?subject=person/someone"
	}
	return path
}

func TestEveryRouteWithEveryWrongKey(t *testing.T) {
	w, names := prepared(t)
	none := map[string]string{"/v1/endpoints/": "ep_none", "/v1/deliveries/": storeIDs.Delivery(w.clock, 99), "/v1/events/": "evt_none",
		"/v1/policies/": "pol_none", "/v1/event-types/": "typ_none", "/v1/keys/": "key_none", "/v1/replays/": "rpl_none", "/v1/erasures/": "ers_none", "/v1/issues/": "iss_none", "/v1/incidents/": "inc_none", "/v1/channels/": "chn_none", "/v1/contacts/": "chn_none", "/v1/queues/": "que_none", "/queues/": "que_none",
		"/v1/leases/": "lse_none", "/v1/sources/": "src_none", "/v1/inbox/": "req_none", "/v1/tenants/": "nobody", "/v1/alerts/": "alr_none", "/v1/alert-rules/": "no_rule"}
	for _, rt := range routes() {
		for _, path := range rt.paths() {
			t.Run(rt.method+" "+path, func(t *testing.T) {
				if rt.scope == "" {
					if rt.open == nil {
						t.Fatal("the route needs neither a scope nor is it open")
					}
					return
				}
				before := w.dump()
				body := bodies()[rt.name]
				query := map[string]string{"delete-tenant": "?reason=x"}[rt.name]
				there := fill(path, things(names, &rt)) + query
				status := func(key, target string) reply {
					r := httptest.NewRequest(rt.method, target, strings.NewReader(body))
					r.RemoteAddr = "192.0.2.1:1"
					if body != "" {
						r.Header.Set("Content-Type", "application/json")
					}
					if key != "" {
						r.Header.Set("Authorization", "Bearer "+key)
					}
					return w.send(r)
				}
				for _, key := range []string{"", "grp_nobodys", admin + "x", strings.ToUpper(admin)} {
					r := status(key, there)
					if r.StatusCode != 401 || !strings.HasPrefix(r.Header.Get("WWW-Authenticate"), "Bearer") {
						t.Errorf("key %q: answered %d %v", key, r.StatusCode, r.Header)
					}
				}
				for _, s := range grapnel.Scopes() {
					if s != rt.scope && s != grapnel.ScopeAdmin && rt.scope != anyScope {
						if r := status(scoped(s), there); r.StatusCode != 403 || !strings.Contains(string(r.body), string(rt.scope)) {
							t.Errorf("scope %s: answered %d %s", s, r.StatusCode, r.body)
						}
					}
				}
				if strings.Contains(path, "{") {
					foreign := status(acmeAdmin, there)
					absent := status(acmeAdmin, fill(path, none)+query)
					refused := foreign.StatusCode == 403 && strings.HasPrefix(path, "/v1/tenants/") // whichever it is
					if foreign.StatusCode != 404 && !refused && (foreign.StatusCode != 409 || !strings.HasPrefix(path, "/v1/leases/")) {
						t.Errorf("another tenant's: answered %d %s", foreign.StatusCode, foreign.body)
					}
					if d := cmp.Diff(anonymous(t, absent), anonymous(t, foreign)); d != "" {
						t.Errorf("another tenant's and absent differ: %s", d)
					}
				}
				if d := cmp.Diff(before, w.dump()); d != "" {
					t.Errorf("something has changed: %s", d)
				}
				// That the request is good is what makes the refusals above mean something.
				if rt.method == http.MethodGet && rt.name != "stream" {
					right := rt.scope
					if right == anyScope {
						right = grapnel.ScopePublish
					}
					if r := status(scoped(right), there); r.StatusCode != 200 && rt.path != "/metrics" && rt.scope != grapnel.ScopeAdmin {
						t.Errorf("the right key: answered %d %s", r.StatusCode, r.body)
					}
				}
			})
		}
	}
}

// anonymous is an answer without the parts that differ in every answer.
func anonymous(t *testing.T, r reply) map[string]any {
	t.Helper()
	m := r.object(t)
	delete(m, "request_id")
	return m
}

// The bodies that the refusals above were tried with are good ones.
func TestBodiesOfTheAccessTestAreGood(t *testing.T) {
	for _, rt := range routes() {
		if body := bodies()[rt.name]; body != "" {
			w, names := prepared(t)
			target := fill(rt.path, things(names, &rt))
			if r := w.ask(admin, rt.method, target, body); r.StatusCode >= 300 {
				t.Errorf("%s: answered %d %s", rt.name, r.StatusCode, r.body)
			}
		}
	}
}

// TestIDsOfAnotherTenant: a tenant may use every id, also one that another tenant has used, and
// learns nothing of that.
func TestIDsOfAnotherTenant(t *testing.T) {
	w := newWorld(t)
	const globex = "grp_test_admin_of_globex"
	w.key("key_globex", globex, "globex", grapnel.ScopeAdmin)
	w.endpoint(globex, "")
	event := func(id string, data int) string { return fmt.Sprintf(`{"type":"a","id":"%s","data":%d}`, id, data) }
	for i, key := range []string{globex, acmeAdmin, admin} {
		for id, data := range map[string]int{"same": 1, "other": 1 + i} {
			if key == acmeAdmin {
				w.as(key, 404, "GET", "/v1/events/"+id, "")
			}
			first := w.as(key, 202, "POST", "/v1/events", event(id, data))
			if first["duplicate"] != false || first["deliveries"] != map[string]any{globex: 1.0, acmeAdmin: 0.0, admin: 0.0}[key] {
				t.Errorf("%s, for the first time with this key: %v", id, first)
			}
			if again := w.as(key, 200, "POST", "/v1/events", event(id, data)); again["duplicate"] != true {
				t.Errorf("%s again: %v", id, again)
			}
			w.as(key, 409, "POST", "/v1/events", event(id, 7))
			batch := `{"events":[` + event(id, data) + "," + event(id, 7) + "," + event(fmt.Sprint("batch_", id), i) + "]}"
			got := w.as(key, 202, "POST", "/v1/events/batch", batch)["data"].([]any)
			for j, want := range []map[string]any{{"duplicate": true}, {"status": 409.0}, {"duplicate": false}} {
				for name, value := range want {
					if one := got[j].(map[string]any); one[name] != value {
						t.Errorf("%s in a batch: %v, want %v", id, one, want)
					}
				}
			}
		}
	}
	for tenant, key := range map[string]string{"globex": globex, "acme": acmeAdmin, "default": admin} {
		named := "/v1/events/other?tenant=" + tenant
		all := []map[string]any{w.must(200, "GET", named, "")}
		if key != admin {
			all = append(all, w.as(key, 200, "GET", "/v1/events/other", ""))
			w.as(key, 404, "GET", "/v1/events/other?tenant=default", "")
		}
		for _, got := range all {
			if got["tenant"] != tenant || len(got["deliveries"].([]any)) != map[string]int{"globex": 1}[tenant] {
				t.Errorf("of %s: %v", tenant, got)
			}
		}
	}
	// A key that is bound to no tenant has to say whose it means.
	for _, target := range []string{"/v1/events/same", "/v1/inbox/same"} {
		p := w.must(422, "GET", target, "")
		at := p["errors"].([]any)[0].(map[string]any)
		if at["pointer"] != "?tenant" || !strings.Contains(at["detail"].(string), "must name a tenant") {
			t.Errorf("%s: %v", target, p)
		}
	}
}

func TestListsShowOnlyTheTenantsOwn(t *testing.T) {
	w := newWorld(t)
	w.endpoint(admin, "")
	w.endpoint(acmeAdmin, "")
	for _, key := range []string{admin, acmeAdmin} {
		w.as(key, 202, "POST", "/v1/events", `{"type":"a","data":1}`)
		w.as(key, 201, "POST", "/v1/policies", `{"name":"mine"}`)
	}
	for target, all := range map[string]int{"/v1/endpoints": 2, "/v1/events": 2, "/v1/deliveries": 2, "/v1/keys": 12,
		"/v1/policies": 2 + len(presets())} {
		mine, foreign := map[string]int{"/v1/keys": 6, "/v1/policies": 1 + len(presets())}[target], "?tenant=default"
		if mine == 0 {
			mine = 1
		}
		if n := len(w.must(200, "GET", target, "")["data"].([]any)); n != all {
			t.Errorf("%s: a key without tenant sees %d, want %d", target, n, all)
		}
		if n := len(w.as(acmeAdmin, 200, "GET", target, "")["data"].([]any)); n != mine {
			t.Errorf("%s: the tenant's key sees %d, want %d", target, n, mine)
		}
		if target == "/v1/keys" {
			continue
		}
		if n := len(w.as(acmeAdmin, 200, "GET", target+foreign, "")["data"].([]any)); n != mine-1 {
			t.Errorf("%s: asked for another tenant's, its key sees %d, want %d", target, n, mine-1)
		}
		if n := len(w.must(200, "GET", target+foreign, "")["data"].([]any)); n != all-1 {
			t.Errorf("%s: asked for one tenant's, a key without tenant sees %d, want %d", target, n, all-1)
		}
	}
}

func TestAuthorizationHeader(t *testing.T) {
	w := newWorld(t)
	for header, status := range map[string]int{
		"Bearer " + admin: 200, "bearer  " + admin: 200, "BEARER " + admin: 200, "Basic " + admin: 401, admin: 401, "Bearer": 401,
		"Bearer ": 401, "Bearer " + admin + " ": 401,
	} {
		if r := w.ask("", "GET", "/v1/keys", "", "Authorization", header); r.StatusCode != status {
			t.Errorf("%q: answered %d, want %d", header, r.StatusCode, status)
		}
	}
	r := httptest.NewRequest("GET", "/v1/keys", nil)
	r.Header["Authorization"] = []string{"Bearer " + admin, "Bearer " + acmeAdmin}
	if got := w.send(r); got.StatusCode != 401 {
		t.Errorf("two keys: answered %d", got.StatusCode)
	}
	r = httptest.NewRequest("GET", "/v1/keys?access_token="+admin, nil)
	if got := w.send(r); got.StatusCode != 401 {
		t.Errorf("a key in the query: answered %d", got.StatusCode)
	}
}

// Metrics need a key from wherever they are asked for, this machine included, unless the operator
// has opened them.
func TestMetricsNeedAKey(t *testing.T) {
	for _, open := range []bool{false, true} {
		w := newWorld(t, func(o *Options) {
			o.MetricsOpen = open
			o.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("grapnel_up 1\n")) })
		})
		for _, c := range []struct {
			from, key string
			status    int
		}{
			{"127.0.0.1:5", "", 401}, {"[::1]:5", "", 401}, {"192.0.2.1:5", "", 401}, {"nonsense", "", 401},
			{"192.0.2.1:5", scoped(grapnel.ScopeRead), 200}, {"192.0.2.1:5", scoped(grapnel.ScopePublish), 403}, {"192.0.2.1:5", acmeAdmin, 403},
		} {
			r := httptest.NewRequest("GET", "/metrics", nil)
			r.RemoteAddr = c.from
			if c.key != "" {
				r.Header.Set("Authorization", "Bearer "+c.key)
			}
			if got := w.send(r); open && got.StatusCode != 200 || !open && got.StatusCode != c.status {
				t.Errorf("open %v, %+v: answered %d", open, c, got.StatusCode)
			}
		}
	}
}

func TestMethodsThatAreNotThereAreListed(t *testing.T) {
	w := newWorld(t)
	for target, allow := range map[string]string{
		"/v1/endpoints": "GET, HEAD, POST", "/v1/endpoints/x": "GET, HEAD, PATCH, DELETE",
		"/v1/admin/webhook-endpoints/x": "GET, HEAD, PATCH, DELETE",
		"/webhooks/x/test":              "POST", "/livez": "GET, HEAD", "/v1/events/batch": "POST", "/v1/policies/simulate": "POST",
		"/v1/events?limit=5": "GET, HEAD, POST",
	} {
		for _, method := range []string{"PUT", "TRACE", "GET", "HEAD", "POST", "PATCH", "DELETE"} {
			if slices.Contains(strings.Split(allow, ", "), method) {
				continue
			}
			if r := w.ask("", method, target, ""); r.StatusCode != 405 || r.Header.Get("Allow") != allow {
				t.Errorf("%s %s: answered %d, Allow %q, want %q", method, target, r.StatusCode, r.Header.Get("Allow"), allow)
			}
		}
	}
}

func TestOtherPathsDoTheSame(t *testing.T) {
	for _, rt := range routes() {
		if paths := rt.paths(); strings.HasPrefix(rt.path, "/v1/endpoints") != (len(paths) >= 3) {
			t.Errorf("%s is found at %v", rt.path, paths)
		}
	}
	w := newWorld(t)
	id := w.as(admin, 201, "POST", "/v1/webhook-endpoints", `{"url":"https://a.example"}`)["id"].(string)
	if got := w.must(200, "PATCH", "/v1/admin/webhook-endpoints/"+id, `{"status":"paused"}`); got["status"] != "paused" {
		t.Errorf("answered %v", got)
	}
	w.must(200, "PATCH", "/v1/admin/webhook-endpoints/"+id, `{"status":"enabled"}`)
	first := w.must(200, "POST", "/webhooks/"+id+"/test", `{"type":"x.y","data":{"n":1}}`)
	second := w.must(200, "POST", "/v1/endpoints/"+id+"/test", "")
	var listed []string
	for _, d := range w.must(200, "GET", "/webhooks/"+id+"/deliveries", "")["data"].([]any) {
		listed = append(listed, d.(map[string]any)["id"].(string))
	}
	if !slices.Equal(listed, []string{second["id"].(string), first["id"].(string)}) {
		t.Errorf("listed %v, made %v and %v", listed, first["id"], second["id"])
	}
	w.must(200, "POST", "/v1/webhook-endpoints/"+id+"/deliveries/"+listed[0]+"/retry", "")
}
