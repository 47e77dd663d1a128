package web

import (
	"crypto/sha256"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/pass"
)

// signing is the model of the page that asks for a key.
type signing struct {
	Next    string
	Problem string
	Help    string
	Request string // id of the failed request; empty: the log has nothing about it

	People string // address at which people sign in with the issuer; empty: they do not
	Issuer string // its name
	Only   bool   // there is no form for keys
	Out    string // address that signs out at the issuer
}

// login asks for a key.
func (v *visit) login() error {
	next := local(v.URL.Query().Get("next"))
	if v.session != nil {
		v.redirect(next)
		return nil
	}
	m := signing{Next: next}
	if _, known := v.web.signOutAt(v); known && v.URL.Query().Has("out") {
		m.Out = v.link(outPath)
	}
	return v.askForKey(http.StatusOK, m)
}

// askForKey draws the form that asks for a key.
func (v *visit) askForKey(status int, m signing) error {
	if p := &v.web.People; p.Issuer != nil {
		m.People, m.Issuer, m.Only = v.link(startPath+withQuery("next", m.Next)), p.Name, p.Only
	}
	return v.drawAlone(status, "Sign in", "login.html", m)
}

// drawAlone draws a page with a form that needs no session. The form's token is made from a cookie
// of its own.
func (v *visit) drawAlone(status int, title, template string, model any) (err error) {
	id := v.cookie(formCookie)
	if len(id) != 22 { // as NewID makes them
		if id, err = v.web.seals.NewID(); err != nil {
			return err
		}
		v.setCookie(formCookie, id, 0)
	}
	s := v.bare(title)
	s.Model, s.Token = model, v.web.seals.token(id)
	return v.draw(status, template, s)
}

// signIn has the API look at the key. Its limits for wrong keys hold here, and the search by hash
// takes the same time for every key.
func (v *visit) signIn() error {
	if err := v.readForm(); err != nil {
		return err
	}
	m := signing{Next: local(v.PostForm.Get("next"))}
	if v.web.People.Only {
		m.Problem = "API keys cannot sign in on this page."
		return v.askForKey(http.StatusForbidden, m)
	}
	if !v.isOwn(v.cookie(formCookie)) {
		m.Problem = "The form was not from this page. Please try again; the browser has to accept cookies."
		return v.askForKey(http.StatusForbidden, m)
	}
	text := strings.TrimSpace(v.PostForm.Get("key"))
	if text == "" || len(text) > v.web.Bounds.Key || pass.Is(text) ||
		strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c > '~' }) {
		m.Problem, m.Help = "That is not an API key.", "A key begins with grp_ and has no spaces."
		return v.askForKey(http.StatusUnprocessableEntity, m)
	}
	return v.enter(text, m)
}

// enter begins a session with a key that the API accepts; else the form says why not.
func (v *visit) enter(text string, m signing) error {
	caller, _ := v.web.caller(text, "", v.Request)
	key, err := caller.WhoAmI(v.Context())
	if told, ok := errors.AsType[*client.Error](err); ok {
		m.Problem, m.Help = told.Detail, helps[told.Code]
		if told.Status == http.StatusUnauthorized {
			m.Problem, m.Help = "The server does not know this key.", "It may have been revoked, or belong to another server."
		}
		return v.askForKey(told.Status, m)
	}
	if err != nil {
		return err
	}
	s, err := v.web.keySession(text, key)
	if err == nil {
		err = v.begin(s)
	}
	if err == nil {
		v.redirect(m.Next)
	}
	return err
}

// keySession makes the session of an API key.
func (w *web) keySession(text string, key *client.Key) (s *session, err error) {
	now := w.Clock()
	s = &session{KeyID: key.ID, Name: key.Name, Tenant: key.Tenant, Scopes: key.Scopes, Ends: now.Add(w.Bounds.Session)}
	s.Pass, err = w.Passes.Seal(pass.Pass{Subject: key.ID, Name: key.Name, Tenant: key.Tenant, Begins: now, Ends: s.Ends,
		Maker: &pass.Maker{ID: key.ID, Tenant: key.Tenant, Key: pass.Mark(sha256.Sum256([]byte(text)))}})
	return s, err
}

// begin gives the browser a session.
func (v *visit) begin(s *session) (err error) {
	if s.ID, err = v.web.seals.NewID(); err != nil {
		return err
	}
	text, err := v.web.seals.SealFor(sessionCookie, s)
	if err != nil {
		return err
	}
	v.setCookie(sessionCookie, text, s.Ends.Sub(v.now))
	v.setCookie(formCookie, "", -1)
	return nil
}

// signOut ends the session at the server. One that has ended before is no failure.
func (v *visit) signOut() error {
	err := v.client.SignOut(v.Context())
	if told, ok := errors.AsType[*client.Error](err); ok && told.Status == http.StatusUnauthorized {
		return nil
	}
	return err
}

// leaveDashboard ends the session and removes its cookie.
func (v *visit) leaveDashboard() error {
	if err := v.ownForm(); err != nil {
		return err
	}
	v.setCookie(sessionCookie, "", -1)
	if err := v.signOut(); err != nil {
		return err // the browser is signed out; a copy of its cookie is not
	}
	to := "/login"
	if _, known := v.web.signOutAt(v); known && v.session.Role != "" {
		to += "?out"
	}
	v.seeOther(v.link(to))
	return nil
}

// setLook keeps how pages look in cookies, so that the first paint is right.
func (v *visit) setLook() error {
	if err := v.ownForm(); err != nil {
		return err
	}
	for name, values := range looks {
		if value := v.PostForm.Get(strings.TrimPrefix(name, "grapnel_")); slices.Contains(values, value) {
			v.setCookie(name, value, 365*24*time.Hour)
		}
	}
	if wants(v.Request, "application/json") {
		v.rw.WriteHeader(http.StatusNoContent)
		return nil
	}
	v.redirect(v.PostForm.Get("back"))
	return nil
}

// readForm reads a form in limited time: callers without a session can send one, and would delay a
// stop.
func (v *visit) readForm() error {
	connection := http.NewResponseController(v.rw)
	_ = connection.SetReadDeadline(time.Now().Add(v.web.Bounds.FormTime)) // else the server's own limit holds
	v.Body = http.MaxBytesReader(v.rw, v.Body, v.web.Bounds.FormBody)
	if v.ParseForm() != nil {
		return refused(http.StatusBadRequest, "The form cannot be read.", "Go back and send it again.")
	}
	_ = connection.SetReadDeadline(time.Time{}) // a deadline that passes would end the request's context
	return nil
}

// isOwn says whether a form is from a page of this server with the token that is made from the id.
func (v *visit) isOwn(id string) bool {
	return !v.web.foreign(v.Request) && v.web.seals.isToken(id, v.PostForm.Get("token"))
}

// ownForm reads a form and refuses one that is not from this session's pages.
func (v *visit) ownForm() error {
	switch err := v.readForm(); {
	case err != nil:
		return err
	case v.session == nil:
		return refused(http.StatusForbidden, "The session has ended.", "Sign in again.")
	case !v.isOwn(v.session.form()):
		return refused(http.StatusForbidden, "The form is not from this session.", "Reload the page where you were and send it again.")
	}
	return nil
}
