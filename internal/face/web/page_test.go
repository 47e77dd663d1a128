package web

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/pass"
)

// recorded is an API that gives answers of a real server, which are stored in testdata/api.
type recorded struct {
	t      *testing.T
	calls  atomic.Int64
	passes *pass.Sealer
	now    *atomic.Pointer[time.Time]
	over   atomic.Bool                       // the session was signed out
	edit   func(name string, answer any) any // nil: as recorded
	status map[string]int                    // refuse these, by name
	asked  func(*http.Request)               // nil: not told
}

func (api *recorded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	api.calls.Add(1)
	if api.asked != nil {
		api.asked(r)
	}
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	p, ok := api.passes.Open(token, *api.now.Load())
	if token != goodKey && !(ok && p.OfKey() && p.Maker.Key == pass.Mark(sha256.Sum256([]byte(goodKey)))) || api.over.Load() {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"code":"unauthenticated","title":"A valid API key is needed","detail":"There is no such API key.","status":401,"errors":[],"request_id":"req_1"}`))
		return
	}
	if r.Method == http.MethodDelete && r.URL.Path == "/v1/sessions/current" {
		api.over.Store(true)
		w.WriteHeader(http.StatusNoContent)
		return
	}
	name := ""
	for _, is := range []struct{ pattern, name string }{
		{`^/v1/whoami$`, "whoami"}, {`^/v1/search$`, "meaning"}, {`^/v1/overview$`, "overview"}, {`^/v1/stats$`, "stats"}, {`^/v1/endpoints$`, "endpoints"}, {`^/v1/endpoints/[^/]+/stats$`, "endpoint_stats"},
		{`^/v1/endpoints/[^/]+/causes$`, "causes"},
		{`^/v1/(endpoints/[^/]+/)?lanes$`, "lanes"}, {`^/v1/audit$`, "audit"}, {`^/v1/deliveries$`, "deliveries"}, {`^/v1/endpoints/[^/]+/deliveries$`, "deliveries"},
		{`^/v1/endpoints/.+/replay$`, "plan"}, {`^/v1/dead-letters$`, "dead_letters"}, {`^/v1/replays$`, "replays"}, {`^/v1/replays/.+/items$`, "items"},
		{`^/v1/issues$`, "issues"}, {`^/v1/issues/[^/]+$`, "issue"},
		{`^/v1/alerts$`, "alerts"}, {`^/v1/alerts/[^/]+(/\w+)?$`, "alert"}, {`^/v1/alert-rules$`, "alert_rules"}, {`^/v1/alert-rules/.+/backtest$`, "backtest"},
		{`^/v1/alert-rules/.+$`, "alert_rule"}, {`^/v1/replays/.+$`, "replay"}, {`^/v1/events$`, "events"},
		{`^/v1/sources$`, "sources"}, {`^/v1/sources/[^/]+(/[\w-]+)?$`, "source"}, {`^/v1/inbox$`, "inbox"}, {`^/v1/inbox/[^/]+$`, "request"},
		{`^/v1/channels$`, "channels"}, {`^/v1/channels/[^/]+(/\w+)?$`, "channel"},
		{`^/v1/contacts$`, "contacts"}, {`^/v1/contacts/[^/]+(/\w+)?$`, "contact"}, {`^/v1/contact-sender$`, "sender"},
		{`^/v1/queues$`, "queues"}, {`^/v1/queues/[^/]+/peek$`, "peek"}, {`^/v1/queues/[^/]+(/\w+)?$`, "queue"},
		{`^/v1/events/preview$`, "preview"}, {`^/v1/event-types$`, "event_types"}, {`^/v1/event-types/[^/]+/compare$`, "compare"}, {`^/v1/event-types/[^/]+(/versions(/\d+)?)?$`, "event_type"},
		{`^/v1/policies$`, "policies"}, {`^/v1/policies/simulate$`, "simulate"}, {`^/v1/policies/pol_own$`, "own_policy"}, {`^/v1/policies/[^/]+$`, "policy"},
		{`^/v1/slo$`, "slo"}, {`^/v1/incidents$`, "incidents"}, {`^/v1/incidents/[^/]+(/updates)?$`, "incident"}, {`^/v1/duplicates$`, "duplicates"}, {`^/v1/keys$`, "keys"}, {`^/v1/keys/[^/]+$`, "whoami"}, {`^/v1/cluster$`, "cluster"}, {`^/v1/settings$`, "settings"}, {`^/v1/tenants$`, "tenants"},
		{`^/v1/tenants/[^/]+/portal$`, "portal"}, {`^/v1/tenants/[^/]+/portal-links$`, "portal_link"}, {`^/v1/tenants/[^/]+$`, "tenant"},
		{`^/v1/deliveries/[^/]+/attempts/\d+/signature$`, "signature"}, {`^/v1/deliveries/[^/]+/attempts/\d+/body$`, "sent_body"}, {`^/v1/deliveries/[^/]+(/\w+)?$`, "delivery"}, {`^/v1/events/[^/]+$`, "event"}, {`^/v1/endpoints/[^/]+(/[\w-]+)?$`, "endpoint"},
	} {
		if regexp.MustCompile(is.pattern).MatchString(r.URL.EscapedPath()) {
			name = is.name
			break
		}
	}
	switch q := r.URL.Query(); {
	case q.Get("bucket") == "minute":
		name = "endpoint_minutes"
	case name == "stats" && q.Get("by") == "reason":
		name = "stats_reasons"
	case name == "stats" && q.Get("by") != "":
		name = "stats_groups"
	}
	if status := api.status[name]; status != 0 || name == "" {
		if status == 0 {
			status = http.StatusNotFound
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`{"code":"not_found","title":"There is no such thing","detail":"there is no such ` + name + `","status":404,"errors":[],"request_id":"req_2"}`))
		return
	}
	text, err := os.ReadFile(filepath.Join("testdata", "api", name+".json"))
	if err != nil {
		api.t.Error(err)
		return
	}
	if api.edit != nil {
		var answer any
		if err := json.Unmarshal(text, &answer); err != nil {
			api.t.Error(err)
		}
		if text, err = json.Marshal(api.edit(name, answer)); err != nil {
			api.t.Error(err)
		}
	}
	_, _ = w.Write(text)
}

const goodKey = "grp_a_key_of_the_tests"

// then is the instant of the recorded answers.
var then = time.Date(2026, 11, 23, 9, 23, 34, 0, time.UTC)

type site struct {
	t       *testing.T
	api     *recorded
	web     *web
	handler http.Handler
	cookies []*http.Cookie
	now     atomic.Pointer[time.Time]
}

func newSite(t *testing.T, change func(*Options)) *site {
	s := &site{t: t, api: &recorded{t: t}}
	s.now.Store(&then)
	o := Options{API: s.api, Dev: Dev{Coach: &story{}, Codes: NewCodes()}, Clock: func() time.Time { return *s.now.Load() },
		Secret: func(use string) [32]byte { return sha256.Sum256([]byte(use)) }}
	o.Passes = pass.NewSealer(o.Secret, nil, rand.Reader)
	if change != nil {
		change(&o)
	}
	s.api.passes, s.api.now = o.Passes, &s.now
	s.web = newWeb(o)
	s.handler = s.web.mux()
	return s
}

// ask sends a request with the cookies so far and keeps those of the answer.
func (s *site) ask(method, target string, form url.Values, headers ...string) *httptest.ResponseRecorder {
	s.t.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(form.Encode()))
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, c := range s.cookies {
		r.AddCookie(c)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	for _, c := range w.Result().Cookies() {
		s.cookies = slices.DeleteFunc(s.cookies, func(old *http.Cookie) bool { return old.Name == c.Name })
		if c.MaxAge >= 0 {
			s.cookies = append(s.cookies, c)
		}
	}
	return w
}

var tokenField = regexp.MustCompile(`name="token" value="([^"]+)"`)

// token is the form token of a page.
func (s *site) token(target string) string {
	s.t.Helper()
	found := tokenField.FindStringSubmatch(s.ask("GET", target, nil).Body.String())
	if found == nil {
		s.t.Fatalf("%s: no form has a token", target)
	}
	return found[1]
}

func (s *site) signIn() {
	s.t.Helper()
	s.api.over.Store(false)
	w := s.ask("POST", "/login", url.Values{"token": {s.token("/login")}, "key": {goodKey}, "next": {"/"}})
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/" {
		s.t.Fatalf("signing in: answered %d %s", w.Code, w.Body)
	}
}

// targets are addresses of all pages, with ids that the recorded answers have.
func targets() []string {
	var all []string
	for _, p := range append(pages(), coachPages()...) {
		kind, _, _ := strings.Cut(strings.TrimPrefix(p.path, "/"), "/")
		id := map[string]string{"deliveries": "dlv_1", "endpoints": "ep_1", "replays": "rpl_1", "events": "evt_1",
			"sources": "src_1", "inbox": "req_1", "queues": "q_1", "channels": "chn_1", "policies": "standard", "event-types": "typ_1", "ordering-keys": "ep_1",
			"issues": "iss_1", "incidents": "inc_1", "alerts": "alr_1", "alert-rules": "dead_letters", "customers": "acme"}[kind]
		if kind == "policies" && strings.Count(p.path, "/") > 2 {
			id = "pol_own" // a preset has no forms
		}
		all = append(all, strings.ReplaceAll(strings.ReplaceAll(p.path, "{$}", ""), "{id}", id))
	}
	return all
}

// TestPageRowsAreComplete: a row has all that a page needs, and every template belongs to a row.
func TestPageRowsAreComplete(t *testing.T) {
	used := map[string]bool{"layout.html": true, "parts.html": true, "login.html": true, "once.html": true, "failure.html": true, "fields.html": true, "secret.html": true,
		"alert-link.html": true, "contact-link.html": true, "open.html": true, "portal-layout.html": true, // the last two are of the portal
		"docs.html": true}
	sharedTemplates := []string{"form.html", "policy-form.html"}
	places, keys := map[string]bool{}, map[string]string{}
	for _, e := range append(navigation(), coachEntry()) {
		places[e.Name] = true
		if e.Sign == "" {
			t.Errorf("the entry %s has no sign", e.Name)
		}
		for i, leaf := range append(e.Tabs, entry{Name: e.Name, Path: e.Path, Key: e.Key}) {
			if i == len(e.Tabs) && i > 0 { // an entry with tabs leads to its first one
				break
			}
			places[leaf.Name] = true
			if other := keys[leaf.Key]; other != "" {
				t.Errorf("g %s leads to %s and to %s", leaf.Key, other, leaf.Name)
			}
			keys[leaf.Key] = leaf.Name
			if leaf.Path == "" || len(leaf.Key) != 1 {
				t.Errorf("%s, %s lacks a path or a key", e.Name, leaf.Name)
			}
			if !slices.ContainsFunc(append(pages(), coachPages()...), func(p page) bool {
				return p.address() == leaf.Path && (p.nav == leaf.Name || p.nav == e.Name && i == 0)
			}) {
				t.Errorf("%s, %s leads to %s, which is no page that is lit by it", e.Name, leaf.Name, leaf.Path)
			}
		}
	}
	for _, p := range append(pages(), coachPages()...) {
		whole := p.title != "" && p.build != nil && p.template != "" && p.twin != nil && p.command != nil
		if !whole || !places[p.nav] || !slices.Contains(grapnel.Scopes(), p.scope) {
			t.Errorf("%s: the row is not complete: %+v", p.path, p)
		}
		if used[p.template] && !slices.Contains(sharedTemplates, p.template) {
			t.Errorf("%s: another page has the template %s", p.path, p.template)
		}
		used[p.template] = true
	}
	err := fs.WalkDir(templateFiles, "templates", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !used[filepath.Base(name)] {
			t.Errorf("%s belongs to no page", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range append(actions(), coachActions()...) {
		if a.do == nil || !slices.Contains(append(grapnel.Scopes(), grapnel.ScopeOperate), a.scope) {
			t.Errorf("%s: the row is not complete", a.path)
		}
	}
}

// TestPagesOfRecordedAnswers draws every page and its twin, small enough and with all headers.
func TestPagesOfRecordedAnswers(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	for _, target := range targets() {
		w := s.ask("GET", target, nil)
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `class="answer"`) {
			t.Errorf("%s: answered %d %s", target, w.Code, w.Body)
		}
		if w.Body.Len() > 60<<10 {
			t.Errorf("%s: %d bytes of HTML", target, w.Body.Len())
		}
		if strings.Contains(w.Body.String(), "<no value>") || strings.Contains(w.Body.String(), "%!") || strings.Contains(w.Body.String(), "ZgotmplZ") {
			t.Errorf("%s: a template or a format got no value", target)
		}
		h := w.Header()
		if h.Get("Content-Security-Policy") != contentPolicy || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: headers are %v", target, h)
		}
		twin := s.ask("GET", target+"?format=json", nil)
		if twin.Code != http.StatusOK || !json.Valid(twin.Body.Bytes()) || twin.Header().Get("Content-Type") != grapnel.JSONType {
			t.Errorf("%s: the twin is %d %s", target, twin.Code, twin.Body)
		}
	}
	for _, bad := range []string{"unsafe", "data:", "*", "http:"} {
		if strings.Contains(contentPolicy, bad) {
			t.Errorf("the policy allows %s", bad)
		}
	}
}

// TestWithoutSession: a page asks for a key and comes back to where it was; nothing else answers.
func TestWithoutSession(t *testing.T) {
	s := newSite(t, nil)
	for _, target := range targets() {
		w := s.ask("GET", target, nil)
		if w.Code != http.StatusSeeOther || !strings.HasPrefix(w.Header().Get("Location"), "/login") {
			t.Errorf("%s: answered %d to %s", target, w.Code, w.Header().Get("Location"))
		}
		if w := s.ask("GET", target+"?format=json", nil); w.Code != http.StatusUnauthorized {
			t.Errorf("%s: the twin answered %d", target, w.Code)
		}
		if w := s.ask("GET", target, nil, "Accept", "text/event-stream"); w.Code != http.StatusUnauthorized {
			t.Errorf("%s: the stream answered %d", target, w.Code)
		}
	}
	for _, a := range append(actions(), coachActions()...) {
		if w := s.ask("POST", strings.ReplaceAll(a.path, "{id}", "x"), url.Values{}); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/login" {
			t.Errorf("%s: answered %d", a.path, w.Code)
		}
	}
	if n := s.api.calls.Load(); n != 0 {
		t.Errorf("the API was asked %d times", n)
	}
	if w := s.ask("GET", "/deliveries?q=a&cursor=b", nil); w.Header().Get("Location") != "/login?next=%2Fdeliveries%3Fq%3Da%26cursor%3Db" {
		t.Errorf("the way back is %s", w.Header().Get("Location"))
	}
}

// TestSigningIn: the cookie is sealed and has its flags, and a wrong key gives none.
func TestSigningIn(t *testing.T) {
	s := newSite(t, func(o *Options) { o.Origin = func(*http.Request) string { return "https://hooks.example" } })
	token := s.token("/login")
	for _, key := range []string{"", "grp wrong", "grp_wrong", strings.Repeat("x", 600)} {
		w := s.ask("POST", "/login", url.Values{"token": {token}, "key": {key}})
		if w.Code < 400 || s.named(sessionCookie) != nil {
			t.Errorf("key %.20q: answered %d, cookies %v", key, w.Code, s.cookies)
		}
		if strings.Contains(w.Body.String(), "grp_wrong") {
			t.Error("the key is shown in the answer")
		}
	}
	w := s.ask("POST", "/login", url.Values{"token": {token}, "key": {" " + goodKey + "\n"}, "next": {"//evil.example/x"}})
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/" {
		t.Fatalf("answered %d to %q", w.Code, w.Header().Get("Location"))
	}
	c := s.named("__Host-" + sessionCookie)
	if c == nil || !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.MaxAge != 12*3600 {
		t.Fatalf("the cookie is %v", c)
	}
	if strings.Contains(c.Value, goodKey) {
		t.Error("the cookie shows the key")
	}
	if w := s.ask("GET", "/", nil); w.Code != http.StatusOK {
		t.Errorf("with the session: answered %d", w.Code)
	}
	for i := range c.Value { // a cookie with one bit changed is none
		if i%17 != 0 {
			continue
		}
		forged := []byte(c.Value)
		forged[i] ^= 1
		s.cookies = []*http.Cookie{{Name: c.Name, Value: string(forged)}}
		if w := s.ask("GET", "/", nil); w.Code != http.StatusSeeOther {
			t.Errorf("a forged cookie: answered %d", w.Code)
		}
	}
	s.cookies = []*http.Cookie{{Name: c.Name, Value: c.Value}}
	later := then.Add(12 * time.Hour)
	s.now.Store(&later)
	if w := s.ask("GET", "/", nil); w.Code != http.StatusSeeOther {
		t.Errorf("after its end: answered %d", w.Code)
	}
}

func (s *site) named(name string) *http.Cookie {
	i := slices.IndexFunc(s.cookies, func(c *http.Cookie) bool { return c.Name == name || c.Name == "__Host-"+name })
	if i < 0 {
		return nil
	}
	return s.cookies[i]
}

// TestCookiesAreForOneUse: a cookie that was sealed for one use does not pass for another.
func TestCookiesAreForOneUse(t *testing.T) {
	s := newSite(t, nil)
	text, err := s.web.seals.SealBytes(noticeCookie, []byte(`{"i":"x","k":"y","e":"2100-01-01T00:00:00Z"}`))
	if err != nil {
		t.Fatal(err)
	}
	s.cookies = []*http.Cookie{{Name: sessionCookie, Value: text}}
	if w := s.ask("GET", "/", nil); w.Code != http.StatusSeeOther {
		t.Errorf("a notice passes for a session: answered %d", w.Code)
	}
}

// TestForeignForms: every action is refused without the session's token, or from another site.
func TestForeignForms(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	token := s.token("/")
	other := newSite(t, nil)
	other.signIn()
	foreign := other.token("/")
	paths := []string{"/logout", "/look"}
	for _, a := range append(actions(), coachActions()...) {
		paths = append(paths, strings.ReplaceAll(a.path, "{id}", "x"))
	}
	before := s.api.calls.Load()
	for _, path := range paths {
		for name, w := range map[string]*httptest.ResponseRecorder{
			"no token":          s.ask("POST", path, url.Values{}),
			"another's token":   s.ask("POST", path, url.Values{"token": {foreign}}),
			"from another site": s.ask("POST", path, url.Values{"token": {token}}, "Sec-Fetch-Site", "cross-site"),
			"other origin":      s.ask("POST", path, url.Values{"token": {token}}, "Origin", "https://evil.example"),
		} {
			if w.Code != http.StatusForbidden {
				t.Errorf("%s, %s: answered %d", path, name, w.Code)
			}
		}
	}
	if n := s.api.calls.Load() - before; n != 0 {
		t.Errorf("the API was asked %d times", n)
	}
}

// TestEveryFormHasTheToken: no page has a form that posts without it.
func TestEveryFormHasTheToken(t *testing.T) {
	s := newSite(t, nil)
	form := regexp.MustCompile(`(?s)<form method="post".*?</form>`)
	check := func(target string) {
		for _, f := range form.FindAllString(s.ask("GET", target, nil).Body.String(), -1) {
			if !tokenField.MatchString(f) {
				t.Errorf("%s: a form without token: %.120s", target, f)
			}
		}
	}
	check("/login")
	s.signIn()
	for _, target := range targets() {
		check(target)
	}
}

// TestRolesFromScopes: a key that may only read is offered no action.
func TestRolesFromScopes(t *testing.T) {
	s := newSite(t, nil)
	s.api.edit = func(name string, answer any) any {
		if name == "whoami" {
			answer.(map[string]any)["scopes"] = []string{"read"}
		}
		return answer
	}
	s.signIn()
	rows := append(pages(), coachPages()...)
	for i, target := range targets() {
		w := s.ask("GET", target, nil)
		body := w.Body.String()
		if rows[i].scope != grapnel.ScopeRead {
			if w.Code != http.StatusForbidden {
				t.Errorf("%s: answered %d", target, w.Code)
			}
			continue
		}
		for _, a := range append(actions(), coachActions()...) {
			if a.scope == grapnel.ScopeRead {
				continue // it changes nothing but the session
			}
			_, verb, found := strings.Cut(a.path, "{id}")
			if !found {
				verb = a.path
			}
			if strings.Contains(body, verb+`"`) || strings.Contains(body, verb+`?`) {
				t.Errorf("%s offers %s", target, a.path)
			}
		}
	}
}

// TestRefusalsOfTheAPI: an error says its cause, what to do and where to look it up; a revoked key
// leads to the sign-in.
func TestRefusalsOfTheAPI(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	s.api.status = map[string]int{"delivery": http.StatusNotFound}
	w := s.ask("GET", "/deliveries/dlv_1", nil)
	for _, want := range []string{"There is no such thing.", "What you can do:", "req_2"} {
		if w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), want) {
			t.Errorf("answered %d without %q", w.Code, want)
		}
	}
	s.api.status = map[string]int{"overview": http.StatusUnauthorized}
	if w := s.ask("GET", "/", nil); w.Code != http.StatusSeeOther || s.named(sessionCookie) != nil {
		t.Errorf("a revoked key: answered %d, cookies %v", w.Code, s.cookies)
	}
}

// TestReadersAreShared: however many browsers look at a page, the API is asked as for one; beyond
// the budget a browser is told to poll.
func TestReadersAreShared(t *testing.T) {
	s := newSite(t, func(o *Options) { o.Bounds.LiveTenant = 30 })
	s.signIn()
	v := s.visitOf("/deliveries")
	before := s.api.calls.Load()
	r, ok := s.web.live.watch(v.readerName(), "", &s.web.Bounds)
	if !ok {
		t.Fatal("the first watcher is refused")
	}
	_, first, err := r.look(v)
	if err != nil || first != 1 {
		t.Fatalf("version %d, %v", first, err)
	}
	once := s.api.calls.Load() - before
	var all sync.WaitGroup
	for range 29 {
		all.Go(func() {
			v := s.visitOf("/deliveries")
			same, ok := s.web.live.watch(v.readerName(), "", &s.web.Bounds)
			if !ok || same != r {
				t.Error("a watcher of the same page has another reader")
				return
			}
			if _, version, err := same.look(v); err != nil || version != 1 {
				t.Errorf("version %d, %v", version, err)
			}
		})
	}
	all.Wait()
	if n := s.api.calls.Load() - before; n != once {
		t.Errorf("thirty watchers cost %d calls, one costs %d", n, once)
	}
	if _, ok := s.web.live.watch("another", "", &s.web.Bounds); ok {
		t.Error("the budget of a tenant does not hold")
	}
	if _, ok := s.web.live.watch("another", "acme", &s.web.Bounds); !ok {
		t.Error("another tenant is refused")
	}
	// Time passes without changes: the API is asked again, and nothing is sent.
	later := then.Add(time.Minute / 10)
	s.now.Store(&later)
	if _, version, err := r.look(v); err != nil || version != 1 || s.api.calls.Load()-before != 2*once {
		t.Errorf("version %d after %d calls, %v", version, s.api.calls.Load()-before, err)
	}
	// Something changes.
	later = later.Add(time.Second)
	s.now.Store(&later)
	s.api.edit = func(name string, answer any) any {
		if name == "deliveries" {
			answer.(map[string]any)["data"].([]any)[0].(map[string]any)["type"] = "just.now"
		}
		return answer
	}
	main, version, err := r.look(v)
	if err != nil || version != 2 || !strings.Contains(string(main), "just.now") {
		t.Errorf("version %d, %v", version, err)
	}
	if strings.Contains(string(main), s.web.seals.token(v.session.ID)) {
		t.Error("a shared page has the token of one session")
	}
	for range 30 {
		s.web.live.leave(v.readerName(), "")
	}
	if s.web.live.by[v.readerName()] != nil {
		t.Error("a reader without watchers is still there")
	}
}

// visitOf is a visit of the signed-in browser.
func (s *site) visitOf(target string) *visit {
	r := httptest.NewRequest("GET", target, nil)
	for _, c := range s.cookies {
		r.AddCookie(c)
	}
	all := s.web.pages
	i := slices.IndexFunc(all, func(p page) bool { return p.path == r.URL.Path })
	v := s.web.visit(httptest.NewRecorder(), r)
	v.page = &all[i]
	return v
}
