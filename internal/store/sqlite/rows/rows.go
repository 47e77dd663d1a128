// Package rows reads and writes single values and rows of SQLite: the first row of a query, all of
// them, the columns of a table as fields of a struct, the words that columns store as numbers. It
// knows no statement and no table; those are the writer's and the readers'.
package rows

import (
	"cmp"
	"context"
	"strings"

	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// Reading is a read with a result. lend is one of the functions that lend a connection.
func Reading[T any](ctx context.Context, lend func(context.Context, func(*sqlite3.Conn) error) error,
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

// First reads the first row of a query. Without a row its error is none, which may be nil.
func First[T any](q *sqlite3.Stmt, none error, read func(*sqlite3.Stmt) (T, error)) (is T, err error) {
	found, err := q.Row()
	if !found {
		return is, cmp.Or(err, none)
	}
	defer q.Reset()
	return read(q)
}

func readInteger(q *sqlite3.Stmt) (int64, error) { return q.Integer(0), nil }

// ReadText returns the first column of a row.
func ReadText(q *sqlite3.Stmt) (string, error) { return q.String(0), nil }

// Integer returns the first column of the first row, or 0 without a row.
func Integer(q *sqlite3.Stmt) (int64, error) { return First(q, nil, readInteger) }

// Next returns the first column of the first row, and whether there was a row.
func Next(q *sqlite3.Stmt) (n int64, found bool, err error) {
	n, err = First(q, nil, func(q *sqlite3.Stmt) (int64, error) {
		found = true
		return q.Integer(0), nil
	})
	return n, found, err
}

// LookUp returns the first column of the first row of a query that must have one.
func LookUp(q *sqlite3.Stmt) (int64, error) { return First(q, codec.ErrMangled, readInteger) }

// One is LookUp for a query without values.
func One(conn *sqlite3.Conn, query string) (int64, error) { return LookUp(conn.Query(query)) }

// LookUpText returns the text in the first row of a query, which must have one.
func LookUpText(q *sqlite3.Stmt) (string, error) { return First(q, codec.ErrMangled, ReadText) }

// Single calls read for the first row of a query, which must have one.
func Single(q *sqlite3.Stmt, read func()) error {
	_, err := First(q, codec.ErrMangled, func(*sqlite3.Stmt) (none struct{}, err error) {
		read()
		return none, nil
	})
	return err
}

// Integers returns the first column of all rows.
func Integers(q *sqlite3.Stmt) ([]int64, error) { return Each(q, readInteger) }

// Each reads all rows of a query.
func Each[T any](q *sqlite3.Stmt, read func(*sqlite3.Stmt) (T, error)) (all []T, err error) {
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

// Filters are the conditions of a list's query, with the values of their question marks.
type Filters struct{ All, Values []string }

// Add adds a condition, unless its value is empty.
func (f *Filters) Add(condition, value string) {
	if value != "" {
		f.All, f.Values = append(f.All, condition), append(f.Values, value)
	}
}

// Equal adds the condition that a column has a value. The first condition chooses the index: the
// plus before the column of a later one keeps SQLite from choosing another.
func (f *Filters) Equal(column, value string) {
	if len(f.All) > 0 {
		column = "+" + column
	}
	f.Add(column+" = ?", value)
}

// Where is the clause, empty without a condition.
func (f *Filters) Where() string {
	if len(f.All) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(f.All, " AND ")
}

// Together runs do in one transaction, so that all its reads see one snapshot.
func Together(r *sqlite3.Conn, do func(*sqlite3.Conn) error) error {
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
