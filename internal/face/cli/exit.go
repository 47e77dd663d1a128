package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/policy"
)

// The exit codes.
const (
	ExitOK          = 0
	ExitFailure     = 1
	ExitUsage       = 2
	ExitNotFound    = 3
	ExitAuth        = 4
	ExitConflict    = 5
	ExitUnavailable = 6
	ExitRateLimited = 7
	ExitFindings    = 8
	ExitPartial     = 9
	ExitTimeout     = 124
	ExitInterrupted = 130
)

// Fault is an error with its exit code and with advice.
type Fault struct {
	Exit int
	Code string // for programs
	Text string // the failure and its cause
	Next string // advice; may be empty
}

func (f *Fault) Error() string { return f.Text }

// Advise adds advice.
func (f *Fault) Advise(next string) *Fault {
	f.Next = next
	return f
}

// If is nil unless a condition holds.
func (f *Fault) If(is bool) error {
	if !is {
		return nil
	}
	return f
}

// Usagef is the fault of invalid usage.
func Usagef(format string, args ...any) *Fault {
	return &Fault{Exit: ExitUsage, Code: "usage", Text: fmt.Sprintf(format, args...)}
}

// Findings is the fault of a check that found something.
func Findings(format string, args ...any) *Fault {
	return &Fault{Exit: ExitFindings, Code: "findings", Text: fmt.Sprintf(format, args...)}
}

// Partial is the fault of a command that did some of its work.
func Partial(format string, args ...any) *Fault {
	return &Fault{Exit: ExitPartial, Code: "partial", Text: fmt.Sprintf(format, args...)}
}

// Faults gathers all faults of something, so that a user sees more than the first.
type Faults struct{ all []error }

// When adds a fault of invalid usage if it is one, and returns whether it is.
func (f *Faults) When(is bool, format string, args ...any) bool {
	if is {
		f.all = append(f.all, Usagef(format, args...))
	}
	return is
}

// Add adds an error, or those that it joins; nil: none.
func (f *Faults) Add(err error) { f.all = append(f.all, eachOf(err)...) }

// Err joins the faults; Explain explains the first.
func (f *Faults) Err() error { return errors.Join(f.all...) }

// eachOf are the errors that one joins.
func eachOf(err error) []error {
	if joined, is := err.(interface{ Unwrap() []error }); is {
		return joined.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// Explain turns any error into a fault. No other place maps kinds of failure to exit codes.
func Explain(err error) *Fault {
	var (
		fault   *Fault
		refused *client.Error
		lost    *client.Unreachable
		local   *grapnel.Error
	)
	switch {
	case errors.As(err, &fault):
		return fault
	case errors.Is(err, context.DeadlineExceeded):
		return &Fault{ExitTimeout, "timeout", err.Error(), "Give it more time with --timeout, or check the load of the server."}
	case errors.Is(err, context.Canceled):
		return &Fault{ExitInterrupted, "interrupted", "interrupted", ""}
	case errors.As(err, &lost):
		return &Fault{ExitUnavailable, "unavailable", err.Error(),
			"Is it running? Start one with: grapnel serve. If it is elsewhere: --server URL or GRAPNEL_SERVER."}
	case errors.As(err, &refused):
		return explainAnswer(refused)
	case errors.As(err, &local) && local.Err == nil:
		text := local.Detail
		for _, f := range local.Fields {
			text += fmt.Sprintf("; %s: %s", f.Pointer, f.Detail)
		}
		return &Fault{exitOf(local.Code), string(local.Code), text, ""}
	}
	return &Fault{ExitFailure, "failure", err.Error(), ""}
}

func explainAnswer(e *client.Error) *Fault {
	f := &Fault{Exit: ExitFailure, Code: e.Code, Text: e.Error()}
	switch e.Status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType:
		f.Exit = ExitUsage
	case http.StatusUnprocessableEntity:
		f.Exit = ExitUsage
		if e.Code == string(grapnel.CodeMismatch) {
			f.Exit = ExitConflict
		}
	case http.StatusUnauthorized:
		f.Exit, f.Next = ExitAuth, "Give an API key with GRAPNEL_KEY or --key; a server's first key is in admin.key beside its database."
	case http.StatusForbidden:
		f.Exit, f.Next = ExitAuth, "Use a key that may do this from here; make one with: grapnel keys create."
	case http.StatusNotFound, http.StatusGone:
		f.Exit = ExitNotFound
	case http.StatusConflict, http.StatusPreconditionFailed:
		f.Exit = ExitConflict
	case http.StatusTooManyRequests:
		f.Exit, f.Next = ExitRateLimited, tryAgain(e.RetryAfter)
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusInsufficientStorage:
		f.Exit, f.Next = ExitUnavailable, tryAgain(e.RetryAfter)
	}
	if f.Next == "" && e.RequestID != "" && e.Status >= 500 {
		f.Next = "The server's log has more under request id " + e.RequestID + "."
	}
	return f
}

// tryAgain advises to repeat the command, after the time that the server asks for.
func tryAgain(after time.Duration) string {
	if after <= time.Second {
		return "Try again in a moment."
	}
	return "Try again in " + policy.Duration(after).String() + "."
}

// exitOf is the exit code of an error that was found before anything was sent.
func exitOf(code grapnel.Code) int {
	switch code {
	case grapnel.CodeInvalid, grapnel.CodeMalformed, grapnel.CodeTooLarge, grapnel.CodeUnsupported:
		return ExitUsage
	case grapnel.CodeNotFound:
		return ExitNotFound
	case grapnel.CodeConflict, grapnel.CodeMismatch, grapnel.CodeInFlight:
		return ExitConflict
	case grapnel.CodeUnavailable, grapnel.CodeOverloaded, grapnel.CodeStorageFull:
		return ExitUnavailable
	case grapnel.CodeQuota:
		return ExitRateLimited
	}
	return ExitFailure
}

// titles are the titles of problems by exit code; any other is "Failed".
var titles = map[int]string{
	ExitUsage: "Invalid usage", ExitNotFound: "Not found", ExitAuth: "Not allowed", ExitConflict: "Conflict",
	ExitUnavailable: "Server unavailable", ExitRateLimited: "Too many requests", ExitFindings: "Problems found",
	ExitPartial: "Partly done", ExitTimeout: "Timed out", ExitInterrupted: "Interrupted",
}
