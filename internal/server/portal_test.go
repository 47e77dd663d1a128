package server

import (
	"fmt"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/web"
)

// openPortal has a browser open the portal of a tenant by a link with all scopes.
func (b *browser) openPortal(tenant string, endpoints ...string) {
	b.t.Helper()
	c, err := client.New(client.Options{Server: b.base, Key: testKey})
	if err != nil {
		b.t.Fatal(err)
	}
	link, err := c.CreatePortalLink(b.t.Context(), tenant, client.NewPortalLink{Endpoints: endpoints, Subject: "jane", Scopes: []grapnel.Scope{
		grapnel.ScopeRead, grapnel.ScopeReplay, grapnel.ScopeEndpointsWrite, grapnel.ScopeSecretsReveal, grapnel.ScopePayloadRead,
		grapnel.ScopeAlertsRead}})
	if err != nil {
		b.t.Fatal(err)
	}
	_, code, _ := strings.Cut(link.URL, "#")
	for i, want := range []int{200, 401} { // the second use is refused
		status, header, body := b.ask("POST", "/portal/open", url.Values{"code": {code}})
		if status != want || strings.Contains(body, "grpass_") {
			b.t.Fatalf("use %d of a link: answered %d %s", i+1, status, body)
		}
		cookie := header.Get("Set-Cookie")
		if i == 0 && (!strings.HasPrefix(cookie, "grapnel_portal=grpass_") || !strings.Contains(cookie, "; HttpOnly; SameSite=Lax")) {
			b.t.Errorf("the cookie is %s", cookie)
		}
	}
}

// sibling gives the tenant another endpoint, with texts that a portal without it may not show.
func sibling(t *testing.T, s running, key, first string) owned {
	t.Helper()
	c, err := client.New(client.Options{Server: s.URL(), Key: key})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.UpdateEndpoint(t.Context(), first,
		map[string]any{"event_types": []string{"a.b"}}); err != nil { // it wants nothing of the other's
		t.Fatal(err)
	}
	ep, err := c.CreateEndpoint(t.Context(), client.NewEndpoint{URL: "http://127.0.0.1:9/sibling", Description: "endpoint-of-sibling",
		Status: grapnel.EndpointPaused, EventTypes: []string{"sibling.only"}})
	if err != nil {
		t.Fatal(err)
	}
	ev, err := c.Publish(t.Context(), client.NewEvent{Type: "sibling.only", Key: "key-sibling", Data: []byte(`{"text":"secret-sibling"}`)})
	if err != nil {
		t.Fatal(err)
	}
	found, err := c.Deliveries(t.Context(), client.DeliveryFilter{Endpoint: ep.ID})
	if err != nil || len(found.Data) != 1 {
		t.Fatal(found, err)
	}
	o := owned{ep: ep.ID, dlv: found.Data[0].ID, evt: ev.ID, rpl: "rpl_none", typ: "typ_none", iss: s.issue(t, "acme", ep.ID),
		alr: alertOf(t, s, "acme", ep.ID)}
	o.ids = []string{ep.ID, o.dlv, o.evt, o.iss, o.alr}
	o.texts = []string{"endpoint-of-sibling", "key-sibling", "secret-sibling", "127.0.0.1:9/sibling", "sibling.only"}
	o.state = func() string {
		now, err := c.Endpoint(t.Context(), ep.ID)
		if err != nil {
			t.Fatal(err)
		}
		found, err := c.Deliveries(t.Context(), client.DeliveryFilter{Endpoint: ep.ID})
		if err != nil {
			t.Fatal(err)
		}
		iss, err := c.Issue(t.Context(), o.iss)
		if err != nil {
			t.Fatal(err)
		}
		return string(now.JSON()) + string(found.JSON()) + fmt.Sprint(iss.State, iss.Owner, iss.Note)
	}
	return o
}

// TestPortalsSeeTheirOwnOnly: on every page and action of the portal, with the ids of another
// tenant and, for a portal that is limited to an endpoint, of another endpoint of its tenant, the
// answer is that of a thing that does not exist. With its own ids every page opens.
func TestPortalsSeeTheirOwnOnly(t *testing.T) {
	s := start(t, still(t))
	acme, globex := own(t, s, "acme"), own(t, s, "globex")
	other := sibling(t, s, acme.key, acme.ep)
	nobody := owned{ep: "ep_none", dlv: "dlv_none", evt: "evt_none", rpl: "rpl_none", typ: "typ_none", iss: "iss_none",
		alr: "alr_none"}
	for name, portal := range map[string]struct {
		limit   []string
		foreign []owned
	}{"tenant": {nil, []owned{globex}}, "endpoint": {[]string{acme.ep}, []owned{globex, other}}} {
		b := newBrowser(t, s.URL())
		b.openPortal("acme", portal.limit...)
		token := b.token("/portal/endpoints")
		for _, row := range web.PortalPaths() {
			method, pattern, _ := strings.Cut(row, " ")
			mine := acme.fillPortal(pattern)
			if method == "GET" && !(portal.limit != nil && (strings.HasSuffix(mine, "/endpoints/new") || strings.Contains(mine, "/contacts"))) {
				if status, _, body := b.ask("GET", mine, nil); status != 200 || strings.Contains(body, "<nav aria-label=\"Pages\"><a class=\"mark\"") {
					t.Errorf("%s: %s: answered %d %s", name, mine, status, body)
				}
			}
			absent := nobody.fillPortal(pattern)
			for _, foreign := range portal.foreign {
				at := foreign.fillPortal(pattern)
				hidden := slices.Concat(foreign.ids, foreign.texts)
				clean := func(what, body string) {
					t.Helper()
					for _, text := range hidden {
						if strings.Contains(body, text) && !strings.Contains(what, text) {
							t.Errorf("%s: %s shows %s", name, what, text)
						}
					}
				}
				if method == "GET" {
					for _, query := range []string{"", "?format=json", "?q=tenant%3Aglobex", "?q=endpoint%3A" + foreign.ep,
						"?q=text", "?endpoint=" + foreign.ep, "?cursor=x"} {
						status, _, body := b.ask("GET", at+query, nil)
						none, _, _ := b.ask("GET", absent+query, nil)
						if at != mine && status != 404 && foreign.typ != "typ_none" || status != none {
							t.Errorf("%s: %s%s: answered %d, absent %d", name, at, query, status, none)
						}
						clean(at+query, body)
					}
					continue
				}
				before := foreign.state()
				form := url.Values{"token": {token}, "back": {"/endpoints"}, "id": {foreign.dlv}, "once": {"x"}, "was": {`{"description":""}`},
					"order": {`{"endpoint":"` + foreign.ep + `","replay":{}}`}, "description": {"changed"}, "confirm": {path.Base(at)}}
				status, _, body := b.ask("POST", at, form)
				if status < 400 {
					t.Errorf("%s: POST %s: answered %d %s", name, at, status, body)
				}
				clean("POST "+at+foreign.dlv+foreign.ep, body)
				if now := foreign.state(); now != before {
					t.Errorf("%s: POST %s changed something:\n%s\nwas\n%s", name, at, now, before)
				}
			}
		}
		if status, _, body := b.ask("POST", "/portal/endpoints/"+acme.ep+"/test", url.Values{"token": {token},
			"back": {"/endpoints"}}); status != 303 {
			t.Errorf("%s: its own endpoint: answered %d %s", name, status, body)
		}
		if status, _, _ := b.ask("POST", "/portal/endpoints/"+acme.ep+"/pause", url.Values{"back": {"/endpoints"}}); status != 403 {
			t.Errorf("%s: a form without its token: answered %d", name, status)
		}
		// A portal opens neither the dashboard nor the API by its cookie.
		for _, elsewhere := range []string{"/deliveries", "/keys", "/audit"} {
			if status, header, _ := b.ask("GET", elsewhere, nil); status != 303 || !strings.HasPrefix(header.Get("Location"), "/login") {
				t.Errorf("%s: %s: answered %d", name, elsewhere, status)
			}
		}
		if status, _, _ := b.ask("GET", "/v1/endpoints", nil); status != 401 {
			t.Errorf("%s: the API takes the cookie: %d", name, status)
		}
	}
}

// fillPortal is fill below the portal's path.
func (o *owned) fillPortal(pattern string) string {
	return "/portal" + o.fill(strings.TrimPrefix(pattern, "/portal"))
}

// TestPortalEndsWhenItsLinksAreRevoked: also a session that is open.
func TestPortalEndsWhenItsLinksAreRevoked(t *testing.T) {
	s := start(t, still(t))
	acme := own(t, s, "acme")
	b := newBrowser(t, s.URL())
	b.openPortal("acme")
	if status, _, _ := b.ask("GET", "/portal/endpoints", nil); status != 200 {
		t.Fatal(status)
	}
	c, err := client.New(client.Options{Server: s.URL(), Key: acme.key})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.RevokePortalLinks(t.Context(), "acme", "lost"); err != nil {
		t.Fatal(err)
	}
	if status, _, body := b.ask("GET", "/portal/endpoints", nil); status != 401 || !strings.Contains(body, "session has ended") {
		t.Errorf("after its links were revoked: answered %d %s", status, body)
	}
	b.openPortal("acme") // a new link opens it again
}

// TestPortalSurvivesARestart: and a link that was used before it stays used.
func TestPortalSurvivesARestart(t *testing.T) {
	o := options(t.TempDir())
	o.AdminKey, o.Listen = testKey, steady
	s := start(t, o)
	b := newBrowser(t, s.URL())
	c, err := client.New(client.Options{Server: s.URL(), Key: testKey})
	if err != nil {
		t.Fatal(err)
	}
	link, err := c.CreatePortalLink(t.Context(), "acme", client.NewPortalLink{})
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(link.URL, "#")
	if status, _, body := b.ask("POST", "/portal/open", url.Values{"code": {code}}); status != 200 {
		t.Fatal(status, body)
	}
	o.Listen = strings.TrimPrefix(s.URL(), "http://")
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	b.http.CloseIdleConnections()
	start(t, o)
	if status, _, _ := b.ask("GET", "/portal/endpoints", nil); status != 200 {
		t.Errorf("after a restart: answered %d", status)
	}
	if status, _, body := b.ask("POST", "/portal/open", url.Values{"code": {code}}); status != 401 {
		t.Errorf("a link that was used before a restart: answered %d %s", status, body)
	}
}

// TestHeadersOfThePortal: a page may be framed by the origins of its tenant's portal only, and only
// the page that opens it.
func TestHeadersOfThePortal(t *testing.T) {
	o := options(t.TempDir())
	o.AdminKey = testKey
	s := start(t, o)
	b := newBrowser(t, s.URL())
	c, err := client.New(client.Options{Server: s.URL(), Key: testKey})
	if err != nil {
		t.Fatal(err)
	}
	const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
		"form-action 'self'; base-uri 'none'; frame-ancestors %s"
	check := func(path, frames string) {
		t.Helper()
		_, h, body := b.ask("GET", path, nil)
		got := fmt.Sprintln(h.Get("Content-Security-Policy"), h.Get("X-Frame-Options"),
			h.Get("Referrer-Policy"), h.Get("X-Content-Type-Options"), h.Get("Cache-Control"))
		deny := map[bool]string{true: "DENY"}[frames == "'none'"]
		if want := fmt.Sprintln(fmt.Sprintf(policy, frames), deny, "same-origin", "nosniff", "no-store"); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
		if strings.Contains(body, "grpass_") || strings.Contains(body, "<script>") || strings.Contains(body, "style=") {
			t.Errorf("%s has a pass, or a script or style in the page: %s", path, body)
		}
	}
	check("/portal", "'none'")
	check("/portal?of=nonsense", "'none'")
	if _, err := c.UpdatePortal(t.Context(), "acme", map[string]any{"frame_ancestors": []string{"https://app.acme.example", "https://*.acme.example:8443"},
		"accent": "#7a1fa2", "name": "</title><script>alert(1)</script>"}); err != nil {
		t.Fatal(err)
	}
	link, err := c.CreatePortalLink(t.Context(), "acme", client.NewPortalLink{ReturnURL: "https://app.acme.example/"})
	if err != nil {
		t.Fatal(err)
	}
	at, code, _ := strings.Cut(strings.TrimPrefix(link.URL, s.URL()), "#")
	check(at, "https://app.acme.example https://*.acme.example:8443")
	status, header, body := b.ask("POST", "/portal/open", url.Values{"code": {code}, "frame": {"1"}})
	if status != 200 || header.Get("Set-Cookie") != "" || !strings.Contains(body, `"pass":"grpass_`) {
		t.Errorf("in a frame: answered %d %v %s", status, header, body)
	}
	b.openPortal("acme")
	check("/portal/endpoints", "'none'")
	for query, want := range map[string]int{"7a1fa2": 200, "red": 404, "7a1fa2;}": 404, "": 404} {
		if status, _, body := b.ask("GET", "/portal/accent.css?c="+url.QueryEscape(query), nil); status != want {
			t.Errorf("accent %q: answered %d %s", query, status, body)
		}
	}
	rq, err := http.NewRequestWithContext(t.Context(), "POST", s.URL()+"/portal/open", strings.NewReader("code=grpass_x"))
	if err != nil {
		t.Fatal(err)
	}
	rq.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	rq.Header.Set("Origin", "https://evil.example")
	resp, err := b.http.Do(rq)
	if err != nil || resp.StatusCode != 403 {
		t.Error("another site may open a portal here", resp, err)
	}
	_ = resp.Body.Close()
	if _, _, body := b.ask("GET", "/portal.js", nil); len(body) > 3<<10 || !strings.Contains(body, "grapnel-portal") {
		t.Errorf("the loader has %d bytes", len(body))
	}
}

var formOnce = regexp.MustCompile(`name="once" value="([^"]+)"`)

// TestAFormOfThePortalCanBeMended: a refused form is drawn again with the texts typed in, and works
// when its fault is gone. The secret is shown once, and only to a link that may see it.
func TestAFormOfThePortalCanBeMended(t *testing.T) {
	o := options(t.TempDir())
	o.AdminKey = testKey
	s := start(t, o)
	b := newBrowser(t, s.URL())
	b.openPortal("acme")
	form := url.Values{"token": {b.token("/portal/endpoints/new")}, "back": {"/endpoints"}, "once": {"first"}, "url": {"not a url"},
		"description": {"mine"}}
	status, _, body := b.ask("POST", "/portal/endpoints/new", form)
	once := formOnce.FindStringSubmatch(body)
	if status != 422 || once == nil || !strings.Contains(body, `value="not a url"`) {
		t.Fatalf("a wrong URL: answered %d %s", status, body)
	}
	form.Set("once", once[1])
	form.Set("url", "http://127.0.0.1:9/mine")
	status, _, body = b.ask("POST", "/portal/endpoints/new", form)
	if status != 200 || !strings.Contains(body, "whsec_") {
		t.Errorf("the mended form: answered %d %s", status, body)
	}
	// Fields that the portal's form does not have are left out if a browser adds them.
	form.Set("once", "other")
	form.Set("policy", "hooque")
	form.Set("tenant", "globex")
	if status, _, body = b.ask("POST", "/portal/endpoints/new", form); status != 200 {
		t.Errorf("with fields that the page has not: answered %d %s", status, body)
	}
	c, err := client.New(client.Options{Server: s.URL(), Key: testKey})
	if err != nil {
		t.Fatal(err)
	}
	all, err := c.Endpoints(t.Context(), client.EndpointFilter{})
	if err != nil || len(all.Data) != 2 {
		t.Fatal(all, err)
	}
	for _, ep := range all.Data {
		if ep.Tenant != "acme" || string(ep.Policy) != `"default"` {
			t.Errorf("made %s of %s with policy %s", ep.ID, ep.Tenant, ep.Policy)
		}
	}
	audit, err := c.Audit(t.Context(), client.AuditFilter{Endpoint: all.Data[0].ID})
	if err != nil || audit.Data[0].Actor != "portal/jane" {
		t.Errorf("the audit says %v, %v", audit, err)
	}
}
