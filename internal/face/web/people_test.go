package web

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/pass"
	"github.com/grapnelhq/grapnel/internal/face/oidc"
)

// withIssuer is a dashboard whose people sign in with an issuer that is down.
func withIssuer(t *testing.T, only bool) func(*Options) {
	t.Helper()
	issuer, err := oidc.New(oidc.Options{Issuer: "http://127.0.0.1:1", ClientID: "grapnel", Secret: "canary"})
	if err != nil {
		t.Fatal(err)
	}
	return func(o *Options) {
		o.People = People{Issuer: issuer, Name: "Corp <ID>", Only: only, Session: time.Hour}
		o.Passes = pass.NewSealer(o.Secret, nil, rand.Reader)
	}
}

// TestTheSignInPageOffersTheIssuer: the button, with the way back; the form for keys unless only
// people sign in; and a fault of the issuer with a way out and the id of the request.
func TestTheSignInPageOffersTheIssuer(t *testing.T) {
	for _, only := range []bool{false, true} {
		s := newSite(t, withIssuer(t, only))
		body := s.ask("GET", "/login?next=/audit", nil).Body.String()
		if !strings.Contains(body, `href="/login/start?next=%2Faudit">Sign in with Corp &lt;ID&gt;`) {
			t.Errorf("no button: %s", body)
		}
		if strings.Contains(body, `name="key"`) == only {
			t.Errorf("only %v, and the form for keys is there or not: %s", only, body)
		}
		w := s.ask("GET", "/login/start?next=/audit", nil, "X-Request-Id", "req_of_a_proxy")
		if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "Corp &lt;ID&gt; cannot be reached") ||
			!strings.Contains(w.Body.String(), "Request <code>req_of_a_proxy</code>") || !strings.Contains(w.Body.String(), "next=%2Faudit") {
			t.Errorf("with an issuer that is down: %d %s", w.Code, w.Body)
		}
		if w.Header().Get("Content-Security-Policy") == "" || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("headers are %v", w.Header())
		}
	}
	if body := newSite(t, nil).ask("GET", "/login", nil).Body.String(); strings.Contains(body, startPath) {
		t.Error("a way to an issuer is offered although there is none")
	}
}

// TestASignInGoesWhereTheOperatorSays: not where the Host of a request says.
func TestASignInGoesWhereTheOperatorSays(t *testing.T) {
	s := newSite(t, func(o *Options) {
		withIssuer(t, false)(o)
		o.Known = func(*http.Request) bool { return false }
	})
	if w := s.ask("GET", "/login/start", nil); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "--public-url") {
		t.Errorf("answered %d %s", w.Code, w.Body)
	}
}

// TestTheSessionOfAPerson has a pass with the scopes of the role, which ends with the session.
func TestTheSessionOfAPerson(t *testing.T) {
	s := newSite(t, withIssuer(t, false))
	claims := oidc.Claims{"sub": json.RawMessage(`"al\u0000ice\u202e"`), "email": json.RawMessage(`"a@corp.example"`),
		"email_verified": json.RawMessage(`true`), "name": json.RawMessage(`"Alice <b>"`)}
	for _, test := range []struct {
		grant oidc.Grant
		sees  bool
	}{
		{oidc.Grant{Role: grapnel.RoleViewer, Tenant: "acme"}, false},
		{oidc.Grant{Role: grapnel.RoleViewer, Tenant: "acme", Payloads: true}, true},
		{oidc.Grant{Role: grapnel.RoleOperator}, true},
	} {
		is, err := s.web.person(claims, test.grant)
		if err != nil {
			t.Fatal(err)
		}
		p, valid := s.web.Passes.Open(is.Pass, then)
		if !valid || p.Subject != "person/a@corp.example (al?ice?)" || p.Role != test.grant.Role || p.Tenant != test.grant.Tenant || p.Portal ||
			grapnel.May(p.Scopes, grapnel.ScopePayloadRead) != test.sees || is.Name != "Alice <b>" {
			t.Errorf("%+v: the pass is %+v", test.grant, p)
		}
		if _, valid := s.web.Passes.Open(is.Pass, then.Add(time.Hour)); valid || !is.Ends.Equal(then.Add(time.Hour)) {
			t.Error("the pass outlives the session")
		}
	}
	if _, err := s.web.person(claims, oidc.Grant{Role: "root"}); err == nil {
		t.Error("an unknown role gets a session")
	}
	if grapnel.May(grapnel.Roles()[0].Scopes, grapnel.ScopePayloadRead) {
		t.Error("a granted payload has changed the table of roles")
	}
}

// TestASignInIsFinishedOnce: also while many others are remembered; and its cookie is good for
// nothing else, nor for longer than its time.
func TestASignInIsFinishedOnce(t *testing.T) {
	f := newFlows(Bounds{Flows: 3, SignIns: time.Second})
	for i := range 10 {
		state, ends := fmt.Sprint(i), then.Add(time.Duration(i)*time.Second)
		if !f.take(state, ends, then) || f.take(state, ends, then) || len(f.used) > 3 {
			t.Errorf("sign-in %d: taken never, or twice, of %d", i, len(f.used))
		}
	}
	if n, ok := f.mayLog(then); !ok || n != 1 {
		t.Error("the first failure is not logged")
	}
	for range 5 {
		if _, ok := f.mayLog(then); ok {
			t.Error("a line for each failure")
		}
	}
	if n, ok := f.mayLog(then.Add(time.Second)); !ok || n != 6 {
		t.Errorf("the line stands for %d", n)
	}

	s := newSite(t, withIssuer(t, false))
	sealed := func(use string, ends time.Time) *http.Cookie {
		state := fmt.Sprint(sha256.Sum256([]byte(use)), ends)
		text, err := s.web.seals.SealBytes(use, asText(t, begun{Flow: oidc.Flow{State: state}, Next: "/", Ends: ends}))
		if err != nil {
			t.Fatal(err)
		}
		return &http.Cookie{Name: peopleCookie, Value: text}
	}
	for name, test := range map[string]struct {
		cookie *http.Cookie
		says   string
	}{
		"too late":       {sealed(peopleCookie, then), "has not begun this sign-in"},
		"another cookie": {sealed(sessionCookie, then.Add(time.Minute)), "has not begun this sign-in"},
		"its own":        {sealed(peopleCookie, then.Add(time.Minute)), "has not begun this sign-in"}, // the state is another
		"its own again":  {sealed(peopleCookie, then.Add(time.Minute)), "used already"},
	} {
		if name == "its own again" {
			s.cookies = []*http.Cookie{test.cookie}
			s.ask("GET", callbackPath+"?state=x&code=y", nil)
		}
		s.cookies = []*http.Cookie{test.cookie}
		w := s.ask("GET", callbackPath+"?state=x&code=y", nil)
		if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), test.says) && name != "its own" {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
		for _, c := range s.cookies {
			if c.Name == peopleCookie || c.Name == sessionCookie {
				t.Errorf("%s: the browser has %s", name, c.Name)
			}
		}
	}
}

func asText(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
