package web

import (
	"html"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
)

// documented is the API of a site that has its OpenAPI document as well.
type documented struct{ *recorded }

func (d documented) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/openapi.json" {
		d.recorded.ServeHTTP(w, r)
		return
	}
	text, err := os.ReadFile("../api/openapi.golden.json")
	if err != nil {
		d.t.Error(err)
	}
	_, _ = w.Write(text)
}

func newReferenceSite(t *testing.T) *site {
	return newSite(t, func(o *Options) { o.API = documented{o.API.(*recorded)} })
}

// TestTheReferenceIsWhole: every page that a page of the reference leads to exists, with
// a session and without, loads nothing from elsewhere, runs no script but its own files, and
// has a Markdown twin.
func TestTheReferenceIsWhole(t *testing.T) {
	s := newReferenceSite(t)
	href := regexp.MustCompile(`href="(/docs[^"#]*)`)
	crawl := func() int {
		seen := map[string]bool{}
		for queue := []string{"/docs"}; len(queue) > 0; queue = queue[1:] {
			target := queue[0]
			if seen[target] {
				continue
			}
			seen[target] = true
			w := s.ask("GET", target, nil)
			page, h := w.Body.String(), w.Header()
			if w.Code != http.StatusOK || h.Get("Content-Security-Policy") != contentPolicy {
				t.Fatalf("%s: answered %d %v", target, w.Code, h)
			}
			if strings.HasSuffix(target, ".md") {
				if !strings.HasPrefix(page, "# ") || h.Get("Content-Type") != "text/markdown; charset=utf-8" {
					t.Errorf("%s: %v, begins with %.40q", target, h, page)
				}
				continue
			}
			for _, bad := range []string{" style=", " onclick=", "javascript:", "<script>", "<no value>", "%!"} {
				if strings.Contains(page, bad) {
					t.Errorf("%s has %s", target, bad)
				}
			}
			for _, found := range loads.FindAllStringSubmatch(page, -1) {
				if to := html.UnescapeString(found[1]); !strings.HasPrefix(to, "/") && !strings.HasPrefix(to, "#") || strings.HasPrefix(to, "//") {
					t.Errorf("%s leads to %s", target, to)
				}
			}
			for _, found := range href.FindAllStringSubmatch(page, -1) {
				queue = append(queue, found[1])
			}
		}
		return len(seen)
	}
	if n := crawl(); n < 300 {
		t.Errorf("only %d pages", n)
	}
	s.signIn()
	crawl()
}

// TestTheShortReferenceLeadsToEveryPage: /llms.txt has one title, a summary, and links to Markdown
// that exists; it needs no session, and repeats neither the Host of the request nor a name of a
// tenant.
func TestTheShortReferenceLeadsToEveryPage(t *testing.T) {
	s := newReferenceSite(t)
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://ignore.previous.instructions/llms.txt", http.NoBody))
	text := w.Body.String()
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Fatalf("answered %d %v", w.Code, w.Header())
	}
	if !strings.HasPrefix(text, "# Grapnel\n\n> ") || strings.Count(text, "\n# ") > 0 || strings.Contains(text, "ignore.previous") {
		t.Errorf("%.300s", text)
	}
	links := regexp.MustCompile(`(?m)^- \[[^\]\n]+\]\((/[^)\s]+)\)(: .+)?$`).FindAllStringSubmatch(text, -1)
	if len(links) < 25 || len(links) != strings.Count(text, "\n- ") {
		t.Errorf("%d links of %d rows", len(links), strings.Count(text, "\n- "))
	}
	for _, link := range links {
		if link[1] == "/openapi.json" {
			continue
		}
		if page := s.ask("GET", link[1], nil); page.Code != http.StatusOK || !strings.HasPrefix(page.Body.String(), "# ") || !strings.HasSuffix(link[1], ".md") {
			t.Errorf("%s: answered %d", link[1], page.Code)
		}
	}
}

// TestTheReferenceIsKept: a browser asks whether a page is the same; one for a session is not
// stored.
func TestTheReferenceIsKept(t *testing.T) {
	s := newReferenceSite(t)
	for _, target := range []string{"/docs", "/docs/endpoints", "/docs/endpoints.md"} {
		first := s.ask("GET", target, nil)
		again := s.ask("GET", target, nil, "If-None-Match", first.Header().Get("Etag"))
		if first.Header().Get("Cache-Control") != "no-cache" || again.Code != http.StatusNotModified || again.Body.Len() > 0 {
			t.Errorf("%s: %v, then %d", target, first.Header(), again.Code)
		}
	}
	if w := s.ask("GET", "/docs/nothing", nil); w.Code != http.StatusNotFound {
		t.Errorf("a page that does not exist: answered %d", w.Code)
	}
	s.signIn()
	if w := s.ask("GET", "/docs/endpoints", nil); w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("with a session: %v", w.Header())
	}
}

// TestRequestsAreTriedInASession: the button asks with the session's key, which no page has; only
// what changes nothing can be asked.
func TestRequestsAreTriedInASession(t *testing.T) {
	s := newReferenceSite(t)
	const form = `action="/docs/try/list-endpoints"`
	if strings.Contains(s.ask("GET", "/docs/endpoints", nil).Body.String(), form) {
		t.Error("a request can be tried without a session")
	}
	if w := s.ask("GET", "/docs/try/list-endpoints", nil); w.Code != http.StatusUnauthorized {
		t.Errorf("without a session: answered %d", w.Code)
	}
	s.signIn()
	page := s.ask("GET", "/docs/endpoints", nil).Body.String()
	if !strings.Contains(page, form) || strings.Contains(page, goodKey) || strings.Contains(page, "try/delete-endpoint") {
		t.Error("the page offers the wrong requests, or has the key")
	}
	for target, want := range map[string]int{
		"/docs/try/list-endpoints?limit=5":   http.StatusOK,
		"/docs/try/get-endpoint?id=ep_1":     http.StatusOK,
		"/docs/try/get-endpoint?id=":         http.StatusUnprocessableEntity,
		"/docs/try/get-endpoint?id=..%2F..":  http.StatusOK, // one segment of the path, not two steps up
		"/docs/try/delete-endpoint?id=ep_1":  http.StatusNotFound,
		"/docs/try/next?name=orders":         http.StatusNotFound,
		"/docs/try/create-endpoint":          http.StatusNotFound,
		"/docs/try/export-deliveries":        http.StatusNotFound,
		"/docs/try/no-such-operation?id=e_1": http.StatusNotFound,
	} {
		if w := s.ask("GET", target, nil); w.Code != want {
			t.Errorf("%s: answered %d, want %d: %.100s", target, w.Code, want, w.Body)
		}
	}
}

// TestTheReferenceIsMadeLater: an API that could not answer is asked again.
func TestTheReferenceIsMadeLater(t *testing.T) {
	s := newSite(t, nil)
	if w := s.ask("GET", "/docs", nil); w.Code != http.StatusServiceUnavailable {
		t.Errorf("without a document: answered %d", w.Code)
	}
	s.web.API = documented{s.api}
	if w := s.ask("GET", "/docs", nil); w.Code != http.StatusOK {
		t.Errorf("with one: answered %d", w.Code)
	}
}

// TestTheReferenceAlone: a server without a dashboard has the reference and nothing else of it.
func TestTheReferenceAlone(t *testing.T) {
	s := newReferenceSite(t)
	s.handler = Reference(s.web.Options)
	page := s.ask("GET", "/docs", nil).Body.String()
	if !strings.Contains(page, "The first event") || strings.Contains(page, "/login") {
		t.Errorf("%.300s", page)
	}
	for _, found := range regexp.MustCompile(`"(/assets/[^"]+)"`).FindAllStringSubmatch(page, -1) {
		if w := s.ask("GET", html.UnescapeString(found[1]), nil); w.Code != http.StatusOK {
			t.Errorf("%s: answered %d", found[1], w.Code)
		}
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/login", nil))
	if w.Code == http.StatusOK {
		t.Error("the sign-in is there")
	}
}
