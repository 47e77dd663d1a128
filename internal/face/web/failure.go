package web

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
)

// failure is an error as people see it: what happened, what they can do, and where to look it up.
type failure struct {
	Status  int
	Title   string
	Detail  string
	Fields  []client.Field
	Help    string
	Request string // id of the request, to find it in the server's log
}

func (f *failure) Error() string { return f.Title }

// Heading is the title as a sentence.
func (f *failure) Heading() string { return sentence(f.Title) }

// refused is an error of this package's own.
func refused(status int, title, help string) error {
	return &failure{Status: status, Title: title, Help: help}
}

// helps says what a person can do about a code of the API.
var helps = map[string]string{
	"unauthenticated":               "Sign in again.",
	"forbidden":                     "Sign in with a key that has this scope.",
	string(grapnel.CodeNotFound):    "Check the address. Deleted things and those of another tenant look the same.",
	string(grapnel.CodeConflict):    "Go back and look at the present state; another operator may have been quicker.",
	string(grapnel.CodeInvalid):     "Change the fields named above and try again.",
	string(grapnel.CodeMalformed):   "Change the search and try again.",
	"rate_limited":                  "Wait a moment and try again.",
	string(grapnel.CodeUnavailable): "Reload in a moment. Deliveries go on without this page.",
	string(grapnel.CodeOverloaded):  "Reload in a moment. Deliveries go on without this page.",
	string(grapnel.CodeStorageFull): "Make room on the disk. Events accepted before are stored and delivered.",
}

// fail answers with an error. Errors of the API keep its words and its request id.
func (v *visit) fail(err error) {
	f := v.failure(err)
	if f == nil {
		return
	}
	if f.Status == http.StatusSeeOther {
		v.redirect(f.Title)
		return
	}
	if f.Status == http.StatusUnauthorized && v.session != nil {
		if v.web.home == "" {
			v.web.setCookie(v.rw, v.Request, sessionCookie, "", -1)
		}
		v.toLogin()
		return
	}
	s := v.bare(f.Title)
	s.Model = f
	if v.session != nil {
		s.Nav, s.Finds = v.entries(""), v.link("/deliveries")
	}
	text, err := v.web.draw("failure.html", s)
	if err != nil {
		v.web.Log.Error("error page not drawn", slog.String("err", err.Error()))
		http.Error(v.rw, f.Title, f.Status)
		return
	}
	v.write(f.Status, text)
}

// failure turns an error into what a person reads; nil: the browser has left.
func (v *visit) failure(err error) *failure {
	var own *failure
	var told *client.Error
	switch {
	case errors.As(err, &own):
		return own
	case v.Context().Err() != nil && errors.Is(err, context.Canceled):
		return nil
	case errors.As(err, &told):
		f := &failure{
			Status: cmp.Or(told.Status, http.StatusUnprocessableEntity), Detail: sentence(told.Detail), Fields: told.Fields,
			Help: helps[told.Code], Request: told.RequestID,
		}
		f.Title = cmp.Or(told.Title, http.StatusText(f.Status))
		return f
	}
	v.web.Log.Error("page failed", slog.String("path", v.URL.Path), slog.String("err", err.Error()))
	return &failure{Status: http.StatusInternalServerError, Title: "The page could not be drawn",
		Help: "Reload it. If that does not help, look for \"page failed\" in the server's log."}
}
