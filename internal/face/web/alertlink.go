package web

import (
	"context"
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
func (v *visit) linkedAlert(link string, ask func(*client.Client, context.Context, string) (*client.AlertLink, error)) (*client.AlertLink, error) {
	if link == "" || len(link) > mostAlertLink {
		return nil, refused(http.StatusNotFound, "This is no acknowledge link.", "Open the link of a message as it is.")
	}
	caller, _ := v.web.caller("", "", v.Request)
	a, err := ask(caller, v.Context(), link)
	if refusal, ok := errors.AsType[*client.Error](err); ok && refusal.Status < http.StatusInternalServerError {
		return nil, refused(http.StatusNotFound, "The link has expired, or its alert was deleted.", "Sign in and look at the alerts.")
	}
	return a, err
}

// lookAtLink shows the alert that a link names, and the button.
func (v *visit) lookAtLink() error {
	link := v.URL.Query().Get("link")
	a, err := v.linkedAlert(link, (*client.Client).AlertLink)
	if err != nil {
		return err
	}
	return v.showLink(a, link)
}

// followLink acknowledges the alert.
func (v *visit) followLink() error {
	if v.readForm() != nil || !v.isOwn(v.cookie(formCookie)) {
		return notFromHere()
	}
	a, err := v.linkedAlert(v.PostForm.Get("link"), (*client.Client).FollowAlertLink)
	if err != nil {
		return err
	}
	return v.showLink(a, "")
}

// showLink draws the page. With a link, and while the alert fires, it has the button.
func (v *visit) showLink(a *client.AlertLink, link string) error {
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
	v.session = nil // the page does not depend on who opens it
	return v.drawAlone(http.StatusOK, "Alert", "alert-link.html", m)
}
