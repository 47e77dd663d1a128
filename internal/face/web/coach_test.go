package web

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// story is a coach of the tests.
type story struct {
	scene Scene
	fixed int
}

func (s *story) Scene() Scene { return s.scene }
func (s *story) Fix()         { s.fixed++; s.scene.Fixed = true }

// TestCoach: the page follows the story: a step is ticked when the story says so, the repair is
// offered while it is needed, and at the end come lines to paste without the key.
func TestCoach(t *testing.T) {
	s := newSite(t, nil)
	told := &story{scene: Scene{Refuser: "ep_1", KeyFile: "/data/dev/admin.key", Program: "grapnel",
		Steps: []Step{{Title: "One", Detail: "seen", Done: true}, {Title: "Two"}, {Title: "Three"}}}}
	s.web.Dev.Coach = told
	s.signIn()
	shows := func(want ...string) string {
		t.Helper()
		body := s.ask("GET", coachPath, nil).Body.String()
		for _, text := range want {
			if !strings.Contains(body, text) {
				t.Errorf("the page lacks %q", text)
			}
		}
		return body
	}
	if body := shows("1 of 3 steps", "seen"); strings.Contains(body, "Fix the receiver") {
		t.Error("the repair is offered before it is needed")
	}
	told.scene.Asked = true
	token := s.token(coachPath)
	shows("Fix the receiver", "ep_1")
	if w := s.ask("POST", fixPath, url.Values{"token": {token}, "back": {coachPath}}); w.Code != http.StatusSeeOther || told.fixed != 1 {
		t.Errorf("answered %d; repaired %d times", w.Code, told.fixed)
	}
	if body := shows("Replay its"); strings.Contains(body, "Fix the receiver") {
		t.Error("the repair is offered again")
	}
	for i := range told.scene.Steps {
		told.scene.Steps[i].Done = true
	}
	if body := shows("GRAPNEL_KEY_FILE=/data/dev/admin.key", "GRAPNEL_SERVER=http://example.com"); strings.Contains(body, goodKey) {
		t.Error("the page shows the key")
	}
}

// TestCoachIsLive: a change of the story has a live page drawn again, though the API's answers are
// the same.
func TestCoachIsLive(t *testing.T) {
	s := newSite(t, nil)
	told := &story{scene: Scene{Steps: []Step{{Title: "One"}}}}
	s.web.Dev.Coach = told
	s.signIn()
	v := s.visitOf(coachPath)
	r := &reader{}
	if _, version, err := r.look(v); err != nil || version != 1 {
		t.Fatalf("version %d, %v", version, err)
	}
	later := then.Add(time.Second)
	s.now.Store(&later)
	told.scene.Steps[0].Done = true
	if _, version, err := r.look(v); err != nil || version != 2 {
		t.Errorf("version %d, %v", version, err)
	}
}

// TestWithoutStory: a server without the hook has neither the page nor the links.
func TestWithoutStory(t *testing.T) {
	s := newSite(t, func(o *Options) { o.Dev = Dev{} })
	s.signIn()
	for _, path := range []string{coachPath, "/login/once?code=x"} {
		if w := s.ask("GET", path, nil); w.Code != s.ask("GET", "/no/page", nil).Code {
			t.Errorf("%s: answered %d", path, w.Code)
		}
	}
	if strings.Contains(s.ask("GET", "/", nil).Body.String(), coachPath) {
		t.Error("the navigation leads to a page that does not exist")
	}
}

// onLoopback sends requests as a browser on the server's machine does.
func onLoopback(s *site) {
	inner := s.handler
	s.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.RemoteAddr == "192.0.2.1:1234" { // as httptest has it
			r.RemoteAddr, r.Host = "127.0.0.1:5000", "127.0.0.1:8420"
		}
		inner.ServeHTTP(w, r)
	})
}

// TestLoginLink: a link signs in once, within its time, on this machine, and only by its form.
func TestLoginLink(t *testing.T) {
	s := newSite(t, nil)
	onLoopback(s)
	at := then
	s.web.Dev.Codes.clock = func() time.Time { return at }
	issue := func() (path, code string) {
		t.Helper()
		path, err := s.web.Dev.Codes.Link(goodKey)
		if err != nil {
			t.Fatal(err)
		}
		_, code, _ = strings.Cut(path, "code=")
		return path, code
	}
	path, code := issue()
	if strings.Contains(path, goodKey) {
		t.Error("the link has the key")
	}
	for range 2 { // looking does not use it up
		if w := s.ask("GET", path, nil); w.Code != http.StatusOK || s.named(sessionCookie) != nil {
			t.Fatalf("the link: answered %d", w.Code)
		}
	}
	use := func(code string, headers ...string) *httptest.ResponseRecorder {
		t.Helper()
		s.cookies = nil
		token := s.token("/login/once?code=" + code)
		return s.ask("POST", "/login/once", url.Values{"token": {token}, "code": {code}}, headers...)
	}
	for name, w := range map[string]*httptest.ResponseRecorder{
		"no token":          s.ask("POST", "/login/once", url.Values{"code": {code}}),
		"from another site": use(code, "Sec-Fetch-Site", "cross-site"),
		"a guess":           use("AAAAAAAAAAAAAAAAAAAAAA"),
	} {
		if w.Code != http.StatusForbidden || s.named(sessionCookie) != nil {
			t.Errorf("%s: answered %d", name, w.Code)
		}
	}
	if w := use(code); w.Code != http.StatusSeeOther || w.Header().Get("Location") != coachPath || s.named(sessionCookie) == nil {
		t.Fatalf("answered %d to %s", w.Code, w.Header().Get("Location"))
	}
	if w := s.ask("GET", coachPath, nil); w.Code != http.StatusOK {
		t.Errorf("with the session: answered %d", w.Code)
	}
	if w := use(code); w.Code != http.StatusForbidden || s.named(sessionCookie) != nil {
		t.Errorf("a second time: answered %d", w.Code)
	}
	_, code = issue()
	at = at.Add(codeLife)
	if w := use(code); w.Code != http.StatusForbidden || s.named(sessionCookie) != nil {
		t.Errorf("too late: answered %d", w.Code)
	}
	for range 10 * codesMost {
		issue()
	}
	if n := len(s.web.Dev.Codes.known); n > codesMost {
		t.Errorf("%d codes are stored", n)
	}
}

// TestLoginLinkIsForThisMachine: requests from elsewhere, and to another name, are refused.
func TestLoginLinkIsForThisMachine(t *testing.T) {
	s := newSite(t, nil)
	path, err := s.web.Dev.Codes.Link(goodKey)
	if err != nil {
		t.Fatal(err)
	}
	for _, is := range []struct {
		remote, host string
		want         int
	}{
		{"127.0.0.1:5", "127.0.0.1:8420", 200}, {"[::1]:5", "[::1]:8420", 200}, {"127.0.0.1:5", "localhost:8420", 200},
		{"192.0.2.7:5", "127.0.0.1:8420", 403}, {"127.0.0.1:5", "evil.example", 403}, {"127.0.0.1:5", "127.0.0.1.evil.example:8420", 403},
	} {
		r := httptest.NewRequest("GET", path, nil)
		r.RemoteAddr, r.Host = is.remote, is.host
		w := httptest.NewRecorder()
		s.web.mux().ServeHTTP(w, r)
		if w.Code != is.want {
			t.Errorf("from %s to %s: answered %d", is.remote, is.host, w.Code)
		}
	}
}
