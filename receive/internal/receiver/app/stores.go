package app

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx
	_ "modernc.org/sqlite"             // the driver sqlite

	"github.com/grapnelhq/grapnel/receive"
	"github.com/grapnelhq/grapnel/receive/gate"
	"github.com/grapnelhq/grapnel/receive/memstore"
	"github.com/grapnelhq/grapnel/receive/pgxstore"
	"github.com/grapnelhq/grapnel/receive/sqlstore"
)

const connections = 20 // of a pool: a PostgreSQL takes 100

// Stores are the stores of this module, by the values of STORE.
var Stores = map[string]Open{
	"memory": func(ctx context.Context, dsn string) (*Backend, error) { return OpenLedger(ctx, dsn, memstore.New()) },
	"sqlite": func(ctx context.Context, dsn string) (*Backend, error) {
		db, err := openSQLite(dsn)
		if err != nil {
			return nil, err
		}
		return ofSQL(ctx, db, sqlstore.SQLite)
	},
	"postgres": func(ctx context.Context, dsn string) (*Backend, error) {
		db, err := sql.Open("pgx", dsn)
		if err != nil {
			return nil, err
		}
		return ofSQL(ctx, db, sqlstore.PostgreSQL)
	},
	"pgx": openPgx,
}

func openSQLite(file string) (*sql.DB, error) {
	if file == "" {
		return nil, errors.New("DSN: name the file of the SQLite database")
	}
	return sql.Open("sqlite", "file:"+file+"?_pragma=journal_mode(wal)&_pragma=busy_timeout(5000)")
}

// OpenLedger is the backend of a store that is no database: its ledger is a SQLite file. In memory,
// for a store that forgets too, if file is empty.
func OpenLedger(_ context.Context, file string, s receive.Store) (*Backend, error) {
	db, err := openSQLite(file)
	if file == "" {
		if db, err = sql.Open("sqlite", ":memory:"); err == nil {
			db.SetMaxOpenConns(1) // each connection would have a database of its own
		}
	}
	if err != nil {
		return nil, err
	}
	b := &Backend{Store: s, Ledger: conn{db, true}, Within: within(db, true), Close: db.Close}
	if _, ok := s.(*memstore.Store); ok {
		b.Transaction = func(k *receive.Kit, h Handler) *receive.Endpoint {
			return receive.Transaction(k, func(ctx context.Context, outer *memstore.Tx, d *receive.Delivery) error {
				tx, err := db.BeginTx(context.WithoutCancel(ctx), nil)
				if err != nil {
					return err
				}
				if err := h(ctx, conn{tx, true}, d); err != nil {
					return errors.Join(err, tx.Rollback())
				}
				outer.OnCommit(func() { _ = tx.Commit() })
				return nil
			})
		}
	}
	return b, nil
}

func ofSQL(ctx context.Context, db *sql.DB, d sqlstore.Dialect) (*Backend, error) {
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	s := sqlstore.New(db, d)
	if err := s.CreateTables(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	lite := d == sqlstore.SQLite
	return &Backend{Store: s, Ledger: conn{db, lite}, Close: db.Close, Within: within(db, lite),
		Transaction: func(k *receive.Kit, h Handler) *receive.Endpoint {
			return receive.Transaction(k, func(ctx context.Context, tx *sql.Tx, d *receive.Delivery) error { return h(ctx, conn{tx, lite}, d) })
		}}, nil
}

func within(db *sql.DB, lite bool) func(context.Context, func(Conn) error) error {
	return func(ctx context.Context, f func(Conn) error) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		if err := f(conn{tx, lite}); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		return tx.Commit()
	}
}

// conn is a Conn of database/sql: a pool or a transaction.
type conn struct {
	inner interface {
		ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
		QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	}
	lite bool
}

func (c conn) text(query string) string {
	if c.lite {
		return strings.ReplaceAll(query, "$", "?")
	}
	return query
}

func (c conn) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	r, err := c.inner.ExecContext(ctx, c.text(query), args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

func (c conn) Row(ctx context.Context, query string, args []any, into ...any) error {
	return c.inner.QueryRowContext(ctx, c.text(query), args...).Scan(into...)
}

func (c conn) Gate() gate.DB {
	if c.lite {
		return gate.SQLite(c.inner)
	}
	return gate.PostgreSQL(c.inner)
}

func openPgx(ctx context.Context, dsn string) (*Backend, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	config.MaxConns = connections
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	s := pgxstore.New(pool)
	if err := s.CreateTables(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	return &Backend{
		Store: s, Ledger: pgxConn{pool}, Close: func() error { pool.Close(); return nil },
		Transaction: func(k *receive.Kit, h Handler) *receive.Endpoint {
			return receive.Transaction(k, func(ctx context.Context, tx pgx.Tx, d *receive.Delivery) error { return h(ctx, pgxConn{tx}, d) })
		},
		Within: func(ctx context.Context, f func(Conn) error) error {
			return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return f(pgxConn{tx}) })
		},
	}, nil
}

// pgxConn is a Conn of pgx: a pool or a transaction.
type pgxConn struct {
	inner interface {
		Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error)
		QueryRow(ctx context.Context, query string, args ...any) pgx.Row
	}
}

func (c pgxConn) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	tag, err := c.inner.Exec(ctx, query, args...)
	return tag.RowsAffected(), err
}

func (c pgxConn) Gate() gate.DB { return gate.PGX(c.inner) }

func (c pgxConn) Row(ctx context.Context, query string, args []any, into ...any) error {
	return c.inner.QueryRow(ctx, query, args...).Scan(into...)
}
