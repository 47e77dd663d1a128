package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// errUnknown is in the chain of errors after which nobody knows whether the transaction was committed.
var errUnknown = fmt.Errorf("postgres: %w", store.ErrUnknown)

// errSpoiled is the error of a transaction that met what another one did at the same time. Made again, it sees that.
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
)

func stateOf(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// spoiled says whether a transaction, of which nothing was written, may well succeed when it is made again.
func spoiled(err error) bool {
	if err == nil || errors.Is(err, errUnknown) {
		return false
	}
	switch stateOf(err) {
	case stateDeadlock, stateSerialization, stateUnique, stateCheck, stateNoTable:
		return true
	}
	return errors.Is(err, errSpoiled)
}

// gone says whether the database, not the operation, is the reason. Then there is no use in trying others.
func gone(err error) bool {
	switch state := stateOf(err); {
	case state == "":
		return true
	case state[:2] == "53", state[:2] == "57", state[:2] == "58", state[:2] == "08", state == "25006":
		return true
	}
	return false
}

// broken says whether a transaction, of which nothing was written, has failed because its connection was cut, which may have been long before.
func broken(err error) bool {
	if err == nil || errors.Is(err, errUnknown) || errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(*pgconn.ConnectError)) {
		return false
	}
	state := stateOf(err)
	return state == "" && !decided(err) && !errors.Is(err, errSpoiled) || len(state) == 5 && state[:3] == "57P"
}

// asError is the error that a caller gets. Unless the outcome is unknown it has a code, which says that nothing was written.
func asError(err error) error {
	switch {
	case err == nil, errors.Is(err, errUnknown):
		return err
	case errors.Is(err, store.ErrWentBack):
		var refused *grapnel.Error // without what says how it was found: the error of each call is the same
		errors.As(err, &refused)
		return refused
	case decided(err):
		return err
	case stateOf(err) == stateDiskFull:
		return &grapnel.Error{Code: grapnel.CodeStorageFull, Detail: "the database has no room", Err: err}
	case len(stateOf(err)) == 5 && stateOf(err)[:2] == "22": // a text with bytes that no text has, a number out of range
		return &grapnel.Error{Code: grapnel.CodeInvalid, Detail: "the database cannot keep this", Err: err}
	case gone(err), spoiled(err):
		return &grapnel.Error{Code: grapnel.CodeUnavailable, Detail: "the database cannot be used at the moment", Err: err}
	}
	return fmt.Errorf("postgres: %w", err)
}

// readError is the error of a read: the caller's own, if he gave up.
func readError(ctx context.Context, err error) error {
	if err != nil && gaveUp(ctx) {
		return ctx.Err()
	}
	return asError(err)
}
