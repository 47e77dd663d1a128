package web

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
)

// asked notes the tenant that each request to the API was narrowed to.
type asked struct {
	http.Handler
	mu   sync.Mutex        // a page asks several questions at once
	seen map[string]string // by path
}

func (a *asked) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.seen[r.URL.Path] = r.Header.Get("Grapnel-Tenant")
	a.mu.Unlock()
	a.Handler.ServeHTTP(w, r)
}

// TestRowsNameTheirCustomer: where rows of several customers stand together each says whose it is;
// those of the default tenant, and those under a search for one customer, do not.
func TestRowsNameTheirCustomer(t *testing.T) {
	s := newSite(t, nil)
	s.api.edit = func(name string, answer any) any {
		if doc, _ := answer.(map[string]any); slices.Contains([]string{"deliveries", "events", "dead_letters"}, name) {
			for i, row := range doc["data"].([]any) {
				row.(map[string]any)["tenant"] = []string{"acme", "default"}[i%2]
			}
		}
		return answer
	}
	s.signIn()
	for path, rows := range map[string]int{"/deliveries": 4, "/events": 5, "/dead-letters": 6} {
		for q, want := range map[string]int{"": (rows + 1) / 2, "?q=tenant:acme": 0} {
			body := s.ask("GET", path+q, nil).Body.String()
			named := strings.Count(body, ` <a class="key whose" href="/customers/acme" title="Customer acme">acme</a>`)
			if all := strings.Count(body, "<tr data-row"); all != rows || named != want || strings.Count(body, `class="key whose"`) != want {
				t.Errorf("%s%s: of %d rows %d name their customer, want %d", path, q, all, named, want)
			}
		}
	}
}

// TestLookingAtOneCustomer: while a session looks at one customer, all requests of all pages but
// those about all customers are narrowed to it; each page says so, and one click leads back.
func TestLookingAtOneCustomer(t *testing.T) {
	a := &asked{seen: map[string]string{}}
	s := newSite(t, func(o *Options) { a.Handler, o.API = o.API, a })
	s.signIn()
	token := s.token("/customers")
	if w := s.ask("POST", "/customers/acme/only", url.Values{"token": {token}}); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/" {
		t.Fatalf("answered %d %s", w.Code, w.Body)
	}
	for _, target := range targets() {
		clear(a.seen)
		body := s.ask("GET", target, nil).Body.String()
		if !strings.Contains(body, `action="/customers/all"`) || !strings.Contains(body, `data-tenant="acme"`) {
			t.Errorf("%s does not say it", target)
		}
		if strings.Contains(body, `class="key whose"`) {
			t.Errorf("%s says whose a row is", target)
		}
		s.ask("GET", target+"?format=json", nil)
		for path, tenant := range a.seen {
			if want := map[bool]string{false: "acme"}[ofAll(target)]; tenant != want {
				t.Errorf("%s asks for %s narrowed to %q", target, path, tenant)
			}
		}
	}
	if w := s.ask("POST", "/endpoints/ep_1/pause", url.Values{"token": {token}}); w.Code != http.StatusForbidden {
		t.Errorf("a form that was drawn for all: answered %d", w.Code)
	}
	if w := s.ask("POST", "/customers/all", url.Values{"token": {s.token("/customers")}, "back": {"/deliveries"}}); w.Header().Get("Location") != "/deliveries" {
		t.Errorf("back to all: answered %d %s", w.Code, w.Body)
	}
	if body := s.ask("GET", "/deliveries", nil).Body.String(); strings.Contains(body, "/customers/all") || a.seen["/v1/deliveries"] != "" {
		t.Error("it still looks at one customer")
	}
}

// TestABoundSessionHasNoCustomers: it sees neither the entry nor the pages, and no action works.
func TestABoundSessionHasNoCustomers(t *testing.T) {
	s := newSite(t, nil)
	s.api.edit = func(name string, answer any) any {
		if name == "whoami" {
			answer.(map[string]any)["tenant"] = "acme"
		}
		return answer
	}
	s.signIn()
	body := s.ask("GET", "/deliveries", nil).Body.String()
	for _, has := range []string{"/customers", "whose"} {
		if strings.Contains(body, has) {
			t.Errorf("a page has %s", has)
		}
	}
	for _, target := range targets() {
		if !strings.HasPrefix(target, "/customers") {
			continue
		}
		if w := s.ask("GET", target, nil); w.Code != http.StatusNotFound {
			t.Errorf("%s: answered %d", target, w.Code)
		}
	}
	for _, a := range actions() {
		if !strings.HasPrefix(a.path, "/customers") {
			continue
		}
		w := s.ask("POST", strings.ReplaceAll(a.path, "{id}", "acme"), url.Values{"token": {s.token("/deliveries")}, "was": {"{}"}})
		if w.Code != http.StatusNotFound {
			t.Errorf("%s: answered %d", a.path, w.Code)
		}
	}
}

// TestCustomers: the list says how each one is doing, and a search for a name is the API's.
func TestCustomers(t *testing.T) {
	a := &asked{seen: map[string]string{}}
	s := newSite(t, func(o *Options) { a.Handler, o.API = o.API, a })
	s.signIn()
	body := s.ask("GET", "/customers?q=acm", nil).Body.String()
	for _, has := range []string{"1 of 2 customers needs attention.", "circuit open", "2 circuit open of 3 endpoints", ">412<",
		`href="/dead-letters?q=tenant%3Aacme"`, `action="/customers/acme/only"`, "1 endpoint, healthy"} {
		if !strings.Contains(body, has) {
			t.Errorf("the list lacks %s in %s", has, body)
		}
	}
	if got := customersTwinOf(s, "/customers?q=acm"); got != "limit=32&numbers=true&search=acm" {
		t.Errorf("its twin is %s", got)
	}
	s.api.edit = func(name string, answer any) any {
		if name == "overview" {
			answer.(map[string]any)["endpoints"] = map[string]any{"all": 3, "healthy": 1, "open": 2}
		}
		return answer
	}
	body = s.ask("GET", "/customers/acme", nil).Body.String()
	for _, has := range []string{"acme: 2 circuit open of 3 endpoints.", "50 a second, 100 at once", "no page may frame it", `href="/customers/acme/portal"`,
		`href="/customers/acme/brand"`, `href="/customers/acme/limits"`, "grapnel tenants delete acme"} {
		if !strings.Contains(body, has) {
			t.Errorf("the page lacks %s", has)
		}
	}
}

func customersTwinOf(s *site, target string) string {
	all := pages()
	_, q := all[slices.IndexFunc(all, func(p page) bool { return p.path == "/customers" })].twin(s.visitOf(target))
	return q.Encode()
}

// TestOpenPortal: the form begins with the rights that the session has to give, and its answer
// shows the link once.
func TestOpenPortal(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	body := s.ask("GET", "/customers/acme/portal", nil).Body.String()
	if !strings.Contains(body, `value="endpoints:write" checked`) || strings.Contains(body, `value="payload:read" checked`) {
		t.Errorf("the form: %s", body)
	}
	form := url.Values{"token": {s.token("/customers/acme/portal")}, "scopes": {"read", "replay"}}
	body = s.ask("POST", "/customers/acme/portal", form).Body.String()
	if !strings.Contains(body, `href="http://127.0.0.1:8420/portal#grpass_x"`) || !strings.Contains(body, "shown now, and never again") {
		t.Errorf("the answer: %s", body)
	}
}
