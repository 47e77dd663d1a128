// Package pgxstore is a store of package receive for pgx: PostgreSQL without database/sql. The
// handler's effects join the claim's transaction, a pgx.Tx (receive.Transaction).
//
// Its tables are those of package sqlstore, so both can be used at once. It creates no tables by
// itself: call CreateTables, or run Schema among your migrations.
package pgxstore

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/grapnelhq/grapnel/receive/internal/claims"
)

const rollbackTimeout = 5 * time.Second

// Pool is the part of a *pgxpool.Pool that the store uses. A *pgx.Conn is one too, for programs
// that receive one request at a time.
type Pool interface {
	querier
	Begin(ctx context.Context) (pgx.Tx, error)
}

type querier interface {
	Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, query string, args ...any) (pgx.Rows, error)
}

// Store keeps claims and dead letters in a database. It is a receive.Transactor[pgx.Tx].
type Store struct{ *claims.Store[pgx.Tx] }

// New makes a store. The pool stays the caller's.
func New(p Pool) *Store { return &Store{claims.New[pgx.Tx](pool{conn{p}, p}, true)} }

// Schema is the SQL that creates the tables, for programs that run it among their own migrations.
func Schema() string { return claims.Schema(true) }

type conn struct{ querier }

func (c conn) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	tag, err := c.querier.Exec(ctx, query, args...)
	return tag.RowsAffected(), err
}

func (c conn) Query(ctx context.Context, row func(func(...any) error) error, query string, args ...any) error {
	rows, err := c.querier.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

type pool struct {
	conn
	begin Pool
}

func (p pool) Begin(ctx context.Context, _ time.Duration) (claims.Tx[pgx.Tx], error) {
	began, err := p.begin.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return tx{conn{began}, began}, nil
}

// outsideTransaction is how PostgreSQL describes a connection without a transaction.
const outsideTransaction = 'I'

var errEnded = errors.New("the handler has ended the transaction")

type tx struct {
	conn
	inner pgx.Tx
}

func (t tx) Unwrap() pgx.Tx { return t.inner }

// Commit fails if the handler has ended the transaction by a statement of its own: PostgreSQL
// answers a commit outside of a transaction with success, and the claim would be gone.
func (t tx) Commit(ctx context.Context) error {
	if t.inner.Conn().PgConn().TxStatus() == outsideTransaction {
		return errEnded
	}
	return t.inner.Commit(ctx)
}

// Rollback waits no longer than rollbackTimeout: without an answer pgx closes the connection, and
// the server rolls back. After a commit it does nothing.
func (t tx) Rollback(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, rollbackTimeout)
	defer cancel()
	_ = t.inner.Rollback(ctx)
}
