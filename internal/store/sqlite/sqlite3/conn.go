// Package sqlite3 has the few calls of SQLite's C interface that the store makes, as Go methods. It
// uses the translated library (modernc.org/sqlite/lib) directly instead of database/sql: the hot
// path binds some thirty values per delivery, and without an interface value, an allocation and a
// lock for each a delivery costs a quarter less.
//
// A Conn and its statements belong to one goroutine at a time; only Interrupt may be called from
// another one. While a statement runs aside, on a goroutine of its own, all others fail. Values are
// copied on the way in and on the way out. Errors are always *Error, but for ErrAside. A misuse in
// SQLite's sense (a statement used after its connection was closed, a wrong number of values) is a
// defect of the caller and not guarded against.
package sqlite3

import (
	"strings"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// Mode is how a database is opened.
type Mode int32

// The modes.
const (
	ReadWrite Mode = sqlite3.SQLITE_OPEN_READWRITE
	ReadOnly  Mode = sqlite3.SQLITE_OPEN_READONLY
)

// patience is the time in milliseconds for which a connection waits for another connection's lock.
// It does not matter in an open store: readers take no lock that blocks, one connection writes,
// Checkpoint waits for no other connection, and Truncate switches waiting off. It matters when a
// database is opened that another process has or is about to close.
const patience = 5000

// Open opens a database file that exists. The connection has no mutex of SQLite's: one goroutine at
// a time uses it.
func Open(path string, mode Mode) (*Conn, error) {
	c := &Conn{tls: libc.NewTLS(), statements: make(map[string]*Stmt)}
	c.texts.tls = c.tls
	c.out = malloc(c.tls, 16)
	name := c.texts.text(path + "\x00")
	rc := sqlite3.Xsqlite3_open_v2(c.tls, name, c.out, int32(mode)|sqlite3.SQLITE_OPEN_NOMUTEX, 0)
	c.texts.reset()
	c.db = pointer(c.out) // set even when it failed, to say why
	if rc != sqlite3.SQLITE_OK {
		err := c.failure(rc)
		_ = c.Close()
		return nil, err
	}
	sqlite3.Xsqlite3_extended_result_codes(c.tls, c.db, 1)
	sqlite3.Xsqlite3_busy_timeout(c.tls, c.db, patience)
	// Plans must not depend on values. Otherwise they would depend on the value of a LIMIT, and SQLite
	// would compile the statement again each time one is bound, even the same: that took longer than
	// running a statement that reads a few rows. (Tests pin plans without values, so they are these.)
	c.configure(sqlite3.SQLITE_DBCONFIG_ENABLE_QPSG)
	return c, nil
}

// OpenAlone opens a database file without its log, and without locks. It may only be read, before
// anything else writes to it.
func OpenAlone(path string) (*Conn, error) {
	name := strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(path)
	return Open("file:"+name+"?immutable=1", ReadOnly|sqlite3.SQLITE_OPEN_URI)
}

// Close finalizes all statements and closes the connection.
func (c *Conn) Close() error {
	for _, s := range c.statements {
		sqlite3.Xsqlite3_finalize(c.tls, s.handle)
		s.values.free()
	}
	rc := sqlite3.Xsqlite3_close_v2(c.tls, c.db)
	if c.parts != nil {
		c.parts.free(c.tls)
	}
	c.texts.free()
	libc.Xfree(c.tls, c.out)
	c.tls.Close()
	if rc != sqlite3.SQLITE_OK {
		return &Error{Code: int(rc), Text: "closing the database failed"}
	}
	return nil
}

// Exec runs statements without values, separated by semicolons.
func (c *Conn) Exec(sql string) error {
	if c.aside {
		return ErrAside
	}
	text := c.texts.text(sql + "\x00")
	rc := sqlite3.Xsqlite3_exec(c.tls, c.db, text, 0, 0, 0)
	c.texts.reset()
	if rc != sqlite3.SQLITE_OK {
		return c.failure(rc)
	}
	return nil
}

// Prepare returns the statement for a text, which is prepared once for each connection.
func (c *Conn) Prepare(sql string) (*Stmt, error) {
	if s := c.statements[sql]; s != nil {
		return s, nil
	}
	if c.aside {
		return nil, ErrAside
	}
	text := c.texts.text(sql)
	rc := sqlite3.Xsqlite3_prepare_v3(c.tls, c.db, text, int32(len(sql)), sqlite3.SQLITE_PREPARE_PERSISTENT, c.out, 0)
	c.texts.reset()
	if rc != sqlite3.SQLITE_OK {
		return nil, c.failure(rc)
	}
	s := &Stmt{conn: c, handle: pointer(c.out), values: arena{tls: c.tls}}
	c.statements[strings.Clone(sql)] = s
	return s, nil
}

// Query is Prepare for a statement that is executed at once: an error is returned by its execution.
func (c *Conn) Query(sql string) *Stmt {
	s, err := c.Prepare(sql)
	if err != nil {
		return &Stmt{conn: c, values: arena{tls: c.tls}, failed: err}
	}
	return s
}

// Interrupt makes the running statement of the connection fail with an error that says so. It may
// be called from any goroutine while the connection is open.
func (c *Conn) Interrupt() {
	tls := libc.NewTLS() // the connection's own must not be used by two goroutines
	defer tls.Close()
	sqlite3.Xsqlite3_interrupt(tls, c.db)
}

// KeepLog makes Close leave the write-ahead log as it is. Otherwise the last connection copies it
// into the database.
func (c *Conn) KeepLog() { c.configure(sqlite3.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE) }

// configure switches something on.
func (c *Conn) configure(what int32) {
	args := c.texts.room(16) // an int and a pointer, each in a slot of eight bytes
	sqlite3.Xsqlite3_db_config(c.tls, c.db, what, libc.VaList(args, int32(1), uintptr(0)))
	c.texts.reset()
}

// Changed returns how many rows the last INSERT, UPDATE or DELETE changed.
func (c *Conn) Changed() int { return int(sqlite3.Xsqlite3_changes(c.tls, c.db)) }

// InTransaction says whether a transaction is open.
func (c *Conn) InTransaction() bool { return sqlite3.Xsqlite3_get_autocommit(c.tls, c.db) == 0 }

// PagesWritten returns how many pages the connection has written since the last call.
func (c *Conn) PagesWritten() int {
	const forget = 1
	sqlite3.Xsqlite3_db_status(c.tls, c.db, sqlite3.SQLITE_DBSTATUS_CACHE_WRITE, c.out, c.out+8, forget)
	return int(int32At(c.out))
}

// Checkpoint copies as much of the write-ahead log into the database as it can without blocking
// another connection. It returns the number of pages in the log, and how many of them are in the
// database now.
func (c *Conn) Checkpoint() (log, copied int, err error) {
	rc := sqlite3.Xsqlite3_wal_checkpoint_v2(c.tls, c.db, 0, sqlite3.SQLITE_CHECKPOINT_PASSIVE, c.out, c.out+8)
	if rc != sqlite3.SQLITE_OK {
		return 0, 0, c.failure(rc)
	}
	return int(int32At(c.out)), int(int32At(c.out + 8)), nil
}

// Truncate copies the whole write-ahead log into the database and truncates it. If another
// connection still reads from the log it fails with an error that is Busy, and does not wait.
func (c *Conn) Truncate() error {
	sqlite3.Xsqlite3_busy_timeout(c.tls, c.db, 0)
	defer sqlite3.Xsqlite3_busy_timeout(c.tls, c.db, patience)
	rc := sqlite3.Xsqlite3_wal_checkpoint_v2(c.tls, c.db, 0, sqlite3.SQLITE_CHECKPOINT_TRUNCATE, c.out, c.out+8)
	if rc != sqlite3.SQLITE_OK {
		return c.failure(rc)
	}
	return nil
}
