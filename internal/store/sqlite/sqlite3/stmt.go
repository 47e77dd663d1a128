package sqlite3

import (
	"bytes"
	"errors"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

func (s *Stmt) next(rc int32) *Stmt {
	if s.rc == sqlite3.SQLITE_OK {
		s.rc = rc
	}
	return s
}

// Int binds an integer.
func (s *Stmt) Int(v int64) *Stmt {
	if s.conn.aside {
		return s
	}
	s.bound++
	return s.next(sqlite3.Xsqlite3_bind_int64(s.conn.tls, s.handle, s.bound, v))
}

// Bool binds 0 or 1.
func (s *Stmt) Bool(v bool) *Stmt {
	if v {
		return s.Int(1)
	}
	return s.Int(0)
}

// Text binds a text.
func (s *Stmt) Text(v string) *Stmt {
	if s.conn.aside {
		return s
	}
	s.bound++
	p := s.values.text(v)
	return s.next(sqlite3.Xsqlite3_bind_text(s.conn.tls, s.handle, s.bound, p, int32(len(v)), 0))
}

// Ints binds several values.
func (s *Stmt) Ints(values ...int64) *Stmt {
	for _, v := range values {
		s.Int(v)
	}
	return s
}

// Texts binds several values.
func (s *Stmt) Texts(values ...string) *Stmt {
	for _, v := range values {
		s.Text(v)
	}
	return s
}

// Blob binds bytes; nil is NULL.
func (s *Stmt) Blob(v []byte) *Stmt {
	if v == nil || s.conn.aside {
		return s.Null()
	}
	s.bound++
	p := s.values.bytes(v)
	return s.next(sqlite3.Xsqlite3_bind_blob(s.conn.tls, s.handle, s.bound, p, int32(len(v)), 0))
}

// Null binds NULL.
func (s *Stmt) Null() *Stmt {
	if s.conn.aside {
		return s
	}
	s.bound++
	return s.next(sqlite3.Xsqlite3_bind_null(s.conn.tls, s.handle, s.bound))
}

// Run executes a statement that returns no rows, or whose rows do not matter.
func (s *Stmt) Run() error {
	for {
		more, err := s.Next()
		if !more {
			return err
		}
	}
}

// Next goes to the first or the next row. It returns false after the last one and with an error,
// and then the statement is ready to be executed anew.
func (s *Stmt) Next() (bool, error) {
	if s.failed != nil {
		s.values.free()
		return false, s.failed
	}
	if s.conn.aside {
		return false, ErrAside
	}
	rc := s.rc
	if rc == sqlite3.SQLITE_OK {
		s.active = true
		rc = sqlite3.Xsqlite3_step(s.conn.tls, s.handle)
	}
	if rc == sqlite3.SQLITE_ROW {
		return true, nil
	}
	var err error
	if rc != sqlite3.SQLITE_DONE {
		err = s.conn.failure(rc)
	}
	s.Reset()
	return false, err
}

// ErrAside is the error of a statement that is executed while another one of its connection runs
// aside.
var ErrAside = errors.New("sqlite: another statement of the connection runs aside")

// Aside executes a statement without values and rows on a goroutine of its own. The connection
// belongs to that goroutine until end is called: other statements are not executed, and fail with
// ErrAside. end waits for it. done is closed when end will not wait any more.
func (s *Stmt) Aside() (done <-chan struct{}, end func() error) {
	s.conn.aside = true
	over := make(chan struct{})
	var err error
	go func() {
		defer close(over)
		if rc := sqlite3.Xsqlite3_step(s.conn.tls, s.handle); rc != sqlite3.SQLITE_DONE {
			err = s.conn.failure(rc)
		}
		sqlite3.Xsqlite3_reset(s.conn.tls, s.handle)
	}()
	return over, func() error {
		<-over
		s.conn.aside = false
		return err
	}
}

// More is Next for the condition of a loop. It sets err when it returns false.
func (s *Stmt) More(err *error) (more bool) {
	more, *err = s.Next()
	return more
}

// Row executes a statement for at most one row. The caller calls Reset when it has read a row.
func (s *Stmt) Row() (bool, error) { return s.Next() }

// Reset ends the execution of a statement whose rows were not all read.
func (s *Stmt) Reset() {
	if s.active {
		sqlite3.Xsqlite3_reset(s.conn.tls, s.handle) // repeats the error that step has returned already
	}
	s.active, s.bound, s.rc = false, 0, sqlite3.SQLITE_OK
	s.values.reset()
}

// Integer returns a column of the row as an integer; NULL is 0.
func (s *Stmt) Integer(column int) int64 {
	return sqlite3.Xsqlite3_column_int64(s.conn.tls, s.handle, int32(column))
}

// String returns a column of the row as a text; NULL is empty.
func (s *Stmt) String(column int) string {
	p := sqlite3.Xsqlite3_column_text(s.conn.tls, s.handle, int32(column))
	n := sqlite3.Xsqlite3_column_bytes(s.conn.tls, s.handle, int32(column))
	if p == 0 || n == 0 {
		return ""
	}
	return string(libc.GoBytes(p, int(n)))
}

// Bytes returns a copy of a column of the row; NULL is nil.
func (s *Stmt) Bytes(column int) []byte {
	p := sqlite3.Xsqlite3_column_blob(s.conn.tls, s.handle, int32(column))
	n := sqlite3.Xsqlite3_column_bytes(s.conn.tls, s.handle, int32(column))
	if p == 0 {
		if s.IsNull(column) {
			return nil
		}
		return []byte{}
	}
	return bytes.Clone(libc.GoBytes(p, int(n)))
}

// IsNull says whether a column of the row is NULL.
func (s *Stmt) IsNull(column int) bool {
	return sqlite3.Xsqlite3_column_type(s.conn.tls, s.handle, int32(column)) == sqlite3.SQLITE_NULL
}

// IsText says whether a column of the row is a text.
func (s *Stmt) IsText(column int) bool {
	return sqlite3.Xsqlite3_column_type(s.conn.tls, s.handle, int32(column)) == sqlite3.SQLITE_TEXT
}
