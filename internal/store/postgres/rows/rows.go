// Package rows reads rows and writes them by arrays, and knows no table: a query whose rows are to
// be read (Asked), the columns of a table as a list from which its statements are made (Fields),
// arrays that are encoded at once (PlanArrays), and texts that PostgreSQL can store (Legible).
package rows

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Queries is a connection, a pool or a transaction.
type Queries interface {
	Begin(ctx context.Context) (pgx.Tx, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// Asked is a query whose rows are to be read.
type Asked struct {
	rows pgx.Rows
	err  error
}

// Answered is a query of a batch whose rows have come.
func Answered(got pgx.Rows) Asked { return Asked{rows: got} }

// Ask runs a query.
func Ask(ctx context.Context, db Queries, sql string, args ...any) Asked {
	rows, err := db.Query(ctx, sql, args...)
	return Asked{rows, err}
}

// Each calls do with each row, which it reads to into.
func (a Asked) Each(into []any, do func()) error {
	return a.Try(into, func() error { do(); return nil })
}

// Try is Each with a do that may fail.
func (a Asked) Try(into []any, do func() error) error {
	if a.err != nil {
		return a.err
	}
	_, err := pgx.ForEachRow(a.rows, into, do)
	return err
}

// Collect returns what read makes of each row.
func Collect[T any](a Asked, read func(pgx.Row) (T, error)) ([]T, error) {
	if a.err != nil {
		return nil, a.err
	}
	return pgx.AppendRows([]T(nil), a.rows, func(row pgx.CollectableRow) (T, error) { return read(row) })
}

// FirstColumn returns the first column of all rows.
func FirstColumn[T any](a Asked) ([]T, error) {
	if a.err != nil {
		return nil, a.err
	}
	return pgx.CollectRows(a.rows, pgx.RowTo[T])
}

// IsNone says whether a query of one row found none.
func IsNone(err error) bool { return errors.Is(err, pgx.ErrNoRows) }

// Column returns one field of many rows.
func Column[R, V any](rows []R, field func(R) V) []V {
	values := make([]V, len(rows))
	for i, r := range rows {
		values[i] = field(r)
	}
	return values
}
