package web

import (
	"errors"
	"net/http"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/words"
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

// detailOf is what the API says about an error; empty: it is a fault of the server.
func detailOf(err error) string {
	told, ok := errors.AsType[*client.Error](err)
	if !ok || told.Status == http.StatusInternalServerError {
		return ""
	}
	return sentence(told.Detail)
}

func sentence(text string) string { return words.Sentence(text) }
