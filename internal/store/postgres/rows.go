package postgres

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// queries is a connection, a pool or a transaction.
type queries interface {
	Begin(ctx context.Context) (pgx.Tx, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// asked is a query whose rows are to be read.
type asked struct {
	rows pgx.Rows
	err  error
}

func ask(ctx context.Context, db queries, sql string, args ...any) asked {
	rows, err := db.Query(ctx, sql, args...)
	return asked{rows, err}
}

// each calls do with each row, which it reads to into.
func (a asked) each(into []any, do func()) error {
	return a.try(into, func() error { do(); return nil })
}

// try is each with a do that may fail.
func (a asked) try(into []any, do func() error) error {
	if a.err != nil {
		return a.err
	}
	_, err := pgx.ForEachRow(a.rows, into, do)
	return err
}

// collect returns what read makes of each row.
func collect[T any](a asked, read func(pgx.Row) (T, error)) ([]T, error) {
	if a.err != nil {
		return nil, a.err
	}
	return pgx.AppendRows([]T(nil), a.rows, func(row pgx.CollectableRow) (T, error) { return read(row) })
}

// firstColumn returns the first column of all rows.
func firstColumn[T any](a asked) ([]T, error) {
	if a.err != nil {
		return nil, a.err
	}
	return pgx.CollectRows(a.rows, pgx.RowTo[T])
}

func isNone(err error) bool { return errors.Is(err, pgx.ErrNoRows) }

// result is what a call has done, if it succeeded.
func result[T any](done *T, err error) (T, error) {
	if err != nil {
		return *new(T), err
	}
	return *done, nil
}

// column returns one field of many rows.
func column[R, V any](rows []R, field func(R) V) []V {
	values := make([]V, len(rows))
	for i, r := range rows {
		values[i] = field(r)
	}
	return values
}

func keysOf(m map[string]bool) []string { return sortedKeys(m, strings.Compare) }

// sortedKeys returns the sorted keys of a map.
func sortedKeys[K comparable, V any](m map[K]V, compare func(a, b K) int) []K {
	keys := slices.AppendSeq(make([]K, 0, len(m)), maps.Keys(m))
	slices.SortFunc(keys, compare)
	return keys
}
