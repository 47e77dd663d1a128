// Package gate makes the order in which events arrive harmless: a gate changes a row only if the
// event is newer than what the row has.
//
//	result, err := gate.Version{Table: "invoices"}.Apply(ctx, gate.PostgreSQL(tx), id, version,
//		gate.Set{"status": status, "amount": amount})
//	if err == nil {
//		err = result.Err() // receive.ErrStale, if the row is newer
//	}
//
// Its guarantees, in PostgreSQL and SQLite:
//
//   - A row changes in one conditional statement, so events that arrive at once end like events
//     that arrive one after another. A missing row is inserted.
//   - Of events that have versions, times or reachable states, in whatever order and however often
//     they arrive, the newest is in the row at the end. Gap is for events that are differences.
//   - The results are those of all kits (sdk/conformance/gates.json).
//
// The key of a table has a unique constraint. A gate runs in the handler's transaction, or in one
// statement of its own without one. It does not promise an order to effects outside of the row.
package gate

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel/receive"
)

// Result says what a gate did with an event.
type Result string

// The results. Only Applied changes the row.
const (
	Applied    Result = "applied"
	Stale      Result = "stale"       // the row is newer
	Equal      Result = "equal"       // the row has this version already
	Refused    Result = "refused"     // its time is too far in the future
	Rejected   Result = "rejected"    // its state is unknown
	DeadLetter Result = "dead_letter" // neither state can follow the other, or the state is unknown
	Parked     Result = "parked"      // an earlier version is missing
	Fetch      Result = "fetch"       // it was missing for too long: fetch the state from the sender
)

// pause is how long a sender is asked to wait before it repeats an event that came too early.
const pause = 5 * time.Second

// Err is what a handler returns for a result: nil for Applied, Equal and Fetch, after which it goes
// on. Parked is an error that passes, so that the sender or the inbox brings the event again.
func (r Result) Err() error {
	switch r {
	case Applied, Equal, Fetch:
		return nil
	case Stale:
		return receive.ErrStale
	case Parked:
		return receive.RetryAfter(pause, errors.New("an earlier version is missing"))
	default:
		return receive.Permanent(fmt.Errorf("the gate has not applied the event: %s", r))
	}
}

// Row is the result of a query for one row: *sql.Row, or pgx.Row.
type Row interface{ Scan(into ...any) error }

// DB is where a gate runs its statements: PostgreSQL, SQLite or PGX.
type DB struct {
	row   func(ctx context.Context, query string, args ...any) Row
	bytes string // after a text that is compared by its bytes
}

// Querier is *sql.Tx, *sql.Conn or *sql.DB.
type Querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// PostgreSQL runs a gate in a transaction of database/sql.
func PostgreSQL(tx Querier) DB {
	return DB{func(ctx context.Context, query string, args ...any) Row {
		return tx.QueryRowContext(ctx, query, args...)
	}, ` collate "C"`}
}

// SQLite does the same with SQLite.
func SQLite(tx Querier) DB {
	return DB{func(ctx context.Context, query string, args ...any) Row {
		return tx.QueryRowContext(ctx, query, args...)
	}, ""}
}

// PGX runs a gate in a pgx.Tx, a pgx.Conn or a pool of them.
func PGX[R Row](tx interface {
	QueryRow(ctx context.Context, query string, args ...any) R
}) DB {
	return DB{func(ctx context.Context, query string, args ...any) Row { return tx.QueryRow(ctx, query, args...) }, ` collate "C"`}
}

// Set are the other columns that an applied event writes, by their names.
type Set map[string]any

// place is a row of a table, and the columns that a gate writes into it.
type place struct {
	db     DB
	table  string
	key    string
	names  []string // the key's first
	values []any
}

var name = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?$`)

// at is the place with a key. own are the columns of the gate itself.
func at(db DB, table, column string, key any, own, set Set) (*place, error) {
	p := &place{db: db, table: table, key: cmp.Or(column, "id")}
	p.names, p.values = []string{p.key}, []any{key}
	for _, s := range []Set{own, set} {
		for _, column := range slices.Sorted(maps.Keys(s)) {
			if slices.Contains(p.names, column) {
				return nil, fmt.Errorf("gate: the column %s is written twice; leave it out of Set", column)
			}
			p.names, p.values = append(p.names, column), append(p.values, s[column])
		}
	}
	for _, one := range append([]string{table}, p.names...) {
		if !name.MatchString(one) {
			return nil, fmt.Errorf("gate: %q is no name of a table or column; use letters, digits and underscores", one)
		}
	}
	return p, nil
}

// upsert inserts the row, or changes it if a condition on g, the stored row, holds. more are the
// condition's own values, whose placeholders follow those of the columns.
func (p *place) upsert(ctx context.Context, condition string, more ...any) (bool, error) {
	var updates []string
	for _, column := range p.names[1:] {
		updates = append(updates, column+" = excluded."+column)
	}
	query := fmt.Sprintf("insert into %s as g(%s) values(%s) on conflict(%s) do update set %s where %s returning 1",
		p.table, strings.Join(p.names, ", "), marks(1, len(p.names)), p.key, strings.Join(updates, ", "), condition)
	one := 0
	return found(p.db.row(ctx, query, append(slices.Clone(p.values), more...)...).Scan(&one))
}

// stored reads columns of the row; false: there is none.
func (p *place) stored(ctx context.Context, columns string, into ...any) (bool, error) {
	query := fmt.Sprintf("select %s from %s where %s = $1", columns, p.table, p.key)
	return found(p.db.row(ctx, query, p.values[0]).Scan(into...))
}

// found says whether there was a row. The error of pgx for none is one of database/sql.
func found(err error) (bool, error) {
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// marks are n placeholders, the first with a number.
func marks(first, n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("$%d", first+i)
	}
	return strings.Join(all, ", ")
}
