package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/web"
)

// browser is one with cookies, which does not follow redirects.
type browser struct {
	t    *testing.T
	base string
	http *http.Client
}

func newBrowser(t *testing.T, base string) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &browser{t, base, &http.Client{Jar: jar, Transport: transport, CheckRedirect: stay}}
}

func (b *browser) ask(method, path string, form url.Values) (status int, header http.Header, body string) {
	b.t.Helper()
	rq, err := http.NewRequestWithContext(b.t.Context(), method, b.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		b.t.Fatal(err)
	}
	if form != nil {
		rq.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		origin, _ := url.Parse(b.base)
		rq.Header.Set("Origin", origin.Scheme+"://"+origin.Host)
	}
	resp, err := b.http.Do(rq)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(text)
}

var formToken = regexp.MustCompile(`name="token" value="([^"]+)"`)

func (b *browser) token(path string) string {
	b.t.Helper()
	status, _, body := b.ask("GET", path, nil)
	found := formToken.FindStringSubmatch(body)
	if found == nil {
		b.t.Fatalf("%s: answered %d without a form token: %s", path, status, body)
	}
	return found[1]
}

func (b *browser) signIn(key string) {
	b.t.Helper()
	status, header, body := b.ask("POST", "/login", url.Values{"token": {b.token("/login")}, "key": {key}})
	if status != 303 {
		b.t.Fatalf("signing in: answered %d %v %s", status, header, body)
	}
}

// owned is what a tenant has: a paused endpoint, so that nothing about it changes by itself.
type owned struct {
	key   string
	ids   []string // of everything
	ep    string
	dlv   string
	texts []string // that only its own pages may show
	state func() string
}

func own(t *testing.T, s running, tenant string) owned {
	t.Helper()
	ctx := t.Context()
	admin, err := client.New(client.Options{Server: s.URL(), Key: testKey})
	if err != nil {
		t.Fatal(err)
	}
	key, err := admin.CreateKey(ctx, client.NewKey{Name: "key of " + tenant, Tenant: tenant, Scopes: []grapnel.Scope{"read", "manage", "replay", "publish"}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(client.Options{Server: s.URL(), Key: key.Secret})
	if err != nil {
		t.Fatal(err)
	}
	ep, err := c.CreateEndpoint(ctx, client.NewEndpoint{
		URL: "http://127.0.0.1:9/" + tenant, Description: "endpoint-of-" + tenant, Status: grapnel.EndpointPaused,
	})
	if err != nil {
		t.Fatal(err)
	}
	o := owned{key: key.Secret, ep: ep.ID, ids: []string{ep.ID, key.ID}, texts: []string{"endpoint-of-" + tenant, "key-" + tenant, "secret-" + tenant, "127.0.0.1:9/" + tenant}}
	for i := range 3 {
		data := fmt.Appendf(nil, `{"n":%d,"text":"secret-%s"}`, i, tenant)
		if _, err := c.Publish(ctx, client.NewEvent{Type: "a.b", Key: "key-" + tenant, Data: data}); err != nil {
			t.Fatal(err)
		}
	}
	page, err := c.Deliveries(ctx, client.DeliveryFilter{})
	if err != nil || len(page.Data) != 3 {
		t.Fatal(len(page.Data), err)
	}
	for _, d := range page.Data {
		o.ids, o.dlv = append(o.ids, d.ID, d.EventID), d.ID
	}
	o.state = func() string {
		page, err := c.Deliveries(ctx, client.DeliveryFilter{})
		if err != nil {
			t.Fatal(err)
		}
		now, err := c.Endpoint(ctx, ep.ID)
		if err != nil {
			t.Fatal(err)
		}
		return string(page.JSON()) + string(now.JSON())
	}
	return o
}

// fill puts what a tenant has into the pattern of a page.
func (o *owned) fill(pattern string) string {
	path := strings.TrimSuffix(pattern, "{$}")
	id := o.ep
	if strings.HasPrefix(path, "/deliveries") {
		id = o.dlv
	}
	return strings.ReplaceAll(path, "{id}", id)
}

// TestSessionsSeeTheirTenantOnly: whatever page or action a session asks for, and whatever ids it
// names, it sees nothing of another tenant and changes nothing there. With its own ids the same
// requests work, so the refusals mean something.
func TestSessionsSeeTheirTenantOnly(t *testing.T) {
	o := options(t.TempDir())
	o.AdminKey = testKey
	s := start(t, o)
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
				leaks(foreign+variant, body, globex.ep, "key-globex", globex.dlv) // which the request named
			}
			if status, _, body := b.ask("GET", mine, nil); status != 200 || !strings.Contains(body, "acme") {
				t.Errorf("%s: answered %d %s", mine, status, body)
			}
			continue
		}
		form := url.Values{"token": {token}, "back": {"/"}, "id": {globex.dlv}}
		status, _, body := b.ask("POST", foreign, form)
		if status != 404 {
			t.Errorf("POST %s: answered %d %s", foreign, status, body)
		}
		leaks("POST "+foreign, body, globex.ep, globex.dlv)
		if now := globex.state(); now != before {
			t.Errorf("POST %s changed something of another tenant", foreign)
			before = now
		}
	}
	form := url.Values{"token": {token}, "back": {"/endpoints"}}
	if status, header, body := b.ask("POST", "/endpoints/"+acme.ep+"/resume", form); status != 303 || header.Get("Location") != "/endpoints" {
		t.Errorf("its own endpoint: answered %d %s", status, body)
	}
}

// TestSessionEndsWithItsKey: a page asks the API with the key, so a session may what its key may.
func TestSessionEndsWithItsKey(t *testing.T) {
	o := options(t.TempDir())
	o.AdminKey = testKey
	s := start(t, o)
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

// TestSessionSurvivesARestart: the cookie is sealed with a secret of the store.
func TestSessionSurvivesARestart(t *testing.T) {
	o := options(t.TempDir())
	o.AdminKey = testKey
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
	o := options(t.TempDir())
	o.AdminKey = testKey
	s := start(t, o)
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
			o := options(t.TempDir())
			o.AdminKey = testKey
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
			b.signIn(acme.key)
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

// TestWithoutDashboard: switched off, its addresses are the API's.
func TestWithoutDashboard(t *testing.T) {
	o := options(t.TempDir())
	o.AdminKey, o.NoDashboard = testKey, true
	s := start(t, o)
	b := newBrowser(t, s.URL())
	for _, path := range []string{"/", "/login", "/deliveries", "/assets/app.css"} {
		if status, header, _ := b.ask("GET", path, nil); status != 404 || header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: answered %d %v", path, status, header)
		}
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
