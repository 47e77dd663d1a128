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
func (w *web) login(rw http.ResponseWriter, r *http.Request) {
	v := w.visit(rw, r, nil)
	next := local(r.URL.Query().Get("next"))
	if v.session != nil {
		v.redirect(next)
		return
	}
	m := signing{Next: next}
	if _, known := w.signOutAt(v); known && r.URL.Query().Has("out") {
		m.Out = v.link(outPath)
	}
	v.askForKey(http.StatusOK, m)
}

// askForKey draws the form. Its token is made from a cookie of its own, because there is no session
// yet.
func (v *visit) askForKey(status int, m signing) {
	id, ok := v.formID()
	if !ok {
		return
	}
	if p := &v.web.People; p.Issuer != nil {
		m.People, m.Issuer, m.Only = v.link(startPath+withQuery("next", m.Next)), p.Name, p.Only
	}
	s := v.bare("Sign in")
	s.Model, s.Token = m, v.web.seals.token(id)
	v.draw(status, "login.html", s)
}

// askWithCode draws the form of a login link.
func (v *visit) askWithCode(code string) {
	id, ok := v.formID()
	if !ok {
		return
	}
	s := v.bare("Sign in")
	s.Model, s.Token = onceModel{code}, v.web.seals.token(id)
	v.draw(http.StatusOK, "once.html", s)
}

// formID is what the token of a form without a session is made from; false: the request is
// answered.
func (v *visit) formID() (id string, ok bool) {
	id = v.web.cookie(v.Request, formCookie)
	if len(id) != 22 { // as NewID makes them
		var err error
		if id, err = v.web.seals.NewID(); err != nil {
			v.fail(err)
			return "", false
		}
		v.web.setCookie(v.rw, v.Request, formCookie, id, 0)
	}
	return id, true
}

// signIn has the API look at the key. Its limits for wrong keys hold here, and the search by hash
// takes the same time for every key.
func (w *web) signIn(rw http.ResponseWriter, r *http.Request) {
	v := w.visit(rw, r, nil)
	if err := w.readForm(rw, r); err != nil {
		v.fail(refused(http.StatusBadRequest, "The form cannot be read.", "Go back and send it again."))
		return
	}
	m := signing{Next: local(r.PostForm.Get("next"))}
	if w.People.Only {
		m.Problem = "API keys cannot sign in on this page."
		v.askForKey(http.StatusForbidden, m)
		return
	}
	if w.foreign(r) || !w.seals.isToken(w.cookie(r, formCookie), r.PostForm.Get("token")) {
		m.Problem = "The form was not from this page. Please try again; the browser has to accept cookies."
		v.askForKey(http.StatusForbidden, m)
		return
	}
	text := strings.TrimSpace(r.PostForm.Get("key"))
	if text == "" || len(text) > w.Bounds.Key || pass.Is(text) ||
		strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c > '~' }) {
		m.Problem, m.Help = "That is not an API key.", "A key begins with grp_ and has no spaces."
		v.askForKey(http.StatusUnprocessableEntity, m)
		return
	}
	v.enter(text, m)
}

// enter begins a session with a key that the API accepts; else the form says why not.
func (v *visit) enter(text string, m signing) {
	caller, _ := v.web.caller(text, "", v.Request)
	key, err := caller.WhoAmI(v.Context())
	var told *client.Error
	switch {
	case errors.As(err, &told):
		m.Problem, m.Help = told.Detail, helps[told.Code]
		if told.Status == http.StatusUnauthorized {
			m.Problem, m.Help = "The server does not know this key.", "It may have been revoked, or belong to another server."
		}
		v.askForKey(told.Status, m)
		return
	case err != nil:
		v.fail(err)
		return
	}
	s, err := v.web.keySession(text, key)
	if err == nil {
		err = v.begin(s)
	}
	if err != nil {
		v.fail(err)
		return
	}
	v.redirect(m.Next)
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
	v.web.setCookie(v.rw, v.Request, sessionCookie, text, s.Ends.Sub(v.now))
	v.web.setCookie(v.rw, v.Request, formCookie, "", -1)
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

// signOut ends the session and removes its cookie.
func (w *web) signOut(rw http.ResponseWriter, r *http.Request) {
	v := w.visit(rw, r, nil)
	if err := v.ownForm(); err != nil {
		v.fail(err)
		return
	}
	w.setCookie(rw, r, sessionCookie, "", -1)
	if err := v.signOut(); err != nil {
		v.fail(err) // the browser is signed out; a copy of its cookie is not
		return
	}
	to := "/login"
	if _, known := w.signOutAt(v); known && v.session.Role != "" {
		to += "?out"
	}
	v.seeOther(v.link(to))
}

// look keeps how pages look in cookies, so that the first paint is right.
func (w *web) look(rw http.ResponseWriter, r *http.Request) {
	v := w.visit(rw, r, nil)
	if err := v.ownForm(); err != nil {
		v.fail(err)
		return
	}
	for name, values := range looks {
		if value := r.PostForm.Get(strings.TrimPrefix(name, "grapnel_")); slices.Contains(values, value) {
			w.setCookie(rw, r, name, value, 365*24*time.Hour)
		}
	}
	if wants(r, "application/json") {
		rw.WriteHeader(http.StatusNoContent)
		return
	}
	v.redirect(r.PostForm.Get("back"))
}

// readForm reads a form in limited time: callers without a session can send one, and would delay a
// stop.
func (w *web) readForm(rw http.ResponseWriter, r *http.Request) error {
	connection := http.NewResponseController(rw)
	_ = connection.SetReadDeadline(time.Now().Add(w.Bounds.FormTime)) // else the server's own limit holds
	r.Body = http.MaxBytesReader(rw, r.Body, w.Bounds.FormBody)
	if err := r.ParseForm(); err != nil {
		return err
	}
	_ = connection.SetReadDeadline(time.Time{}) // a deadline that passes would end the request's context
	return nil
}

// ownForm reads a form and refuses one that is not from this session's pages.
func (v *visit) ownForm() error {
	switch err := v.web.readForm(v.rw, v.Request); {
	case err != nil:
		return refused(http.StatusBadRequest, "The form cannot be read.", "Go back and send it again.")
	case v.session == nil:
		return refused(http.StatusForbidden, "The session has ended.", "Sign in again.")
	case v.web.foreign(v.Request) || !v.web.seals.isToken(v.session.form(), v.PostForm.Get("token")):
		return refused(http.StatusForbidden, "The form is not from this session.", "Reload the page where you were and send it again.")
	}
	return nil
}
