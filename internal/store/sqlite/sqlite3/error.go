package sqlite3

import (
	"fmt"
	"syscall"

	"modernc.org/libc"
	"modernc.org/sqlite/lib"
)

// Error is a call that failed.
type Error struct {
	Code  int           // SQLite's extended result code
	Errno syscall.Errno // the operating system's error, if it was an I/O error
	Text  string
}

func (e *Error) Error() string {
	if e.Errno != 0 {
		return fmt.Sprintf("sqlite: %s (%d, %s)", e.Text, e.Code, e.Errno)
	}
	return fmt.Sprintf("sqlite: %s (%d)", e.Text, e.Code)
}

// Unwrap is the operating system's error.
func (e *Error) Unwrap() error {
	if e.Errno == 0 {
		return nil
	}
	return e.Errno
}

func (e *Error) primary() int { return e.Code & 0xff }

// Full says that the disk was full. The transaction has stored nothing. A failed sync is never
// Full, whatever its cause: the state of the disk is unknown then.
func (e *Error) Full() bool {
	if e.primary() == sqlite3.SQLITE_FULL {
		return true
	}
	system := e.primary() == sqlite3.SQLITE_IOERR && !e.sync() || e.primary() == sqlite3.SQLITE_CANTOPEN
	return system && (e.Errno == syscall.ENOSPC || e.Errno == syscall.EDQUOT)
}

func (e *Error) sync() bool {
	return e.Code == sqlite3.SQLITE_IOERR_FSYNC || e.Code == sqlite3.SQLITE_IOERR_DIR_FSYNC
}

// Broken says that the database or its disk cannot be trusted any more. A failed write is not that:
// what SQLite writes before a commit is beyond the end of its log, and a later transaction writes
// there again. A failed sync is.
func (e *Error) Broken() bool {
	switch e.primary() {
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY,
		sqlite3.SQLITE_PERM, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PROTOCOL:
		return !e.Full() && e.Code != sqlite3.SQLITE_IOERR_WRITE
	}
	return false
}

// Interrupted says that Interrupt was called.
func (e *Error) Interrupted() bool { return e.primary() == sqlite3.SQLITE_INTERRUPT }

// Busy says that another connection was in the way.
func (e *Error) Busy() bool {
	return e.primary() == sqlite3.SQLITE_BUSY || e.primary() == sqlite3.SQLITE_LOCKED
}

func (c *Conn) failure(rc int32) error {
	e := &Error{Code: int(rc), Text: libc.GoString(sqlite3.Xsqlite3_errmsg(c.tls, c.db))}
	if p := e.primary(); p == sqlite3.SQLITE_IOERR || p == sqlite3.SQLITE_CANTOPEN {
		e.Errno = syscall.Errno(sqlite3.Xsqlite3_system_errno(c.tls, c.db))
	}
	return e
}
