// Package sqlstore is a store of package receive for database/sql, with PostgreSQL or SQLite. The
// handler's effects join the claim's transaction, a *sql.Tx (receive.Transaction).
//
// Programs in other languages can share its tables. All that receive.Store promises holds across
// processes. With SQLite all transactions of the database are one after another; a claim waits at
// most receive.Options.Wait for its turn. Those of one Store queue, so give a database one Store.
//
// It creates no tables by itself: call CreateTables, or run Schema among your migrations.
package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel/receive"
	"github.com/grapnelhq/grapnel/receive/internal/claims"
)

// Dialect is the kind of a database.
type Dialect int

// The kinds of databases.
const (
	PostgreSQL Dialect = iota
	SQLite
)

// Store keeps claims and dead letters in a database. It is a receive.Transactor[*sql.Tx].
type Store struct{ *claims.Store[*sql.Tx] }

// New makes a store. The pool stays the caller's, with any driver.
func New(db *sql.DB, d Dialect) *Store {
	return &Store{claims.New[*sql.Tx](pool{db, d, make(chan struct{}, 1)}, d == PostgreSQL)}
}

// Schema is the SQL that creates the tables, for programs that run it among their own migrations.
func Schema(d Dialect) string { return claims.Schema(d == PostgreSQL) }

type pool struct {
	db   *sql.DB
	d    Dialect
	turn chan struct{} // of SQLite's one transaction; it is full while one runs
}

func (p pool) Exec(ctx context.Context, query string, args ...any) (n int64, err error) {
	if p.d == PostgreSQL {
		return affected(p.db.ExecContext(ctx, query, args...))
	}
	conn, end, err := p.patient(ctx, receive.DefaultWait)
	if err != nil {
		return 0, err
	}
	defer end()
	return affected(conn.ExecContext(ctx, query, args...))
}

func (p pool) Query(ctx context.Context, row func(func(...any) error) error, query string, args ...any) error {
	if p.d == PostgreSQL {
		rows, err := p.db.QueryContext(ctx, query, args...)
		return each(rows, err, row)
	}
	conn, end, err := p.patient(ctx, receive.DefaultWait)
	if err != nil {
		return err
	}
	defer end()
	rows, err := conn.QueryContext(ctx, query, args...)
	return each(rows, err, row)
}

func (p pool) Begin(ctx context.Context, wait time.Duration) (claims.Tx[*sql.Tx], error) {
	if p.d == PostgreSQL {
		began, err := p.db.BeginTx(ctx, nil)
		return tx{began, func() {}}, err
	}
	// Transactions of this process queue here: SQLite would let each of them sleep and try again.
	begun, waits := time.Now(), time.NewTimer(wait)
	defer waits.Stop()
	select {
	case p.turn <- struct{}{}:
	case <-waits.C:
		return nil, fmt.Errorf("%w: another transaction of this process has the database", receive.ErrLocked)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	conn, restore, err := p.patient(ctx, max(wait-time.Since(begun), 0))
	if err != nil {
		<-p.turn
		return nil, err
	}
	end := sync.OnceFunc(func() {
		restore()
		<-p.turn
	})
	began, err := conn.BeginTx(ctx, nil)
	if err != nil {
		end()
		return nil, err
	}
	return tx{began, end}, nil
}

// patient is a connection to SQLite that waits for the database's lock, whatever the pool's own
// connections do. end restores their time to wait and returns the connection to the pool.
func (p pool) patient(ctx context.Context, wait time.Duration) (conn *sql.Conn, end func(), err error) {
	if conn, err = p.db.Conn(ctx); err != nil {
		return nil, nil, err
	}
	var before int64
	err = conn.QueryRowContext(ctx, "pragma busy_timeout").Scan(&before)
	set := func(milliseconds int64) error {
		_, err := conn.ExecContext(context.WithoutCancel(ctx), fmt.Sprintf("pragma busy_timeout = %d", milliseconds))
		return err
	}
	if err == nil {
		err = set(wait.Milliseconds())
	}
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	return conn, func() {
		_ = set(before) // a connection that fails here is broken, and the pool drops it
		_ = conn.Close()
	}, nil
}

type tx struct {
	*sql.Tx
	end func() // after the transaction
}

func (t tx) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	return affected(t.ExecContext(ctx, query, args...))
}

func (t tx) Query(ctx context.Context, row func(func(...any) error) error, query string, args ...any) error {
	rows, err := t.QueryContext(ctx, query, args...)
	return each(rows, err, row)
}

func (t tx) Unwrap() *sql.Tx { return t.Tx }

func (t tx) Commit(context.Context) error { return t.Tx.Commit() }

func (t tx) Rollback(context.Context) {
	_ = t.Tx.Rollback() // after a commit, and on a broken connection, there is none to roll back
	t.end()
}

func affected(r sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

func each(rows *sql.Rows, err error, row func(func(...any) error) error) error {
	if err != nil {
		return err
	}
	for err == nil && rows.Next() {
		err = row(rows.Scan)
	}
	return errors.Join(err, rows.Close(), rows.Err())
}
