package web

import (
	"errors"
	"net/http"

	"github.com/grapnelhq/grapnel/client"
)

// The acknowledge link of a message leads to a page with a button, which needs no session: the link
// is the credential. Opening the link alone acknowledges nothing, because programs that preview
// links open them.

// alertLinkModel is that page.
type alertLinkModel struct {
	Verdict verdict
	Link    string // empty: there is nothing to press
	Page    string // of the alert, for people who can sign in
	At      moment
}

// mostAlertLink bounds the length of a link's token.
const mostAlertLink = 1 << 10

// linkedAlert calls the API without a key.
func (w *web) linkedAlert(v *visit, link string, ask func(*client.Client) (*client.AlertLink, error)) (*client.AlertLink, error) {
	if link == "" || len(link) > mostAlertLink {
		return nil, refused(http.StatusNotFound, "This is no acknowledge link.", "Open the link of a message as it is.")
	}
	caller, _ := w.caller("", "", v.Request)
	a, err := ask(caller)
	if refusal, ok := errors.AsType[*client.Error](err); ok && refusal.Status < http.StatusInternalServerError {
		return nil, refused(http.StatusNotFound, "The link has expired, or its alert was deleted.", "Sign in and look at the alerts.")
	}
	return a, err
}

// lookAtLink shows the alert that a link names, and the button.
func (w *web) lookAtLink(rw http.ResponseWriter, r *http.Request) {
	v := w.visit(rw, r, nil)
	link := r.URL.Query().Get("link")
	a, err := w.linkedAlert(v, link, func(c *client.Client) (*client.AlertLink, error) { return c.AlertLink(v.Context(), link) })
	if err != nil {
		v.fail(err)
		return
	}
	v.showLink(a, link)
}

// followLink acknowledges the alert.
func (w *web) followLink(rw http.ResponseWriter, r *http.Request) {
	v := w.visit(rw, r, nil)
	if err := w.readForm(rw, r); err != nil || w.foreign(r) || !w.seals.isToken(w.cookie(r, formCookie), r.PostForm.Get("token")) {
		v.fail(refused(http.StatusForbidden, "The form was not from this page.", "Open the link again; the browser has to accept cookies."))
		return
	}
	link := r.PostForm.Get("link")
	a, err := w.linkedAlert(v, link, func(c *client.Client) (*client.AlertLink, error) { return c.FollowAlertLink(v.Context(), link) })
	if err != nil {
		v.fail(err)
		return
	}
	v.showLink(a, "")
}

// showLink draws the page. With a link, and while the alert fires, it has the button.
func (v *visit) showLink(a *client.AlertLink, link string) {
	m := alertLinkModel{Page: v.link("/alerts/" + a.AlertID), At: v.at(a.Since)}
	m.Verdict.Pieces = []piece{{a.Title + ".", ""}}
	switch a.State {
	case "firing":
		m.Link, m.Verdict.Next = link, "Acknowledge it if you take care of it. It is then not repeated."
	case "acknowledged":
		m.Verdict.Next = "It is acknowledged, and not repeated."
	default:
		m.Verdict.Next = "It is resolved."
	}
	id, ok := v.formID()
	if !ok {
		return
	}
	v.session = nil // the page does not depend on who opens it
	s := v.bare("Alert")
	s.Model, s.Token = m, v.web.seals.token(id)
	v.draw(http.StatusOK, "alert-link.html", s)
}
