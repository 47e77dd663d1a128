package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnelhq/grapnel"
)

// TestTenants: the list is of those that have anything, page by page, for keys of all tenants.
func TestTenants(t *testing.T) {
	w := newWorld(t)
	for _, tenant := range []string{"globex", "acme", "initech", "acme"} {
		w.must(201, "POST", "/v1/endpoints", fmt.Sprintf(`{"url":"https://a.example","tenant":%q}`, tenant))
	}
	var names []string
	for at := "/v1/tenants?limit=2"; at != ""; {
		page := w.must(200, "GET", at, "")
		for _, one := range page["data"].([]any) {
			names = append(names, one.(map[string]any)["tenant"].(string))
		}
		at = ""
		if next, more := page["next"].(string); more {
			at = "/v1/tenants?limit=2&cursor=" + next
		}
	}
	if got := strings.Join(names, " "); got != "acme globex initech" {
		t.Errorf("listed as %s", got)
	}
	if r := w.ask(acmeAdmin, "GET", "/v1/tenants", ""); r.StatusCode != 403 {
		t.Errorf("with a key of one tenant: answered %d %s", r.StatusCode, r.body)
	}
}

// A test of an endpoint is its tenant's, whatever key asks for it.
func TestTestIsOfTheEndpointsTenant(t *testing.T) {
	w := newWorld(t)
	ep := w.must(201, "POST", "/v1/endpoints", `{"url":"https://a.example","tenant":"acme"}`)
	w.must(200, "POST", "/v1/endpoints/"+ep["id"].(string)+"/test", `{}`)
	if d := w.only(); d.Tenant != "acme" {
		t.Errorf("it is a delivery of %s", d.Tenant)
	}
}

// TestTermsOfATenant: only the operator sets them, each by itself; null and 0 put the server's own
// setting back, and a tenant that has nothing yet can have terms.
func TestTermsOfATenant(t *testing.T) {
	const at = "/v1/tenants/acme"
	w := newWorld(t)
	if got := w.must(200, "GET", at, ""); got["publish_rate"] != nil || got["max_pending"] != nil || got["updated_at"] != nil {
		t.Error(got)
	}
	w.must(200, "PATCH", at, `{"publish_rate":{"per_second":2.5},"max_events_per_day":1000}`)
	got := w.must(200, "PATCH", at, `{"max_pending":7,"max_events_per_day":0}`)
	rate := got["publish_rate"].(map[string]any)
	if rate["per_second"] != 2.5 || rate["burst"] != 3.0 || got["max_pending"] != 7.0 || got["max_events_per_day"] != nil ||
		got["updated_at"] == nil {
		t.Error(got)
	}
	w.must(201, "POST", "/v1/endpoints", `{"url":"https://a.example","tenant":"acme"}`)
	if list := w.must(200, "GET", "/v1/tenants", "")["data"].([]any); len(list) != 1 || list[0].(map[string]any)["max_pending"] != 7.0 {
		t.Error(list)
	}
	got = w.must(200, "PATCH", at, `{"publish_rate":null,"max_pending":null}`)
	if got["publish_rate"] != nil || got["max_pending"] != nil {
		t.Error(got)
	}
	for _, wrong := range []string{`{"publish_rate":{"per_second":0}}`, `{"publish_rate":{"burst":3}}`, `{"max_pending":-1}`, `{"tenant":"b"}`} {
		if r := w.ask(admin, "PATCH", at, wrong); r.StatusCode != 422 {
			t.Errorf("%s: %d %s", wrong, r.StatusCode, r.body)
		}
	}
	for _, method := range []string{"GET", "PATCH"} {
		if r := w.ask(acmeAdmin, method, at, `{"max_pending":1}`[:map[string]int{"GET": 0, "PATCH": 17}[method]]); r.StatusCode != 403 {
			t.Errorf("%s by the tenant's own key: %d %s", method, r.StatusCode, r.body)
		}
	}
	w.must(404, "GET", "/v1/tenants/_operator", "")
}

// TestALimitOfATenantIsNamed: in the problem and in the header fields of
// draft-ietf-httpapi-ratelimit-headers-11.
func TestALimitOfATenantIsNamed(t *testing.T) {
	w := newWorld(t)
	w.engine.broken = &grapnel.Error{Code: grapnel.CodeRateLimited, Detail: "Too fast (publish_rate).", RetryAfter: 1500 * time.Millisecond,
		Quota: &grapnel.Quota{Name: "publish_rate", Most: 200, Window: 2 * time.Second, Left: 3}}
	r := w.ask(admin, "POST", "/v1/events", `{"type":"a","data":1}`)
	if got := r.object(t); r.StatusCode != 429 || got["code"] != "rate_limited" || got["detail"] != "Too fast (publish_rate)." {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	for name, want := range map[string]string{"Retry-After": "2", "RateLimit": `"publish_rate";r=3;t=2`,
		"RateLimit-Policy": `"publish_rate";q=200;qu="events";w=2`} {
		if got := r.Header.Get(name); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}

	// After a publish that is taken the fields say what is left, if the tenant has a limit.
	w.engine.broken = nil
	for _, quota := range []*grapnel.Quota{nil, {Name: "max_events_per_day", Most: 1000, Window: 24 * time.Hour, Left: 7}} {
		w.engine.quota = quota
		var policy, left string
		if quota != nil {
			policy, left = `"max_events_per_day";q=1000;qu="events";w=86400`, `"max_events_per_day";r=7`
		}
		for path, body := range map[string]string{"": `{"type":"a","data":1}`, "/batch": `{"events":[{"type":"a","data":1}]}`, "/raw?type=a": "1"} {
			r := w.ask(admin, "POST", "/v1/events"+path, body)
			if r.StatusCode/100 != 2 || r.Header.Get("RateLimit-Policy") != policy || r.Header.Get("RateLimit") != left {
				t.Errorf("%s: %d %v", path, r.StatusCode, r.Header)
			}
		}
	}
}

// TestTheProxyOfATenant: it may be at any address, no answer has its password, and a patch with the
// redacted one leaves it as it is.
func TestTheProxyOfATenant(t *testing.T) {
	const at, secret = "/v1/tenants/acme", "http://me:s3cret@10.0.0.7:3128"
	w := newWorld(t)
	hidden := w.must(200, "PATCH", at, `{"proxy":"`+secret+`"}`)["proxy"]
	if hidden != "http://me:[redacted]@10.0.0.7:3128" || w.must(200, "GET", at, "")["proxy"] != hidden {
		t.Error(hidden)
	}
	for _, same := range []string{`{"max_pending":7}`, `{"proxy":"http://me:[redacted]@10.0.0.7:3128"}`} {
		if got := w.must(200, "PATCH", at, same); got["proxy"] != hidden || w.engine.Terms("acme").Proxy.Text != secret {
			t.Errorf("%s: %v", same, got["proxy"])
		}
	}
	for _, wrong := range []string{"http://me:[redacted]@10.0.0.8:3128", "http://10.0.0.7", "socks5://10.0.0.7:1080"} {
		if r := w.ask(admin, "PATCH", at, `{"proxy":"`+wrong+`"}`); r.StatusCode != 422 || !strings.Contains(string(r.body), `"/proxy"`) {
			t.Errorf("%s: %d %s", wrong, r.StatusCode, r.body)
		}
	}
	if got := w.must(200, "PATCH", at, `{"proxy":null}`); got["proxy"] != nil || w.engine.Terms("acme").Proxy.Text != "" {
		t.Error(got)
	}
}

// TestANarrowedCallerIsABoundOne: with the header Grapnel-Tenant a caller of all tenants gets, on
// each route and about the things of another tenant, the answer that a key of the tenant gets.
func TestANarrowedCallerIsABoundOne(t *testing.T) {
	w, names := prepared(t)
	for _, rt := range routes() {
		for _, path := range rt.paths() {
			if rt.scope == "" || rt.name == "stream" {
				continue
			}
			there := fill(path, things(names, &rt)) + map[string]string{"delete-tenant": "?reason=x"}[rt.name]
			body := bodies()[rt.name]
			if rt.method != http.MethodGet && !strings.Contains(path, "{") {
				continue // it would create
			}
			bound, narrowed := w.ask(acmeAdmin, rt.method, there, body), w.ask(admin, rt.method, there, body, "Grapnel-Tenant", "acme")
			if bound.StatusCode != narrowed.StatusCode {
				t.Errorf("%s %s: %d bound, %d narrowed: %s", rt.method, there, bound.StatusCode, narrowed.StatusCode, narrowed.body)
			}
			if rt.name != "metrics" && rt.name != "whoami" {
				if d := cmp.Diff(anonymous(t, bound), anonymous(t, narrowed)); d != "" {
					t.Errorf("%s %s: %s", rt.method, there, d)
				}
			}
		}
	}
}

// TestTheTenantHeader: a bound caller cannot name another tenant, a wrong name is refused, new
// things belong to the tenant, and an idempotency key of one tenant is not answered with the
// other's result.
func TestTheTenantHeader(t *testing.T) {
	w := newWorld(t)
	const in = `{"url":"https://a.example"}`
	for name, status := range map[string]int{"acme": 201, "globex": 403, "": 403} {
		if r := w.ask(acmeAdmin, "POST", "/v1/endpoints", in, "Grapnel-Tenant", name); r.StatusCode != status {
			t.Errorf("bound to acme, %q: %d %s", name, r.StatusCode, r.body)
		}
	}
	for _, name := range []string{"", "_operator", "a b", "*"} {
		if r := w.ask(admin, "GET", "/v1/endpoints", "", "Grapnel-Tenant", name); r.StatusCode != 422 {
			t.Errorf("%q: %d %s", name, r.StatusCode, r.body)
		}
	}
	r := w.ask(admin, "POST", "/v1/endpoints", in, "Grapnel-Tenant", "globex", "Idempotency-Key", "one")
	if !strings.Contains(string(r.body), `"tenant":"globex"`) {
		t.Errorf("created: %s", r.body)
	}
	if r := w.ask(admin, "POST", "/v1/endpoints", in, "Grapnel-Tenant", "initech", "Idempotency-Key", "one"); r.StatusCode != 422 {
		t.Errorf("the same key for another tenant: %d %s", r.StatusCode, r.body)
	}
	const acmes = `{"url":"https://a.example","tenant":"acme"}`
	if r := w.ask(admin, "POST", "/v1/endpoints", acmes, "Grapnel-Tenant", "globex"); r.StatusCode != 422 {
		t.Errorf("another tenant in the body: %d %s", r.StatusCode, r.body)
	}
}

// TestNumbersOfTenants: a page has those of its tenants, and only when asked.
func TestNumbersOfTenants(t *testing.T) {
	w := newWorld(t)
	ids := map[string]string{}
	for _, tenant := range []string{"acme", "acme", "globex"} {
		is := w.must(201, "POST", "/v1/endpoints", fmt.Sprintf(`{"url":"https://a.example","tenant":%q,"event_types":["a"]}`, tenant))
		ids[tenant] = is["id"].(string)
	}
	w.engine.health[ids["acme"]] = grapnel.Health{State: grapnel.HealthOpen}
	w.engine.health[ids["globex"]] = grapnel.Health{State: grapnel.HealthHealthy}
	w.must(202, "POST", "/v1/events", `{"type":"a","tenant":"acme","data":1}`)
	first := func(target string) map[string]any {
		return w.must(200, "GET", target, "")["data"].([]any)[0].(map[string]any)
	}
	if got := first("/v1/tenants")["numbers"]; got != nil {
		t.Errorf("not asked for: %v", got)
	}
	got := first("/v1/tenants?numbers=true")["numbers"].(map[string]any)
	states := got["endpoints"].(map[string]any)
	if got["pending"] != 2.0 || got["dead_letters"] != 0.0 || got["active_at"] != nil || states["all"] != 2.0 || states["open"] != 1.0 {
		t.Errorf("acme: %v", got)
	}
	one := w.must(200, "GET", "/v1/tenants/globex?numbers=true", "")["numbers"].(map[string]any)
	if one["pending"] != 0.0 || one["endpoints"].(map[string]any)["healthy"] != 1.0 {
		t.Errorf("globex: %v", one)
	}
}
