package grapnel

import (
	"errors"
	"fmt"
	"time"
)

// Code is the kind of an error. Each interface translates it in one place: the API to a status, the
// command line to an exit code.
type Code string

// The codes.
const (
	CodeInvalid     Code = "invalid"     // a field is wrong; Pointer says which
	CodeMalformed   Code = "malformed"   // the input cannot be parsed at all
	CodeTooLarge    Code = "too_large"   //
	CodeNotFound    Code = "not_found"   // absent, or of another tenant
	CodeConflict    Code = "conflict"    // the request contradicts the current state
	CodeUnsupported Code = "unsupported" // a content type or encoding that is not taken
	CodeUnavailable Code = "unavailable" // try again later
	CodeStorageFull Code = "storage_full"
	// the server sheds load; RetryAfter is the time until a retry
	CodeOverloaded Code = "overloaded"
	// the tenant has too many pending deliveries, or has published too much on this day; RetryAfter
	// is the time until a retry
	CodeQuota Code = "quota"
	// more requests or events than a rate allows; RetryAfter is the time until a retry
	CodeRateLimited Code = "rate_limited"
	// the tenant has as many event types as it may have
	CodeTooManyTypes Code = "too_many_types"
	// the tenant is being deleted: nothing is created for it. A conflict that no repetition resolves
	// before the tenant is gone
	CodeTenantEnds Code = "tenant_deleted"
	// the filters of the tenant's endpoints cost too much for a request
	CodeTooCostly Code = "filters_too_costly"
	// comparing data with schemas, or schemas with each other, costs too much for a request
	CodeSchemaTooCostly Code = "schema_too_costly"

	// the stored bytes do not match their checksum
	CodeDamaged Code = "damaged"

	CodeMismatch Code = "idempotency_mismatch" // the same Idempotency-Key with another body
	CodeInFlight Code = "idempotency_in_flight"
)

// Error is an error with a code and, for bad input, the invalid fields.
type Error struct {
	Code   Code
	Detail string
	Fields []Field
	Err    error // the cause, for logs; never shown to a caller

	RetryAfter time.Duration // time until a retry makes sense; 0: unknown
	Quota      *Quota        // the tenant's limit that refused; nil: another reason
}

// Field is one fault of an input.
type Field struct {
	// a JSON pointer into the body ("/policy/timeout"), "?name" for a query parameter, a header's
	// name
	Pointer string
	Detail  string
}

func (e *Error) Error() string {
	text := string(e.Code)
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	for _, f := range e.Fields {
		text += fmt.Sprintf(" (%s: %s)", f.Pointer, f.Detail)
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an error with a code.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Detail: fmt.Sprintf(format, args...)}
}

// Invalid makes an error about one field of the input.
func Invalid(pointer, format string, args ...any) *Error {
	text := fmt.Sprintf(format, args...)
	return &Error{Code: CodeInvalid, Detail: pointer + ": " + text, Fields: []Field{{Pointer: pointer, Detail: text}}}
}

// CodeOf is the code of the first Error in err's chain, or "" if it has none.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}
