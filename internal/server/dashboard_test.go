package server

import (
	"bufio"
	"context"
	"fmt"
	"html"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/web"
)

// TestSessionsSeeTheirTenantOnly: whatever page or action a session asks for, and whatever ids it
// names, it sees nothing of another tenant and changes nothing there. With its own ids the same
// requests work, so the refusals mean something.
func TestSessionsSeeTheirTenantOnly(t *testing.T) {
	s := start(t, still(t))
	acme, globex := own(t, s, "acme"), own(t, s, "globex")
	b := newBrowser(t, s.URL())
	b.signIn(acme.key)
	token := b.token("/")
	before := globex.state()
	hidden := slices.Concat(globex.ids, globex.texts)
	leaks := func(what, body string, but ...string) {
		for _, text := range hidden {
			if !slices.Contains(but, text) && strings.Contains(body, text) {
				t.Errorf("%s shows %s of another tenant", what, text)
			}
		}
	}
	for _, row := range web.Paths() {
		method, pattern, _ := strings.Cut(row, " ")
		foreign, mine := globex.fill(pattern), acme.fill(pattern)
		if method == "GET" {
			for _, variant := range []string{"", "?format=json", "?q=tenant%3Aglobex", "?q=endpoint%3A" + globex.ep, "?q=key%3Akey-globex", "?cursor=x"} {
				status, _, body := b.ask("GET", foreign+variant, nil)
				if foreign != mine && status != 404 {
					t.Errorf("%s%s: answered %d", foreign, variant, status)
				}
				// but for what the request named
				leaks(foreign+variant, body, globex.ep, "key-globex", globex.dlv, globex.evt, globex.rpl,
					globex.src, globex.req, globex.que, globex.chn, globex.pol, globex.typ, globex.iss)
			}
			if strings.HasPrefix(pattern, "/customers") {
				if status, _, _ := b.ask("GET", mine, nil); status != 404 {
					t.Errorf("%s: answered %d", mine, status)
				}
				continue
			}
			if slices.Contains(forAdmins, pattern) {
				if status, _, _ := b.ask("GET", mine, nil); status != 403 {
					t.Errorf("%s: answered %d", mine, status)
				}
				continue
			}
			if status, _, body := b.ask("GET", mine, nil); status != 200 || !strings.Contains(body, "acme") {
				t.Errorf("%s: answered %d %s", mine, status, body)
			}
			continue
		}
		form := url.Values{"token": {token}, "back": {"/"}, "id": {globex.dlv}, "once": {"x"}, "order": {`{"endpoint":"` + globex.ep + `","replay":{}}`}}
		// A form with a change in it, and the word that confirms it.
		form.Set("was", `{"description":"","name":""}`)
		form.Set("name", "changed by acme")
		form.Set("description", "changed by acme")
		for name, value := range map[string]string{"type": "a.b", "data": "{}", "endpoint": globex.ep, "then": "send"} { // of the playground
			form.Set(name, value)
		}
		form.Set("confirm", path.Base(foreign))
		if strings.HasPrefix(foreign, "/queues/") {
			form.Set("confirm", "queue-of-globex")
		}
		status, _, body := b.ask("POST", foreign, form)
		want := 404
		switch {
		// for keys with the scope admin only
		case strings.HasPrefix(foreign, "/keys/"), strings.HasPrefix(foreign, "/incidents/"), foreign == "/sessions/end", foreign == "/contacts/sender":
			want = 403
		case foreign == mine && strings.HasSuffix(foreign, "/new"): // it would create something of acme, and lacks a field
			want = 422
		}
		if status != want {
			t.Errorf("POST %s: answered %d %s", foreign, status, body)
		}
		leaks("POST "+foreign, body, globex.ep, globex.dlv, globex.evt, globex.rpl, globex.src, globex.que, globex.chn,
			globex.keyID, globex.typ, globex.pol, globex.iss)
		if now := globex.state(); now != before {
			t.Errorf("POST %s changed something of another tenant:\n%s\nwas\n%s", foreign, now, before)
			before = now
		}
	}
	form := url.Values{"token": {token}, "back": {"/endpoints"}}
	if status, header, body := b.ask("POST", "/endpoints/"+acme.ep+"/resume", form); status != 303 || header.Get("Location") != "/endpoints" {
		t.Errorf("its own endpoint: answered %d %s", status, body)
	}
	for _, path := range []string{
		"/sources/" + acme.src + "/pause", "/queues/" + acme.que + "/pause",
		"/sources/" + acme.src + "/resume", "/queues/" + acme.que + "/resume",
	} {
		was := acme.state()
		if status, _, body := b.ask("POST", path, form); status != 303 || acme.state() == was {
			t.Errorf("%s: answered %d %s", path, status, body)
		}
	}
}

// TestSessionEndsWithItsKey: a page asks the API with the key, so a session may what its key may.
func TestSessionEndsWithItsKey(t *testing.T) {
	s := start(t, still(t))
	acme := own(t, s, "acme")
	b := newBrowser(t, s.URL())
	b.signIn(acme.key)
	if status, _, _ := b.ask("GET", "/", nil); status != 200 {
		t.Fatalf("answered %d", status)
	}
	admin, err := client.New(client.Options{Server: s.URL(), Key: testKey})
	if err != nil {
		t.Fatal(err)
	}
	if err := admin.DeleteKey(t.Context(), acme.ids[1]); err != nil {
		t.Fatal(err)
	}
	if status, header, _ := b.ask("GET", "/", nil); status != 303 || header.Get("Location") != "/login" {
		t.Errorf("after its key was revoked: answered %d to %s", status, header.Get("Location"))
	}
}

// TestSessionSurvivesARestart: the cookie is sealed with the session key.
func TestSessionSurvivesARestart(t *testing.T) {
	o := options(t.TempDir())
	o.AdminKey, o.Listen = testKey, steady
	s := start(t, o)
	b := newBrowser(t, s.URL())
	b.signIn(testKey)
	o.Listen = strings.TrimPrefix(s.URL(), "http://")
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	b.http.CloseIdleConnections()
	start(t, o)
	if status, _, _ := b.ask("GET", "/", nil); status != 200 {
		t.Errorf("after a restart: answered %d", status)
	}
}

// TestLivePage: a page that is open shows what happens, and a server that drains ends it.
func TestLivePage(t *testing.T) {
	s := start(t, still(t))
	acme := own(t, s, "acme")
	b := newBrowser(t, s.URL())
	b.signIn(acme.key)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	rq, err := http.NewRequestWithContext(ctx, "GET", s.URL()+"/deliveries", nil)
	if err != nil {
		t.Fatal(err)
	}
	rq.Header.Set("Accept", "text/event-stream")
	resp, err := b.http.Do(rq)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("answered %d %v", resp.StatusCode, resp.Header)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	until := func(want string) bool {
		for lines.Scan() {
			if strings.Contains(lines.Text(), want) {
				return true
			}
		}
		return false
	}
	if !until("key-acme") {
		t.Fatal("the stream ended before the page came")
	}
	c, err := client.New(client.Options{Server: s.URL(), Key: acme.key})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Publish(ctx, client.NewEvent{Type: "just.now", Data: []byte(`{}`)}); err != nil {
		t.Fatal(err)
	}
	if !until("just.now") {
		t.Fatal("the stream ended before the new delivery came")
	}
	if err := s.stop(); err != nil {
		t.Errorf("draining with a live page: %v", err)
	}
	for lines.Scan() { // it ends, or the test's own time does
		continue
	}
	if ctx.Err() != nil {
		t.Error("the stream did not end with the server")
	}
}

// TestDashboardBelowAPath: behind a proxy that serves the server below a path, every address in a
// page and every redirect stays below it.
func TestDashboardBelowAPath(t *testing.T) {
	const prefix = "/Hooks/grapnel"
	for name, says := range map[string]bool{"--public-url": false, "X-Forwarded-Prefix": true} {
		t.Run(name, func(t *testing.T) {
			var s running
			front := stripping(t, prefix, says, func() string { return s.URL() })
			o := still(t)
			if says {
				o.Proxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
			} else {
				public, err := url.Parse(front.URL + prefix)
				if err != nil {
					t.Fatal(err)
				}
				o.PublicURL = public
			}
			s = start(t, o)
			acme := own(t, s, "acme")
			b := newBrowser(t, front.URL+prefix)
			if _, header, _ := b.ask("GET", "/deliveries", nil); header.Get("Location") != prefix+"/login?next=%2Fdeliveries" {
				t.Errorf("the sign-in is at %s", header.Get("Location"))
			}
			b.signIn(testKey) // which may see all pages
			address := regexp.MustCompile(`(?:href|src|action)="([^"#][^"]*)"`)
			for _, row := range web.Paths() {
				method, pattern, _ := strings.Cut(row, " ")
				if method != "GET" {
					continue
				}
				status, _, body := b.ask("GET", acme.fill(pattern), nil)
				if status != 200 {
					t.Errorf("%s: answered %d", pattern, status)
				}
				for _, found := range address.FindAllStringSubmatch(body, -1) {
					if !strings.HasPrefix(found[1], prefix+"/") {
						t.Errorf("%s has the address %s", pattern, found[1])
					}
				}
			}
			form := url.Values{"token": {b.token("/")}, "back": {"/endpoints?x=1"}}
			if status, header, _ := b.ask("POST", "/endpoints/"+acme.ep+"/resume", form); status != 303 || header.Get("Location") != prefix+"/endpoints?x=1" {
				t.Errorf("an action: answered %d to %s", status, header.Get("Location"))
			}
			style := regexp.MustCompile(`href="` + prefix + `(/assets/app.css[^"]*)"`)
			_, _, body := b.ask("GET", "/", nil)
			if found := style.FindStringSubmatch(body); found == nil {
				t.Error("the page has no style")
			} else if status, header, _ := b.ask("GET", found[1], nil); status != 200 ||
				!strings.Contains(header.Get("Cache-Control"), "immutable") {
				t.Errorf("the style: answered %d %v", status, header)
			}
		})
	}
}

// TestWithoutDashboard: switched off, its addresses are the API's; the reference is there, without a
// way to sign in.
func TestWithoutDashboard(t *testing.T) {
	o := options(t.TempDir())
	o.AdminKey, o.NoDashboard = testKey, true
	s := start(t, o)
	b := newBrowser(t, s.URL())
	for _, path := range []string{"/", "/login", "/deliveries", "/portal"} {
		if status, header, _ := b.ask("GET", path, nil); status != 404 || header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: answered %d %v", path, status, header)
		}
	}
	if status, _, page := b.ask("GET", "/docs/endpoints", nil); status != 200 || !strings.Contains(page, s.URL()+"/v1/endpoints") ||
		strings.Contains(page, "/login") {
		t.Errorf("the reference: answered %d %.200s", status, page)
	}
}

// TestWrongKeysAtTheSignIn: keys that are tried through the form count as those of the API do.
func TestWrongKeysAtTheSignIn(t *testing.T) {
	o := options(t.TempDir())
	o.AdminKey = testKey
	s := start(t, o)
	b := newBrowser(t, s.URL())
	token := b.token("/login")
	for i := range 3 {
		if status, _, _ := b.ask("POST", "/login", url.Values{"token": {token}, "key": {fmt.Sprintf("grp_wrong%d", i)}}); status != 401 {
			t.Errorf("a wrong key: answered %d", status)
		}
	}
	if got := s.gate.Stats().Unauthenticated; got != 3 {
		t.Errorf("%d wrong keys counted, want 3", got)
	}
}

// TestReplayFromTheDashboard: a preview counts the dead letters of several endpoints, one button
// starts a replay for each, and a second click starts nothing. The pages of the replays show the
// same after a restart of the server.
func TestReplayFromTheDashboard(t *testing.T) {
	o := still(t)
	o.Listen = steady
	s := start(t, o)
	acme, globex := own(t, s, "acme"), own(t, s, "globex")
	b := newBrowser(t, s.URL())
	b.signIn(testKey)
	hidden := func(body, name string) (all []string) {
		for _, found := range regexp.MustCompile(`name="`+name+`" value="([^"]*)"`).FindAllStringSubmatch(body, -1) {
			all = append(all, html.UnescapeString(found[1]))
		}
		return all
	}
	status, _, body := b.ask("GET", "/replays/new?q=status:skipped&again=1", nil)
	if status != 200 || !strings.Contains(body, "2 deliveries will be delivered again to 2 endpoints.") {
		t.Fatalf("the preview: answered %d %s", status, body)
	}
	form := url.Values{"token": hidden(body, "token")[:1], "back": {"/"}, "once": hidden(body, "once"), "order": hidden(body, "order"), "rate": {"5"}}
	var to []string
	for range 2 {
		status, header, body := b.ask("POST", "/replays/start", form)
		if status != 303 {
			t.Fatalf("answered %d %s", status, body)
		}
		to = append(to, header.Get("Location"))
	}
	if to[0] != to[1] || strings.Count(to[0], "id=rpl_") != 2 {
		t.Errorf("the clicks lead to %v", to)
	}
	admin, err := client.New(client.Options{Server: s.URL(), Key: testKey})
	if err != nil {
		t.Fatal(err)
	}
	found, err := admin.Replays(t.Context(), client.ReplayFilter{})
	if err != nil || len(found.Data) != 4 { // one of each tenant was there before
		t.Errorf("%d replays, %v", len(found.Data), err)
	}
	o.Listen = strings.TrimPrefix(s.URL(), "http://")
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	b.http.CloseIdleConnections()
	start(t, o)
	status, _, body = b.ask("GET", to[0], nil)
	shown := func(text string) bool { return strings.Contains(body, text) }
	if status != 200 || !shown("endpoint-of-acme") || !shown("endpoint-of-globex") || shown(acme.rpl) || shown(globex.rpl) {
		t.Errorf("after a restart: answered %d %s", status, body)
	}
}

// TestRevokeFromTheDashboard: an admin revokes a key, whose sessions end; the session's own key is
// refused.
func TestRevokeFromTheDashboard(t *testing.T) {
	s := start(t, still(t))
	acme := own(t, s, "acme")
	theirs, admin := newBrowser(t, s.URL()), newBrowser(t, s.URL())
	theirs.signIn(acme.key)
	admin.signIn(testKey)
	form := url.Values{"token": {admin.token("/keys")}, "back": {"/keys"}}
	if status, _, _ := admin.ask("POST", "/keys/key_admin/revoke", form); status != 409 {
		t.Errorf("its own key: answered %d", status)
	}
	if status, header, body := admin.ask("POST", "/keys/"+acme.keyID+"/revoke", form); status != 303 || header.Get("Location") != "/keys" {
		t.Errorf("answered %d %s", status, body)
	}
	if status, _, body := admin.ask("GET", "/keys", nil); status != 200 || strings.Contains(body, acme.keyID) {
		t.Errorf("the list: answered %d, with the key", status)
	}
	if status, header, _ := theirs.ask("GET", "/queues", nil); status != 303 || header.Get("Location") != "/login?next=%2Fqueues" {
		t.Errorf("with the revoked key: answered %d to %s", status, header.Get("Location"))
	}
}
