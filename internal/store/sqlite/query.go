package sqlite

import (
	"cmp"
	"context"
	"strings"

	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

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

func readText(q *sqlite3.Stmt) (string, error) { return q.String(0), nil }

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
