package receive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Errors of a handler that are answers of their own. A handler returns them as they are or wrapped.
var (
	// ErrStale: the store has a newer version. A transaction is rolled back, and the key is done.
	ErrStale = errors.New("receive: a newer version was applied before")
	// ErrParked: the event is kept until a gap closes. A transaction is committed, and the key is
	// done.
	ErrParked = errors.New("receive: an earlier version is missing; the event is parked")
	// ErrGone: the receiver wants no more events. Senders disable an endpoint that says so.
	ErrGone = errors.New("receive: no more events are wanted")
)

// ErrLostClaim says that the claim's lease passed and another owner took over; nothing was changed.
var ErrLostClaim = errors.New("receive: lost claim: the lease passed and another owner took over")

// ErrLocked says that another transaction holds the key longer than the wait that was allowed.
var ErrLocked = errors.New("receive: another transaction holds the key")

// ErrNotDead says that a replay found no dead letter under the key, or another replay has taken it.
var ErrNotDead = errors.New("receive: the key has no dead letter that can be replayed")

// kindError is an error whose outcome its maker has chosen.
type kindError struct {
	outcome Outcome
	after   time.Duration
	err     error
}

func (e *kindError) Error() string { return e.err.Error() }
func (e *kindError) Unwrap() error { return e.err }

func kind(o Outcome, after time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &kindError{o, after, err}
}

// Permanent marks an error that no repetition heals. A nil error stays nil.
func Permanent(err error) error { return kind(Rejected, 0, err) }

// Retryable marks an error that passes. A nil error stays nil.
func Retryable(err error) error { return kind(Failed, 0, err) }

// RetryAfter marks an error that passes after d, which becomes the header Retry-After. A nil error
// stays nil.
func RetryAfter(d time.Duration, err error) error { return kind(Failed, d, err) }

// Classify returns the outcome of what a handler returned: Processed, Stale, Parked, Gone, Rejected
// or Failed. Marked errors come first. Then errors of JSON and violations of a constraint are
// Rejected; every other error is Failed, which MaxDeliveries bounds.
func Classify(err error) Outcome {
	if err == nil {
		return Processed
	}
	if marked := new(kindError); errors.As(err, &marked) {
		return marked.outcome
	}
	for _, known := range []struct {
		err     error
		outcome Outcome
	}{{ErrStale, Stale}, {ErrParked, Parked}, {ErrGone, Gone}} {
		if errors.Is(err, known.err) {
			return known.outcome
		}
	}
	if passes(err) || !permanent(err) {
		return Failed
	}
	return Rejected
}

// passes says whether an error is known to pass: it comes before the permanent ones, because an
// error chain may have both.
func passes(err error) bool {
	var network net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.As(err, &network)
}

// permanent says whether a repetition would meet the same error. Class 23 of SQLSTATE is the
// violation of a constraint, and class 22 a value that its column cannot have.
func permanent(err error) bool {
	var (
		syntax *json.SyntaxError
		typed  *json.UnmarshalTypeError
		state  interface{ SQLState() string }
	)
	if errors.As(err, &syntax) || errors.As(err, &typed) {
		return true
	}
	if errors.As(err, &state) {
		class := state.SQLState()
		return strings.HasPrefix(class, "23") || strings.HasPrefix(class, "22")
	}
	// SQLite's drivers share no type, and encoding/json has none for a field that is not allowed.
	text := err.Error()
	return strings.Contains(text, "constraint failed") || strings.Contains(text, "json: unknown field")
}

// StatusError is the answer of a service that the handler has called. It is retryable, and its
// Retry-After becomes the kit's.
type StatusError struct {
	Status     int
	RetryAfter string // the header's value: seconds or a date
}

func (e *StatusError) Error() string { return fmt.Sprintf("a service answered %d", e.Status) }

// retryAfter is the pause that an error asks for; 0: it asks for none.
func retryAfter(err error, now time.Time) time.Duration {
	if marked := new(kindError); errors.As(err, &marked) && marked.after > 0 {
		return marked.after
	}
	answer := new(StatusError)
	if !errors.As(err, &answer) {
		return 0
	}
	if seconds, err := strconv.ParseUint(answer.RetryAfter, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(answer.RetryAfter); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}
