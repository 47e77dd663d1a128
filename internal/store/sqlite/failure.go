package sqlite

import (
	"errors"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store/journal"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

func errFull(cause error) error {
	return &grapnel.Error{Code: grapnel.CodeStorageFull, Detail: "the disk that holds the database is full", Err: cause}
}

func full(err error) bool {
	var e *sqlite3.Error
	return errors.As(err, &e) && e.Full() || journal.Full(err)
}

func busy(err error) bool {
	var e *sqlite3.Error
	return errors.As(err, &e) && e.Busy()
}

func broken(err error) bool {
	var e *sqlite3.Error
	return errors.As(err, &e) && e.Broken() || errors.Is(err, errNotRising) || errors.Is(err, journal.ErrFailed) ||
		errors.Is(err, errReplay) && !full(err)
}

// errReplay is in the chain of the error of a frame that cannot be applied again.
var errReplay = errors.New("sqlite: a frame of the journal cannot be applied again")
