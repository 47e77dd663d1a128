package web

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
)

// errPreview has an action draw its page again with the inputs as they were sent. Nothing was
// changed.
var errPreview = errors.New("web: a preview was asked for")

// redraw draws the form of an action again, after the API refused it or a preview was asked for. The
// error is returned if the action has no page, or if it is about something else.
func (v *visit) redraw(path string, err error) error {
	if preview, bad := url.Parse(v.PostForm.Get("back")); path == "/replays/start" && bad == nil {
		path = "/replays/new" // its form is a part of the preview
		v.URL.Path, v.URL.RawQuery = v.web.home+path, preview.RawQuery
	}
	i := slices.IndexFunc(v.web.pages, func(p page) bool { return p.path == path })
	if i < 0 {
		return err
	}
	if errors.Is(err, errPreview) {
		v.page = &v.web.pages[i]
		return v.show(http.StatusOK)
	}
	told, ok := errors.AsType[*client.Error](err)
	if !ok || told.Status == http.StatusUnauthorized { // the session has ended
		return err
	}
	v.page, v.refusal = &v.web.pages[i], told
	return v.show(cmp.Or(told.Status, http.StatusUnprocessableEntity))
}

// wrong refuses the text of an input, in the way of the API.
func wrong(at, detail string) error {
	return invalid(client.Field{Pointer: "/" + at, Detail: detail})
}

func invalid(faults ...client.Field) error {
	return &client.Error{Status: http.StatusUnprocessableEntity, Code: string(grapnel.CodeInvalid), Title: "A field is invalid",
		Fields: faults}
}

func (v *visit) reveal() error {
	if v.secret.Secret == "" {
		v.secret.unrevealed()
	}
	s := v.bare("Shown once")
	s.Model, s.Nav, s.Finds, s.Here = v.secret, v.entries(""), v.link("/deliveries"), v.secret.Back
	return v.draw(http.StatusOK, "secret.html", s)
}

// unrevealed replaces a secret that the session may not see.
func (m *secretModel) unrevealed() {
	m.Label, m.Secret = "", ""
	m.Verdict.Next = "This link may not show secrets. Ask for one that may, or rotate the secret to one of your own."
}
