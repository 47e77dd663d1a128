package web

import (
	"crypto/sha256"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/pass"
	"github.com/grapnelhq/grapnel/internal/face/oidc"
)

// begun is a sign-in between its begin and its answer. It is sealed into a cookie, so an answer
// counts only in the browser that began: an attacker cannot sign another person's browser in.
type begun struct {
	Flow oidc.Flow `json:"f"`
	Next string    `json:"n"`
	Ends time.Time `json:"e"`
}

// startPeople sends the browser to the issuer. It is a link and no form: browsers apply a page's
// policy for forms to where a form's answer redirects.
func (v *visit) startPeople() error {
	next := local(v.URL.Query().Get("next"))
	if len(next) > v.web.Bounds.Next {
		next = "/"
	}
	if !v.web.Known(v.Request) { // the issuer would send the person's code wherever the request says
		return refused(http.StatusConflict, "This server does not know its public address.",
			"Ask its administrator to start it with --public-url, or with --trusted-proxies behind a proxy.")
	}
	to, flow, err := v.web.People.Issuer.Begin(v.Context(), v.place.URL(callbackPath))
	if err != nil {
		return v.noSession(err, next, nil)
	}
	text, err := v.web.seals.SealFor(peopleCookie, begun{flow, next, v.now.Add(v.web.Bounds.Flow)})
	if err != nil {
		return err
	}
	v.setCookie(peopleCookie, text, v.web.Bounds.Flow)
	v.seeOther(to)
	return nil
}

// errNotBegun is the fault of an answer without a cookie.
var errNotBegun = &oidc.Fault{Why: oidc.NotBegun, Err: errors.New("the browser has no sign-in in progress")}

// errTwice is the fault of an answer that came before.
var errTwice = &oidc.Fault{Why: oidc.CodeOver, Err: errors.New("the sign-in was finished before")}

// callback takes the issuer's answer from the browser. The sign-in ends with it, however it ends.
func (v *visit) callback() error {
	is, err := v.takeBegun()
	if err != nil {
		return v.noSession(err, "/", nil)
	}
	claims, err := v.web.People.Issuer.Finish(v.Context(), is.Flow, v.URL.Query())
	if err != nil {
		return v.noSession(err, is.Next, nil)
	}
	grant, err := v.web.People.Issuer.Mapping.Grant(claims)
	if err != nil {
		return v.noSession(err, is.Next, claims)
	}
	s, err := v.web.person(claims, grant)
	if err == nil {
		err = v.begin(s)
	}
	if err != nil {
		return err
	}
	v.web.Log.LogAttrs(v.Context(), slog.LevelInfo, "person signed in", slog.String("person", s.KeyID), slog.String("role", string(s.Role)),
		slog.String("tenant", s.Tenant))
	v.redirect(is.Next)
	return nil
}

// takeBegun takes the browser's sign-in, which can be finished once.
func (v *visit) takeBegun() (begun, error) {
	var is begun
	text := v.cookie(peopleCookie)
	if text == "" {
		return is, errNotBegun
	}
	v.setCookie(peopleCookie, "", -1)
	if v.web.seals.OpenFor(peopleCookie, text, &is) != nil || !v.now.Before(is.Ends) {
		return is, errNotBegun
	}
	if !v.web.flows.take(is.Flow.State, is.Ends, v.now) {
		return is, errTwice
	}
	return is, nil
}

// person makes the session of a person. The subject is what the audit names: the address, if the
// issuer has verified it, and the issuer's name for the person, which never changes.
func (w *web) person(c oidc.Claims, g oidc.Grant) (*session, error) {
	rights, known := grapnel.RightsOf(g.Role)
	if !known {
		return nil, errors.New("web: a rule has an unknown role")
	}
	scopes := rights.Scopes
	if g.Payloads && !grapnel.May(scopes, grapnel.ScopePayloadRead) {
		scopes = append(scopes, grapnel.ScopePayloadRead)
	}
	life := w.People.Session
	if life <= 0 {
		life = w.Bounds.Session
	}
	s := &session{KeyID: "person/" + who(c), Name: who(c), Tenant: g.Tenant, Role: g.Role, Scopes: scopes, Ends: w.Clock().Add(life)}
	if name, ok := c.Text("name"); ok && name != "" {
		s.Name = plainText(name, 100)
	}
	var err error
	s.Pass, err = w.Passes.Seal(pass.Pass{Subject: s.KeyID, Name: s.Name, Tenant: s.Tenant, Role: s.Role, Scopes: s.Scopes,
		Begins: w.Clock(), Ends: s.Ends})
	return s, err
}

// who names a person in words of the issuer.
func who(c oidc.Claims) string {
	subject := plainText(c.Subject(), 255)
	if email, ok := c.Email(); ok {
		return plainText(email, 255) + " (" + subject + ")"
	}
	return subject
}

// plainText makes one line of at most `most` bytes out of any text.
func plainText(text string, most int) string {
	text = strings.Map(func(c rune) rune {
		if !unicode.IsGraphic(c) || c == unicode.ReplacementChar {
			return '?'
		}
		return c
	}, text)
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "")
	}
	return text
}

// signOutIssuer leads to the address. The session here has ended before.
func (v *visit) signOutIssuer() error {
	to, known := v.web.signOutAt(v)
	if !known {
		to = v.link("/login")
	}
	v.seeOther(to)
	return nil
}

// signInFault is what people read about a kind of fault. NAME stands for the issuer's.
type signInFault struct {
	status        int
	problem, help string
}

var signInFaults = map[oidc.Why]signInFault{
	oidc.Unreachable: {http.StatusServiceUnavailable, "NAME cannot be reached, or does not answer as it should.",
		"Try again in a minute. If it goes on, ask the administrator of this server."},
	oidc.Misnamed: {http.StatusServiceUnavailable, "The settings of this server name another issuer than NAME does.",
		"Ask the administrator to set --oidc-issuer to the name in the log."},
	oidc.BadClient: {http.StatusServiceUnavailable, "NAME does not accept this server.",
		"Ask the administrator to compare --oidc-client-id, GRAPNEL_OIDC_CLIENT_SECRET, --oidc-scopes and the redirect address with NAME."},
	oidc.CodeOver:  {http.StatusForbidden, "This sign-in was used already, or took too long.", "Please sign in again."},
	oidc.Denied:    {http.StatusForbidden, "NAME refused the sign-in.", "Try again, or ask the administrator of NAME whether you may use this server."},
	oidc.NotBegun:  {http.StatusForbidden, "This browser has not begun this sign-in, or too long ago.", "Please sign in again; the browser has to accept cookies."},
	oidc.BadAnswer: {http.StatusForbidden, "The answer does not come from NAME.", "Please sign in again. If it goes on, ask the administrator of this server."},
	oidc.BadToken:  {http.StatusForbidden, "The answer of NAME cannot be trusted.", "Please sign in again. If it goes on, ask the administrator of this server."},
	oidc.Clocks: {http.StatusServiceUnavailable, "The clocks of NAME and of this server differ.",
		"Ask the administrator to set this server's clock; the log says how far they are apart."},
	oidc.Busy:     {http.StatusServiceUnavailable, "Too many people sign in at this moment.", "Please try again in a moment."},
	oidc.NoRole:   {http.StatusForbidden, "You have no role on this server.", "Ask its administrator for one."},
	oidc.NoTenant: {http.StatusForbidden, "NAME does not say which tenant you belong to.", "Ask the administrator of NAME to set it."},
}

// noSession says why a sign-in failed, on the page where the person can try again. What the issuer
// sent is not repeated, but for the name of the person.
func (v *visit) noSession(err error, next string, claims oidc.Claims) error {
	if v.Context().Err() != nil {
		return nil // the browser has left
	}
	why := oidc.WhyOf(err)
	is, known := signInFaults[why]
	if !known {
		return err
	}
	name := strings.NewReplacer("NAME", v.web.People.Name)
	m := signing{Next: next, Problem: sentence(name.Replace(is.problem)), Help: name.Replace(is.help)}
	if claims != nil {
		m.Help += " You are signed in there as " + who(claims) + "."
	}
	if !errors.Is(err, errNotBegun) { // or strangers could fill the log without an issuer's part in it
		m.Request = v.requestID()
		if failed, ok := v.web.flows.mayLog(v.now); ok {
			v.web.Log.LogAttrs(v.Context(), slog.LevelWarn, "sign-in failed", slog.String("reason", string(why)), slog.String("err", err.Error()),
				slog.String("request_id", m.Request), slog.Int("failed", failed))
		}
	}
	return v.askForKey(is.status, m)
}

// requestID is the id that a proxy gave the request, or a new one.
func (v *visit) requestID() string {
	id := v.Header.Get("X-Request-Id")
	if !grapnel.ValidID(id) {
		id = grapnel.NewID("req", v.now, v.web.Random)
	}
	v.rw.Header().Set("X-Request-Id", id)
	return id
}

func newFlows(b Bounds) *flows {
	return &flows{most: b.Flows, rest: b.SignIns, used: map[[32]byte]time.Time{}}
}

// take uses a sign-in up; false: it was.
func (f *flows) take(state string, ends, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	sum := sha256.Sum256([]byte(state))
	if _, used := f.used[sum]; used {
		return false
	}
	if len(f.used) >= f.most {
		for id, until := range f.used {
			if !now.Before(until) {
				delete(f.used, id)
			}
		}
		if len(f.used) >= f.most {
			clear(f.used)
		}
	}
	f.used[sum] = ends
	return true
}

// mayLog says whether a failed sign-in gets a line, and how many the line stands for.
func (f *flows) mayLog(now time.Time) (failed int, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failed++
	if now.Sub(f.logged) < f.rest {
		return 0, false
	}
	failed, f.failed, f.logged = f.failed, 0, now
	return failed, true
}
