package api

import (
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
)

// link makes a portal link of acme and returns its address and its code.
func (w *world) link(body string) (at, code string) {
	w.t.Helper()
	url := w.as(acmeAdmin, 201, "POST", "/v1/tenants/acme/portal-links", body)["url"].(string)
	at, code, ok := strings.Cut(url, "#")
	if !ok || !strings.HasPrefix(code, "grpass_") {
		w.t.Fatalf("the link is %s", url)
	}
	return at, code
}

var linkMade = regexp.MustCompile(`^link lnk_[0-9a-z]{26} for portal$`)

// A code opens the portal once, however many try at the same time.
func TestALinkOpensOnce(t *testing.T) {
	w := newWorld(t)
	at, code := w.link(`{"scopes":["read"],"subject":"jane"}`)
	if at != "http://localhost/portal" {
		t.Errorf("the link leads to %s", at)
	}
	var opened atomic.Int64
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			switch r := w.ask(code, "POST", "/v1/portal-sessions", ""); r.StatusCode {
			case http.StatusCreated:
				opened.Add(1)
			case http.StatusUnauthorized:
			default:
				t.Errorf("answered %d %s", r.StatusCode, r.body)
			}
		})
	}
	all.Wait()
	if opened.Load() != 1 {
		t.Errorf("it opened %d times", opened.Load())
	}
	for range 2 {
		if r := w.ask(code, "POST", "/v1/portal-sessions", "", "Idempotency-Key", "again"); r.StatusCode != 401 ||
			!strings.Contains(string(r.body), "opened before") {
			t.Errorf("again: answered %d %s", r.StatusCode, r.body)
		}
	}
	w.as(code, 403, "GET", "/v1/endpoints", "")
}

func TestALinkThatDoesNotOpen(t *testing.T) {
	for name, spoil := range map[string]func(w *world, code string) string{
		"expired": func(w *world, code string) string { w.clock = w.clock.Add(5 * time.Minute); return code },
		"tampered": func(_ *world, code string) string {
			middle := len(code) / 2
			other := "A"
			if code[middle] == 'A' {
				other = "B"
			}
			return code[:middle] + other + code[middle+1:]
		},
		"revoked": func(w *world, code string) string {
			w.as(acmeAdmin, 204, "DELETE", "/v1/tenants/acme/portal-links", "")
			return code
		},
	} {
		w := newWorld(t)
		_, code := w.link(`{"expires_in":"5m"}`)
		code = spoil(w, code)
		if r := w.ask(code, "POST", "/v1/portal-sessions", ""); r.StatusCode != 401 {
			t.Errorf("%s: answered %d %s", name, r.StatusCode, r.body)
		}
	}
	w := newWorld(t)
	w.as(admin, 403, "POST", "/v1/portal-sessions", "")
	w.as(w.pass(portalScopes), 403, "POST", "/v1/portal-sessions", "")
}

// The session of a link has the link's scopes, endpoints and time, and nothing more.
func TestASessionIsWhatItsLinkSays(t *testing.T) {
	w := newWorld(t)
	mine := w.settle(acmeAdmin, "mine")
	w.settle(acmeAdmin, "stranger")
	_, code := w.link(`{"scopes":["read","payload:read"],"session":"10m","endpoints":["` + mine.endpoint + `"],"subject":"jane"}`)
	s := w.as(code, 201, "POST", "/v1/portal-sessions", "")
	me := s["pass"].(string)
	who := w.as(me, 200, "GET", "/v1/whoami", "")
	if who["id"] != "portal/jane" || len(who["scopes"].([]any)) != 2 || who["endpoints"].([]any)[0] != mine.endpoint {
		t.Errorf("it is %v", who)
	}
	if n := len(w.as(me, 200, "GET", "/v1/endpoints", "")["data"].([]any)); n != 1 {
		t.Errorf("it sees %d endpoints", n)
	}
	w.as(me, 403, "POST", "/v1/endpoints/"+mine.endpoint+"/resume", "")
	w.clock = w.clock.Add(10 * time.Minute)
	w.as(me, 401, "GET", "/v1/endpoints", "")
}

func TestWhoMakesLinks(t *testing.T) {
	w := newWorld(t)
	stranger := w.settle(admin, "stranger")
	for key, status := range map[string]int{admin: 201, acmeAdmin: 201,
		scoped(grapnel.ScopeManage) + "_acme": 403, // it cannot read, and read is the default
		scoped(grapnel.ScopeRead) + "_acme":   403, w.pass(portalScopes): 403} {
		w.as(key, status, "POST", "/v1/tenants/acme/portal-links", "")
	}
	w.as(acmeAdmin, 404, "POST", "/v1/tenants/globex/portal-links", "")
	for _, id := range []string{stranger.endpoint, "ep_none"} {
		p := w.as(acmeAdmin, 422, "POST", "/v1/tenants/acme/portal-links", `{"endpoints":["`+id+`"]}`)
		if at := p["errors"].([]any)[0].(map[string]any); at["pointer"] != "/endpoints/0" || at["detail"] != "endpoint not found" {
			t.Errorf("%v", p)
		}
	}
	// A list that came out empty by mistake must not open all endpoints.
	w.as(acmeAdmin, 422, "POST", "/v1/tenants/acme/portal-links", `{"endpoints":[]}`)
	w.as(acmeAdmin, 422, "POST", "/v1/tenants/acme/portal-links", `{"locale":"de_DE"}`)
	if strings.Contains(w.logged.String(), "grpass_") {
		t.Error("a code is in the log")
	}
	got := w.must(200, "GET", "/v1/audit?tenant=acme", "")["data"].([]any)[0].(map[string]any)
	if !linkMade.MatchString(got["reason"].(string)) {
		t.Errorf("the audit says %v", got)
	}
}

// Settings of a portal are put into style sheets and headers: whatever could mean more there than a
// colour or an origin is refused.
func TestSettingsOfAPortal(t *testing.T) {
	w := newWorld(t)
	const at = "/v1/tenants/acme/portal"
	logo := "data:image/png;base64,iVBORw0KGgo="
	got := w.as(acmeAdmin, 200, "PATCH", at, `{"name":"Acme","accent":"#AA00ff","frame_ancestors":["https://app.acme.example"],"logo":"`+logo+`"}`)
	if got["accent"] != "#aa00ff" || got["logo"] != logo || got["name"] != "Acme" {
		t.Errorf("set to %v", got)
	}
	before := w.dump()
	for _, bad := range []string{
		`{"accent":"#fff;}body{display:none"}`, `{"accent":"red"}`, `{"accent":"#gggggg"}`, `{"accent":"url(//x)"}`,
		`{"frame_ancestors":["*"]}`, `{"frame_ancestors":["https:"]}`, `{"frame_ancestors":["http://a.example"]}`,
		`{"frame_ancestors":["https://a.example; script-src *"]}`, `{"frame_ancestors":["https://a.example 'self'"]}`,
		`{"frame_ancestors":["https://*"]}`, `{"frame_ancestors":["https://a.example/"]}`, `{"frame_ancestors":["https://a.example\nX: y"]}`,
		`{"logo":"https://a.example/logo.png"}`, `{"logo":"data:image/svg+xml;base64,PHN2Zz4="}`, `{"logo":"data:image/png;base64,PHN2Zz4="}`,
		`{"logo":"data:image/png;base64,x\"><script>"}`, `{"name":"a\nb"}`, `{"name":"` + strings.Repeat("a", 61) + `"}`, `{"css":"x"}`,
	} {
		if r := w.ask(acmeAdmin, "PATCH", at, bad); r.StatusCode != 422 {
			t.Errorf("%s: answered %d %s", bad, r.StatusCode, r.body)
		}
	}
	if before != w.dump() {
		t.Error("something has changed")
	}
	if url, _ := w.link(""); !strings.HasPrefix(url, "http://localhost/portal?of=") {
		t.Errorf("the link of a portal that can be framed is %s", url)
	}
	if got := w.as(w.pass(portalScopes, "ep_1"), 200, "GET", at, ""); got["name"] != "Acme" {
		t.Errorf("the portal itself sees %v", got)
	}
	w.as(w.pass(portalScopes), 403, "PATCH", at, `{"name":"Mine"}`)
	w.as(w.pass(portalScopes), 404, "GET", "/v1/tenants/globex/portal", "")
	if got := w.as(acmeAdmin, 200, "PATCH", at, `{"accent":null,"frame_ancestors":null}`); got["accent"] != nil || got["name"] != "Acme" {
		t.Errorf("set back to %v", got)
	}
}
