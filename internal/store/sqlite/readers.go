package sqlite

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// readers is a pool of connections that can only read. An unused connection is in the channel.
type readers chan *sqlite3.Conn

// read lends a connection to do. The tables then have every write that has returned.
func (s *database) read(ctx context.Context, do func(*sqlite3.Conn) error) error {
	if s.unflushed.owes.Load() {
		switch err := s.write(ctx, flushing{}); {
		case grapnel.CodeOf(err) == grapnel.CodeStorageFull:
			return s.write(ctx, seeing(do)) // the disk has no space for a flush, and the writer sees all
		case err != nil:
			return err
		}
	}
	return s.readFlushed(ctx, do)
}

// readUnflushed is like read for something that takes well below a millisecond. If there are
// unflushed writes, the writer reads on its own connection, which sees them: no flush is needed.
func (s *database) readUnflushed(ctx context.Context, do func(*sqlite3.Conn) error) error {
	if !s.unflushed.owes.Load() {
		return s.readFlushed(ctx, do)
	}
	return s.write(ctx, looking(do))
}

// readFlushed does the same as read, but the tables may lack the unflushed writes.
//
// When ctx ends, the connection's running statement is interrupted.
func (s *database) readFlushed(ctx context.Context, do func(*sqlite3.Conn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.failed(); err != nil {
		return err
	}
	var conn *sqlite3.Conn
	select {
	case conn = <-s.readers:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closing:
		return s.gone()
	}
	defer func() { s.readers <- conn }()

	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		conn.Interrupt()
	})
	err := do(conn)
	if !stop() {
		<-interrupted // it must not interrupt the next borrower's statement
	}
	if conn.InTransaction() {
		// The interruption hit the end of a snapshot. The connection's next borrower would see the
		// past for ever.
		_ = conn.Exec("ROLLBACK")
	}
	var e *sqlite3.Error
	switch {
	case errors.As(err, &e) && e.Interrupted():
		return ctx.Err()
	case broken(err):
		return s.fail(err)
	}
	return err
}

// reading is a read with a result. lend is one of the functions that lend a connection.
func reading[T any](ctx context.Context, lend func(context.Context, func(*sqlite3.Conn) error) error,
	do func(*sqlite3.Conn) (T, error)) (is T, err error) {
	err = lend(ctx, func(r *sqlite3.Conn) (err error) {
		is, err = do(r)
		return err
	})
	if err != nil {
		return *new(T), err
	}
	return is, nil
}

// first reads the first row of a query. Without a row its error is none, which may be nil.
func first[T any](q *sqlite3.Stmt, none error, read func(*sqlite3.Stmt) (T, error)) (is T, err error) {
	found, err := q.Row()
	if !found {
		return is, cmp.Or(err, none)
	}
	defer q.Reset()
	return read(q)
}

func readInteger(q *sqlite3.Stmt) (int64, error) { return q.Integer(0), nil }
func readText(q *sqlite3.Stmt) (string, error)   { return q.String(0), nil }

// integer returns the first column of the first row, or 0 without a row.
func integer(q *sqlite3.Stmt) (int64, error) { return first(q, nil, readInteger) }

// next returns the first column of the first row, and whether there was a row.
func next(q *sqlite3.Stmt) (n int64, found bool, err error) {
	n, err = first(q, nil, func(q *sqlite3.Stmt) (int64, error) {
		found = true
		return q.Integer(0), nil
	})
	return n, found, err
}

// lookUp returns the first column of the first row of a query that must have one.
func lookUp(q *sqlite3.Stmt) (int64, error) { return first(q, codec.ErrMangled, readInteger) }

// one is lookUp for a query without values.
func one(conn *sqlite3.Conn, query string) (int64, error) { return lookUp(conn.Query(query)) }

// lookUpText returns the text in the first row of a query, which must have one.
func lookUpText(q *sqlite3.Stmt) (string, error) { return first(q, codec.ErrMangled, readText) }

// single calls read for the first row of a query, which must have one.
func single(q *sqlite3.Stmt, read func()) error {
	_, err := first(q, codec.ErrMangled, func(*sqlite3.Stmt) (none struct{}, err error) {
		read()
		return none, nil
	})
	return err
}

// integers returns the first column of all rows.
func integers(q *sqlite3.Stmt) ([]int64, error) { return each(q, readInteger) }

// each reads all rows of a query.
func each[T any](q *sqlite3.Stmt, read func(*sqlite3.Stmt) (T, error)) (all []T, err error) {
	defer q.Reset()
	for q.More(&err) {
		one, err := read(q)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, err
}

// filters are the conditions of a list's query, with the values of their question marks.
type filters struct{ all, values []string }

// add adds a condition, unless its value is empty.
func (f *filters) add(condition, value string) {
	if value != "" {
		f.all, f.values = append(f.all, condition), append(f.values, value)
	}
}

// equal adds the condition that a column has a value. The first condition chooses the index: the
// plus before the column of a later one keeps SQLite from choosing another.
func (f *filters) equal(column, value string) {
	if len(f.all) > 0 {
		column = "+" + column
	}
	f.add(column+" = ?", value)
}

func (f *filters) where() string {
	if len(f.all) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(f.all, " AND ")
}

// snapshot runs do in one transaction, so that all its reads see one snapshot.
func (s *database) snapshot(ctx context.Context, do func(*sqlite3.Conn) error) error {
	return s.read(ctx, func(r *sqlite3.Conn) error { return together(r, do) })
}

func together(r *sqlite3.Conn, do func(*sqlite3.Conn) error) error {
	if r.InTransaction() { // the writer's
		return do(r)
	}
	// These are prepared once: compiling one takes longer than reading a row.
	if err := r.Query("BEGIN").Run(); err != nil {
		return err
	}
	err := do(r)
	if end := r.Query("ROLLBACK").Run(); err == nil {
		err = end
	}
	return err
}
