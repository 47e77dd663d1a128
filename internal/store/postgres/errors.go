package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// errUnknown is in the chain of errors that leave the outcome of the transaction unknown.
var errUnknown = fmt.Errorf("postgres: %w", store.ErrUnknown)

// errSpoiled is the error of a transaction that conflicted with a concurrent one. A new try sees
// the other's effect.
var errSpoiled = errors.New("postgres: another transaction came in between")

// Classes and codes of SQLSTATE.
const (
	stateDeadlock      = "40P01"
	stateSerialization = "40001"
	stateUnique        = "23505"
	stateCheck         = "23514"
	stateCanceled      = "57014"
	stateDiskFull      = "53100"
	stateNoTable       = "42P01"
	stateLocked        = "55P03"
	stateAuthorization = "28" // the class: the role or its password is refused
)

func stateOf(err error) string {
	if e, is := errors.AsType[*pgconn.PgError](err); is {
		return e.Code
	}
	return ""
}

// spoiled says whether a transaction, which wrote nothing, may succeed at another try.
func spoiled(err error) bool {
	if err == nil || errors.Is(err, errUnknown) {
		return false
	}
	states := []string{stateDeadlock, stateSerialization, stateUnique, stateCheck, stateNoTable}
	return slices.Contains(states, stateOf(err)) || errors.Is(err, errSpoiled)
}

// gone says whether the database, not the operation, is the reason. Other operations would fail as
// well.
func gone(err error) bool {
	state := stateOf(err)
	return state == "" || state == "25006" || slices.Contains([]string{"08", stateAuthorization, "53", "57", "58"}, state[:2])
}

// broken says whether a transaction, which wrote nothing, failed because its connection was cut,
// maybe long before.
func broken(err error) bool {
	if err == nil || errors.Is(err, errUnknown) || errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(*pgconn.ConnectError)) {
		return false
	}
	state := stateOf(err)
	return state == "" && !decided(err) && !errors.Is(err, errSpoiled) || len(state) == 5 && state[:3] == "57P"
}

// asError is the error for a caller. It has a code unless the outcome is unknown; a code means that
// nothing was written.
func asError(err error) error {
	switch {
	case err == nil, errors.Is(err, errUnknown):
		return err
	case errors.Is(err, store.ErrWentBack):
		var refused *grapnel.Error // without the text about how it was detected, so that each call returns the same error
		errors.As(err, &refused)
		return refused
	case decided(err):
		return err
	case stateOf(err) == stateDiskFull:
		return &grapnel.Error{Code: grapnel.CodeStorageFull, Detail: "the database has no room", Err: err}
	case len(stateOf(err)) == 5 && stateOf(err)[:2] == "22": // bytes that are no text, or a number out of range
		return &grapnel.Error{Code: grapnel.CodeInvalid, Detail: "the database cannot keep this", Err: err}
	case gone(err), spoiled(err):
		return &grapnel.Error{Code: grapnel.CodeUnavailable, Detail: "the database cannot be used at the moment", Err: err}
	}
	return fmt.Errorf("postgres: %w", err)
}

// readError is the error of a read: the caller's own, if the caller gave up.
func readError(ctx context.Context, err error) error {
	if err != nil && gaveUp(ctx) {
		return ctx.Err()
	}
	return asError(err)
}

// errLate is the cause with which the store's own contexts end: the database did not answer in
// time.
var errLate = errors.New("postgres: the database did not answer in time")

// gaveUp says whether the caller gave up, not this package.
func gaveUp(ctx context.Context) bool {
	return ctx.Err() != nil && !errors.Is(context.Cause(ctx), errLate)
}

// unidentified says whether a server refuses to report its identity, as some hosted ones do.
func unidentified(err error) bool {
	return slices.Contains([]string{"0A000", "42501", "42883"}, stateOf(err)) // not supported, not allowed, no such function
}

// errUnlike ends a transaction that expected something else of a delivery without lane.
var errUnlike = errors.New("postgres: a delivery is not as its change expects")

// decided says whether an operation failed by its own decision, before any change.
func decided(err error) bool {
	return errors.Is(err, store.ErrStale) || errors.Is(err, store.ErrFenced) || grapnel.CodeOf(err) != ""
}
