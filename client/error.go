package client

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel/wire"
)

// Error is the answer of a server that refused a call.
type Error struct {
	Status     int           // of the HTTP answer
	Code       string        // stable, to switch on
	Title      string        // the kind of problem in words
	Detail     string        // this problem in words
	Fields     []Field       // the invalid fields of the request
	RequestID  string        // to look the call up in the server's log
	RetryAfter time.Duration // from the server; 0: none
	Problem    []byte        // the server's problem+json as received; empty for other content
}

// Field is one thing that is wrong with a request.
type Field = wire.Fault

func (e *Error) Error() string {
	var b strings.Builder
	switch {
	case e.Detail != "":
		b.WriteString(e.Detail)
	case e.Title != "":
		b.WriteString(e.Title)
	default:
		fmt.Fprintf(&b, "the server answered %d %s", e.Status, http.StatusText(e.Status))
	}
	for _, f := range e.Fields {
		// the detail may repeat the fields
		if said := f.Pointer + ": " + f.Detail; !strings.Contains(e.Detail, said) {
			b.WriteString("; " + said)
		}
	}
	return b.String()
}

// Unreachable means that no answer came, so whether the call took effect is unknown.
type Unreachable struct {
	Server string
	Err    error
}

func (e *Unreachable) Error() string { return fmt.Sprintf("no answer from %s: %v", e.Server, e.Err) }

// Unwrap gives the reason, which is the context's error when the call was given up.
func (e *Unreachable) Unwrap() error { return e.Err }

// problem reads an answer of 300 or above.
func problem(resp *http.Response, body []byte) *Error {
	e := &Error{
		Status:     resp.StatusCode,
		RequestID:  resp.Header.Get("X-Request-Id"),
		RetryAfter: retryAfter(resp.Header.Get("Retry-After")),
	}
	if resp.StatusCode < 400 {
		e.Code, e.Detail = "redirect", fmt.Sprintf("the server redirects to %q; use that address", resp.Header.Get("Location"))
		return e
	}
	var doc struct {
		Code      string  `json:"code"`
		Title     string  `json:"title"`
		Detail    string  `json:"detail"`
		Errors    []Field `json:"errors"`
		RequestID string  `json:"request_id"`
	}
	// A proxy on the way answers with a page of its own; then only the status is known.
	if json.Unmarshal(body, &doc) == nil {
		e.Code, e.Title, e.Detail, e.Fields, e.Problem = doc.Code, doc.Title, doc.Detail, doc.Errors, body
		if doc.RequestID != "" {
			e.RequestID = doc.RequestID
		}
	}
	return e
}

// retryAfter reads the form in seconds, the only one that Grapnel sends.
func retryAfter(header string) time.Duration {
	seconds, err := strconv.ParseFloat(header, 64)
	if err != nil || !(seconds > 0 && seconds < 1e6) {
		return 0
	}
	return time.Duration(seconds * float64(time.Second))
}
