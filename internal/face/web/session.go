package web

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/pass"
)

// A session is a pass of the API key or the person that signed in, sealed into a cookie; the key
// itself is in no cookie. All nodes with the same session key read it, so a session works on each
// of them and survives restarts, and strangers cannot make the server store anything.

// session is what the cookie says. The name and scopes are for the layout; the API reads the key.
type session struct {
	ID     string          `json:"i"` // random, so that each session has its own form token
	Pass   string          `json:"k"` // ends with the session
	KeyID  string          `json:"n"` // of a person: the subject of passes
	Role   grapnel.Role    `json:"r,omitempty"`
	Name   string          `json:"m"`
	Tenant string          `json:"t"` // empty: all tenants
	Scopes []grapnel.Scope `json:"s"`
	Ends   time.Time       `json:"e"`

	portal  bool // it is a portal's
	framed  bool // its script sends the pass; it has no cookie
	limited bool // to some endpoints of the tenant
	look    pass.Look
}

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

// seals encrypts cookies and makes form tokens. The use of a cookie is bound into its seal, so that
// no cookie passes for another.
type seals struct {
	*pass.Sealer
	tokens [32]byte
}

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

// session reads the session of a request; nil: there is none, or it has ended.
func (w *web) session(r *http.Request) *session {
	if w.home != "" {
		return w.portalSession(r)
	}
	text := w.cookie(r, sessionCookie)
	if text == "" {
		return nil
	}
	s := new(session)
	if w.seals.OpenFor(sessionCookie, text, s) != nil || !w.Clock().Before(s.Ends) {
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

func (w *web) cookie(r *http.Request, name string) string {
	c, err := r.Cookie(w.place(r).cookieName(name))
	if err != nil {
		return ""
	}
	return c.Value
}

// setCookie sets a cookie for a time; 0: until the browser closes; negative: it is removed.
func (w *web) setCookie(rw http.ResponseWriter, r *http.Request, name, value string, life time.Duration) {
	p := w.place(r)
	c := &http.Cookie{Name: p.cookieName(name), Value: value, Path: p.base + "/", MaxAge: int(life / time.Second),
		HttpOnly: true, Secure: p.secure(), SameSite: http.SameSiteLaxMode}
	if life < 0 {
		c.MaxAge = -1
	}
	http.SetCookie(rw, c)
}
