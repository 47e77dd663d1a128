package web

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// troubled has the recorded API answer with so many firing alerts and open issues.
func (s *site) troubled(alerts, issues int) {
	s.api.edit = func(name string, answer any) any {
		n := map[string]int{"alerts": alerts, "issues": issues}
		want, is := n[name]
		if !is {
			return answer
		}
		a := answer.(map[string]any)
		one := a["data"].([]any)[0].(map[string]any)
		var all []any
		for i := range want {
			next := map[string]any{}
			for k, v := range one {
				next[k] = v
			}
			if name == "alerts" && i == 1 {
				next["severity"], next["title"], next["id"] = "page", "Ledger: circuit is open", "alr_2"
			}
			if name == "issues" && i == 1 {
				next["failures"], next["id"] = 99, "iss_2"
			}
			all = append(all, next)
		}
		a["data"], a["next_cursor"] = all, nil
		if all == nil {
			a["data"] = []any{}
		}
		return a
	}
	later := s.now.Load().Add(time.Minute)
	s.now.Store(&later)
}

// TestTheNumberBesideTrouble: it is the sum of firing alerts and open issues, on every page, is
// hidden when there are none, and is read once for many pages.
func TestTheNumberBesideTrouble(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	s.troubled(2, 3)
	cost := func() int64 {
		before := s.api.calls.Load()
		s.ask("GET", "/queues", nil)
		return s.api.calls.Load() - before
	}
	if first, second := cost(), cost(); first != second+2 {
		t.Errorf("the first page cost %d calls, the second one %d; the number takes two, once", first, second)
	}
	for _, target := range []string{"/playground", "/queues", "/endpoints/new"} {
		if body := s.ask("GET", target, nil).Body.String(); !strings.Contains(body, `<b class="count" data-count title="open issues and firing alerts">5</b>`) {
			t.Errorf("%s: the number is not 5", target)
		}
	}
	s.troubled(0, 0)
	if body := s.ask("GET", "/queues", nil).Body.String(); !strings.Contains(body, `alerts" hidden>0</b>`) {
		t.Error("a number is shown although nothing is wrong")
	}
	s.troubled(1, 0)
	s.api.status = map[string]int{"issues": http.StatusServiceUnavailable}
	if w := s.ask("GET", "/queues", nil); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `alerts" hidden></b>`) {
		t.Errorf("without an answer about issues: %d, or a number is shown", w.Code)
	}
	if w := s.ask("GET", "/", nil); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "could not be read") {
		t.Errorf("the overview without an answer about issues: %d", w.Code)
	}
}

// TestTheNumberOfEachSession: a session is not told the number of another one.
func TestTheNumberOfEachSession(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	s.troubled(2, 3)
	s.ask("GET", "/queues", nil)
	v := s.visitOf("/queues")
	other := *v.session
	other.Pass = "pass_unknown"
	if is, ok := s.web.trouble(v.Request, &other); ok {
		t.Errorf("a session that the API refuses is told %s", is.number())
	}
	if is, ok := s.web.trouble(v.Request, v.session); !ok || is.number() != "5" {
		t.Errorf("the session itself is told %s, %v", is.number(), ok)
	}
	for i := range 2 * s.web.Bounds.LiveAll {
		s.web.lastTrouble([32]byte{byte(i), byte(i >> 8)})
	}
	if n := len(s.web.troubles.by); n > s.web.Bounds.LiveAll {
		t.Errorf("the trouble of %d sessions is remembered", n)
	}
}

// TestOverviewNamesTrouble: the overview says how many alerts fire and how many issues are open,
// names the gravest of each, and leads to all of them.
func TestOverviewNamesTrouble(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	s.troubled(2, 3)
	body := s.ask("GET", "/", nil).Body.String()
	for _, want := range []string{`<a class="link" href="/alerts?state=firing">2 alerts fire</a>, the gravest is “<a class="link" href="/alerts/alr_2">Ledger: circuit is open</a>”.`,
		`<a class="link" href="/issues?state=open">3 issues are open</a>. Most failures: <a class="link" href="/issues/iss_2">`} {
		if !strings.Contains(body, want) {
			t.Errorf("the overview lacks %s", want)
		}
	}
	s.troubled(1, 1)
	body = s.ask("GET", "/", nil).Body.String()
	for _, want := range []string{`>1 alert fires</a>, “<a`, `>1 issue is open</a>: <a`} {
		if !strings.Contains(body, want) {
			t.Errorf("the overview lacks %s", want)
		}
	}
	s.troubled(0, 0)
	if body = s.ask("GET", "/", nil).Body.String(); strings.Contains(body, "alerts fire") || strings.Contains(body, "issues are open") {
		t.Error("the overview speaks of alerts or issues although there are none")
	}
}

// TestEmptyServerHasButtons: an empty server offers forms for the first endpoint and source.
func TestEmptyServerHasButtons(t *testing.T) {
	s := newSite(t, nil)
	s.api.edit = func(name string, answer any) any {
		if name == "overview" {
			o := answer.(map[string]any)
			o["endpoints"], o["attention"] = map[string]any{"all": 0}, []any{}
		}
		return answer
	}
	s.signIn()
	body := s.ask("GET", "/", nil).Body.String()
	for _, want := range []string{`<a class="btn go" href="/endpoints/new">`, `<a class="btn" href="/sources/new">`} {
		if !strings.Contains(body, want) {
			t.Errorf("the empty overview lacks %s", want)
		}
	}
}

// TestNowhereIsAPage: a browser at an address that is nowhere gets a page with a way back, signed
// in or not, below the portal too. Programs get the API's answer, and the API's own pages stay.
func TestNowhereIsAPage(t *testing.T) {
	s := newSite(t, func(o *Options) {
		api := o.API
		o.API = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == "/status":
				w.Header().Set("Content-Type", "text/html; charset=utf-8")
				_, _ = w.Write([]byte("the status page"))
			case strings.HasPrefix(r.URL.Path, "/v1/"):
				api.ServeHTTP(w, r)
			default:
				w.Header().Set("Content-Type", "application/problem+json")
				w.Header().Set("Content-Length", "20")
				w.WriteHeader(http.StatusNotFound)
				_, _ = w.Write([]byte(`{"code":"not_found"}`))
			}
		})
	})
	html := func(target string) (int, string) {
		w := s.ask("GET", target, nil, "Accept", "text/html,application/xhtml+xml")
		if kind := w.Header().Get("Content-Type"); kind != "text/html; charset=utf-8" {
			t.Errorf("%s: answered %s", target, kind)
		}
		return w.Code, w.Body.String()
	}
	for _, signedIn := range []bool{false, true} {
		if signedIn {
			s.signIn()
		}
		for _, target := range []string{"/nonsense", "/deliveries/x/y", "/portal/nonsense"} {
			status, body := html(target)
			if status != http.StatusNotFound || !strings.Contains(body, "There is no page at this address.") {
				t.Errorf("%s, signed in %v: answered %d %s", target, signedIn, status, body)
			}
			if nav := strings.Contains(body, `<nav aria-label="Pages">`); nav != (signedIn && target[1] != 'p') {
				t.Errorf("%s, signed in %v: with navigation: %v", target, signedIn, nav)
			}
			if !strings.Contains(target, "portal") && !strings.Contains(body, `<a class="btn go" href="/">`) {
				t.Errorf("%s, signed in %v: there is no way back", target, signedIn)
			}
		}
	}
	if status, body := html("/status"); status != http.StatusOK || body != "the status page" {
		t.Errorf("a page of the API: answered %d %s", status, body)
	}
	w := s.ask("GET", "/nonsense", nil, "Accept", "*/*")
	if w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), `"code":"not_found"`) {
		t.Errorf("a program: answered %d %s", w.Code, w.Body)
	}
}
