package web

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/pass"
)

// A session is a pass of the API key or the person that signed in, sealed into a cookie; the key
// itself is in no cookie. All nodes with the same session key read it, so a session works on each
// of them and survives restarts, and strangers cannot make the server store anything.

// May says whether the session's key has a scope. Pages offer their buttons by it; the API decides.
// What the dashboard does with the scope manage, a portal does with endpoints:write: its rows are
// about endpoints only.
func (s *session) May(scope grapnel.Scope) bool {
	if s.portal && (scope == grapnel.ScopeManage || scope == grapnel.ScopeOperate) {
		scope = grapnel.ScopeEndpointsWrite
	}
	return grapnel.May(s.Scopes, scope)
}

// The cookies, without the prefix that browsers enforce where it can be used.
const (
	sessionCookie = "grapnel_session"
	formCookie    = "grapnel_form"   // before there is a session: what the token of the sign-in form is made from
	peopleCookie  = "grapnel_signin" // a sign-in at the issuer, between its begin and its answer
	noticeCookie  = "grapnel_notice" // what an action says on the next page
	themeCookie   = "grapnel_theme"
	timesCookie   = "grapnel_times"
)

func newSeals(secret func(string) [32]byte, random io.Reader) *seals {
	return &seals{pass.WithKey(secret("cookies of the dashboard"), random), secret("form tokens of the dashboard")}
}

// token is what the forms of a session have.
func (s *seals) token(id string) string {
	mac := hmac.New(sha256.New, s.tokens[:])
	mac.Write([]byte(id))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// isToken compares in constant time.
func (s *seals) isToken(id, token string) bool {
	return id != "" && hmac.Equal([]byte(s.token(id)), []byte(token))
}

// readSession reads the session of a request; nil: there is none, or it has ended.
func (v *visit) readSession() *session {
	if v.web.home != "" {
		return v.portalSession()
	}
	text := v.cookie(sessionCookie)
	if text == "" {
		return nil
	}
	s := new(session)
	if v.web.seals.OpenFor(sessionCookie, text, s) != nil || !v.now.Before(s.Ends) {
		return nil
	}
	return s
}

// cookieName has the prefix __Host- where a browser accepts it: by https, and not below a path.
func (p place) cookieName(name string) string {
	if p.secure() && p.base == "" {
		return "__Host-" + name
	}
	return name
}

func (v *visit) cookie(name string) string {
	c, err := v.Cookie(v.place.cookieName(name))
	if err != nil {
		return ""
	}
	return c.Value
}

// setCookie sets a cookie for a time; 0: until the browser closes; negative: it is removed.
func (v *visit) setCookie(name, value string, life time.Duration) {
	c := &http.Cookie{Name: v.place.cookieName(name), Value: value, Path: v.place.base + "/", MaxAge: int(life / time.Second),
		HttpOnly: true, Secure: v.place.secure(), SameSite: http.SameSiteLaxMode}
	if life < 0 {
		c.MaxAge = -1
	}
	http.SetCookie(v.rw, c)
}

// looks are the values of the cookies that say how pages look; the first is the default.
var looks = map[string][]string{
	themeCookie: {"auto", "light", "dark"},
	timesCookie: {"local", "utc"},
}

// choice is the value of such a cookie.
func (v *visit) choice(name string) string {
	values := looks[name]
	if value := v.cookie(name); slices.Contains(values, value) {
		return value
	}
	return values[0]
}

// portalSession reads the pass of a request: the one in its header, else the one in the cookie.
func (v *visit) portalSession() *session {
	text, framed := strings.CutPrefix(v.Header.Get("Authorization"), "Bearer ")
	if !framed {
		text = v.cookie(portalCookie)
	}
	p, valid := v.web.Passes.Open(text, v.now)
	if !valid || !p.Portal || p.Opens != nil {
		return nil
	}
	return &session{ID: p.ID, Pass: text, KeyID: p.Subject, Name: strings.TrimPrefix(p.Subject, "portal/"), Tenant: p.Tenant, Scopes: p.Scopes,
		Ends: p.Ends, portal: true, framed: framed, look: p.Look, limited: p.Endpoints != nil}
}

// mayDo says whether a session is offered an action, by its path.
func (v *visit) mayDo(path string) bool {
	i := slices.IndexFunc(v.web.actions, func(a action) bool { return a.path == path })
	return i >= 0 && v.session.May(v.web.actions[i].scope) && !(v.session.limited && ofWhole(path))
}

// ofWhole says whether a page or an action is about a tenant as a whole: a session that is limited to
// some endpoints has none of it.
func ofWhole(path string) bool {
	return path == "/endpoints/new" || path == "/contacts" || strings.HasPrefix(path, "/contacts/")
}

// A session of all tenants can look at one of them: then its requests to the API are narrowed to
// the tenant, and its pages are those of a session that is bound to it. Which one it is stands in
// the session's cookie. The pages that ofAll names stay those of all tenants.

// ofAll says whether a page or an action is about all tenants together, by its path.
func ofAll(path string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return first == "customers" || first == "nodes" || first == "settings"
}

// narrowed is the session as a page about one tenant has it.
func (s *session) narrowed() *session {
	if s.Only == "" {
		return s
	}
	one := *s
	one.Tenant = s.Only
	return &one
}

// form is what the tokens of the session's forms are made from. A form that was drawn for one
// tenant is refused once the session looks at another: it would change the other.
func (s *session) form() string {
	if s.Only == "" {
		return s.ID
	}
	return s.ID + " " + s.Only
}
