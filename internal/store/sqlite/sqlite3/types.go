package sqlite3

import "modernc.org/libc"

// Conn is a connection to a database.
type Conn struct {
	tls        *libc.TLS
	db         uintptr
	out        uintptr // memory for results that calls return by pointer: two words
	texts      arena   // of SQL
	statements map[string]*Stmt
	parts      *parts // nil: syncs are as ever
	aside      bool   // a statement runs on a goroutine of its own; see Stmt.Aside
}

// arena holds the bytes that are bound to a statement until it has run. SQLite must not see memory
// of Go's: it keeps pointers as plain numbers. Each statement has its own, because several may be
// in the middle of their rows.
type arena struct {
	tls    *libc.TLS
	chunks []uintptr
	size   int     // of all chunks
	next   uintptr // in the last chunk
	left   int
}

// parts are the parts of the database file that a connection has written since its last sync.
//
// SQLite calls a file's methods by a table of their addresses. The file of this connection has a
// copy of its table with two methods replaced: write notes the part, and sync has each noted part
// written to the device before it goes on as ever.
type parts struct {
	size    int64
	flush   func(fd int, at, size int64) error
	dirty   []int64 // sorted; a checkpoint writes pages in their order, so nearly all are added at the end
	methods uintptr // the copy of the table

	// The replaced methods, and those in their place. SQLite has the addresses of the latter, so they
	// must be referred to from here as long as it may call them.
	before, instead struct {
		write xWrite
		sync  xSync
	}
}

type (
	xWrite = func(tls *libc.TLS, file, data uintptr, size int32, at int64) int32
	xSync  = func(tls *libc.TLS, file uintptr, flags int32) int32
)

// Stmt is a prepared statement. Values are bound one after the other, in the order of the question
// marks; then Run or Next executes it, which forgets them:
//
//	err := insert.Int(7).Text("seven").Run()
//
//	for ok, err := query.Int(7).Next(); ok; ok, err = query.Next() { … query.Column(0) … }
type Stmt struct {
	conn   *Conn
	handle uintptr
	values arena
	bound  int32 // values so far
	rc     int32 // the first bind that failed
	active bool
	failed error // it could not be prepared
}
