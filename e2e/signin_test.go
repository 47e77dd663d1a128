//go:build linux && prove

package e2e

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// TestPeopleSignIn: people of a certified issuer get the role and tenant that the rules and their
// claims say, the pages obey the role, and the audit has their names.
func TestPeopleSignIn(t *testing.T) {
	beside(t, light)
	i := startIssuer(t)
	c := serverWithIssuer(t, i, "--log-level", "debug")
	base := "http://" + c.addr
	var ep, other struct{ ID string }
	for tenant, into := range map[string]any{"acme": &ep, "globex": &other} {
		c.must(201, "POST", "/v1/endpoints", map[string]any{"url": "http://127.0.0.1:9/" + tenant, "tenant": tenant,
			"description": "endpoint of " + tenant, "status": "paused"}, into)
		c.must(202, "POST", "/v1/events", map[string]any{"id": "evt_" + tenant, "type": "a.b", "tenant": tenant,
			"data": map[string]any{"text": "canary of " + tenant}}, nil)
	}

	_, _, page := newSurfer(t).ask(base+"/login", nil)
	if !strings.Contains(page, "Sign in with Corp ID") || !strings.Contains(page, `name="key"`) {
		t.Errorf("the sign-in page offers: %s", page)
	}
	people := map[string]*surfer{}
	for _, name := range []string{"alice", "dave", "oscar", "vera"} {
		s := newSurfer(t)
		if at := s.signIn(c, name, "/events/evt_acme?x=1"); at != base+"/events/evt_acme?x=1" {
			t.Fatalf("%s arrives at %s", name, at)
		}
		people[name] = s
	}
	for name, want := range map[string]struct {
		sees, others, keys bool
		pause, publish     int
	}{
		"alice": {sees: true, others: true, keys: true, pause: 303, publish: 303},
		"dave":  {sees: true, pause: 303, publish: 303},
		"oscar": {sees: true, pause: 303, publish: 403},
		"vera":  {pause: 403, publish: 403},
	} {
		s := people[name]
		for _, path := range []string{"/events/evt_acme", "/events/evt_acme?format=json"} {
			status, _, body := s.ask(base+path, nil)
			if status != http.StatusOK || strings.Contains(body, "canary of acme") != want.sees {
				t.Errorf("%s sees at %s: %d %s", name, path, status, body)
			}
		}
		if status, _, body := s.ask(base+"/endpoints/"+other.ID, nil); (status == http.StatusOK) != want.others || strings.Contains(body, "endpoint of globex") != want.others {
			t.Errorf("%s sees of another tenant: %d", name, status)
		}
		if status, _, _ := s.ask(base+"/keys", nil); (status == http.StatusOK) != want.keys {
			t.Errorf("%s asks for keys: %d", name, status)
		}
		if status, body := s.act(c, "/endpoints/"+ep.ID+"/resume", nil); status != want.pause {
			t.Errorf("%s resumes: %d %s", name, status, body)
		}
		if status, body := s.act(c, "/endpoints/"+ep.ID+"/pause", nil); status != want.pause {
			t.Errorf("%s pauses: %d %s", name, status, body)
		}
		if status, body := s.act(c, "/events/evt_acme/publish", nil); status != want.publish {
			t.Errorf("%s publishes: %d %s", name, status, body)
		}
	}
	var audit struct {
		Data []struct{ Actor, Verb string }
	}
	c.must(200, "GET", "/v1/audit?limit=100", nil, &audit)
	acted := map[string]bool{}
	for _, e := range audit.Data {
		acted[e.Actor] = true
	}
	for name, want := range map[string]bool{"alice": true, "dave": true, "oscar": true, "vera": false} {
		if actor := "person/" + name + "@corp.example (" + name + ")"; acted[actor] != want {
			t.Errorf("the audit names %s: %v; want %v in %v", actor, acted[actor], want, acted)
		}
	}
	_, _, page = people["oscar"].ask(base+"/", nil)
	if !strings.Contains(page, "operator, ") || !strings.Contains(page, "tenant acme") {
		t.Errorf("the page does not name the person")
	}
	var seen struct{ Data []struct{ Tenant string } }
	_, _, text := people["oscar"].ask(base+"/endpoints?format=json", nil)
	if err := json.Unmarshal([]byte(text), &seen); err != nil || len(seen.Data) != 1 || seen.Data[0].Tenant != "acme" {
		t.Errorf("oscar lists %s, %v", text, err)
	}

	status, body := people["oscar"].act(c, "/logout", nil)
	if status != http.StatusSeeOther {
		t.Errorf("signing out: %d %s", status, body)
	}
	if to := people["oscar"].follow(base+"/", nil); to != base+"/login" {
		t.Errorf("after signing out a page leads to %s", to)
	}
	if _, _, body := people["oscar"].ask(base+"/login?out", nil); !strings.Contains(body, "Sign out at Corp ID as well") {
		t.Errorf("no way to sign out at the issuer: %s", body)
	}
	if to := people["oscar"].follow(people["oscar"].follow(base+"/login/out", nil), nil); to != base+"/login" {
		t.Errorf("the issuer leads to %s after signing out", to)
	}
	for _, secret := range []string{issuerSecret, "canary of"} {
		if strings.Contains(c.words(1<<20), secret) {
			t.Errorf("the log has %q", secret)
		}
	}
}

// TestHostileSignIns: each attack on the sign-in ends without a session, and says what to do.
func TestHostileSignIns(t *testing.T) {
	beside(t, light)
	i := startIssuer(t)
	c := serverWithIssuer(t, i, "--log-level", "debug")
	base := "http://" + c.addr
	refused := func(t *testing.T, s *surfer, address, says string) {
		t.Helper()
		status, _, body := s.ask(address, nil)
		if status != http.StatusForbidden && status != http.StatusServiceUnavailable || !strings.Contains(body, says) {
			t.Errorf("answered %d: %s", status, body)
		}
		if to := s.follow(base+"/", nil); to != base+"/login" {
			t.Errorf("there is a session: / leads to %s", to)
		}
	}
	with := func(address, name, value string) string {
		at, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		q := at.Query()
		q.Set(name, value)
		at.RawQuery = q.Encode()
		return at.String()
	}
	get := func(address, name string) string {
		at, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		return at.Query().Get(name)
	}
	t.Run("an answer twice", func(t *testing.T) {
		s := newSurfer(t)
		at := s.toCallback(c, "alice", "/")
		where, err := url.Parse(base)
		if err != nil {
			t.Fatal(err)
		}
		stolen := s.http.Jar.Cookies(where)
		s.follow(at, nil)
		thief := newSurfer(t)
		thief.http.Jar.SetCookies(where, stolen)
		refused(t, thief, at, "used already")
	})
	t.Run("an answer of another browser", func(t *testing.T) { // login CSRF
		refused(t, newSurfer(t), newSurfer(t).toCallback(c, "vera", "/"), "has not begun this sign-in")
	})
	t.Run("an answer of another browser while one signs in", func(t *testing.T) {
		victim := newSurfer(t)
		victim.follow(base+"/login/start", nil)
		refused(t, victim, newSurfer(t).toCallback(c, "vera", "/"), "has not begun this sign-in")
	})
	t.Run("a code of another browser", func(t *testing.T) { // code injection
		mallory := newSurfer(t)
		at := mallory.toCallback(c, "nemo", "/")
		stolen := get(newSurfer(t).toCallback(c, "alice", "/"), "code")
		refused(t, mallory, with(at, "code", stolen), "used already, or took too long")
	})
	t.Run("an invented code", func(t *testing.T) {
		s := newSurfer(t)
		refused(t, s, with(s.toCallback(c, "alice", "/"), "code", "invented"), "Request <code>req_")
	})
	t.Run("no role", func(t *testing.T) {
		s := newSurfer(t)
		refused(t, s, s.toCallback(c, "nemo", "/"), "You have no role on this server. Ask its administrator for one. You are signed in there as nemo@elsewhere.example (nemo).")
	})
	t.Run("no tenant", func(t *testing.T) {
		s := newSurfer(t)
		refused(t, s, s.toCallback(c, "mute", "/"), "Corp ID does not say which tenant you belong to.")
	})
	t.Run("the issuer refuses", func(t *testing.T) {
		s := newSurfer(t)
		state := get(s.follow(base+"/login/start", nil), "state")
		refused(t, s, base+"/login/callback?error=access_denied&state="+url.QueryEscape(state), "Corp ID refused the sign-in.")
	})
	for _, next := range []string{"https://evil.example/", "//evil.example", `/\evil.example`, "/\t/evil.example", "javascript:alert(1)", "http:evil"} {
		if at := newSurfer(t).signIn(c, "vera", next); at != base+"/" {
			t.Errorf("next=%q leads to %s", next, at)
		}
	}
	for _, secret := range []string{issuerSecret, "invented"} {
		if strings.Contains(c.words(1<<20), secret) {
			t.Errorf("the log has %q", secret)
		}
	}
}

// TestTheIssuerChanges: new keys of the issuer are found, sessions end in time, and the page names
// the fault of a wrong secret, or of an issuer that is down.
func TestTheIssuerChanges(t *testing.T) {
	beside(t, light)
	i := startIssuer(t)
	c := serverWithIssuer(t, i, "--bounds", "oidc.keysagain=1ms,oidc.again=1ms,oidc.document=1s", "--oidc-session", "2s", "--oidc-only")
	base := "http://" + c.addr
	for _, alg := range []string{"RS256", "ES256", "EdDSA", "RS256"} {
		i.tell("/test/rotate", url.Values{"alg": {alg}})
		s := newSurfer(t)
		if at := s.signIn(c, "vera", "/audit"); at != base+"/audit" {
			t.Errorf("after the key became one of %s: %s", alg, at)
		}
	}
	s := newSurfer(t)
	s.signIn(c, "vera", "/")
	if status, _, _ := s.ask(base+"/audit", nil); status != http.StatusOK {
		t.Errorf("a new session answers %d", status)
	}
	eventually(t, time.Minute, "the session has ended", func() bool {
		_, to, _ := s.ask(base+"/audit", nil)
		return to == base+"/login?next=%2Faudit"
	})
	_, _, page := s.ask(base+"/login", nil)
	if strings.Contains(page, `name="key"`) {
		t.Error("a form for keys is offered although only people sign in")
	}
	token := field.FindStringSubmatch(page)
	if token != nil {
		t.Error("a page without a form has a token")
	}
	if status, _, _ := s.ask(base+"/login", url.Values{"key": {adminKey}}); status != http.StatusForbidden {
		t.Errorf("a key signs in: %d", status)
	}

	wrong := serverWithSecret(t, i, "wrong-canary")
	s = newSurfer(t)
	status, _, body := s.ask(s.toCallback(wrong, "alice", "/"), nil)
	if status != http.StatusServiceUnavailable || !strings.Contains(body, "Corp ID does not accept this server.") ||
		!strings.Contains(body, "GRAPNEL_OIDC_CLIENT_SECRET") || strings.Contains(body+wrong.words(1<<20), "wrong-canary") {
		t.Errorf("with a wrong secret: %d %s", status, body)
	}
	i.end()
	eventually(t, time.Minute, "the page says that the issuer is down", func() bool {
		status, _, body := newSurfer(t).ask(base+"/login/start", nil)
		return status == http.StatusServiceUnavailable && strings.Contains(body, "Corp ID cannot be reached") && strings.Contains(body, "Request <code>req_")
	})
}
