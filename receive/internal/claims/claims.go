// Package claims is what the stores for SQL databases have in common: the tables, and each step of
// receive.Store, receive.Letters and receive.Transactor as SQL. sqlstore and pgxstore give it a
// database.
//
// Each step is one statement or one transaction, and no decision is made from a row that was read
// before. It has no clock: all times come from the caller.
package claims

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel/receive"
)

// Conn runs statements: a pool, or a transaction.
type Conn interface {
	// Exec returns the number of changed rows.
	Exec(ctx context.Context, query string, args ...any) (int64, error)
	// Query calls row for each row of the result.
	Query(ctx context.Context, row func(scan func(...any) error) error, query string, args ...any) error
}

// Database is a pool of connections whose transactions have the type T.
type Database[T any] interface {
	Conn
	// Begin begins a transaction. One that locks a whole database waits at most wait for it.
	Begin(ctx context.Context, wait time.Duration) (Tx[T], error)
}

// Tx is a transaction. Rollback after Commit does nothing.
type Tx[T any] interface {
	Conn
	Unwrap() T
	Commit(ctx context.Context) error
	Rollback(ctx context.Context)
}

// Store keeps claims, dead letters and an inbox in a database.
type Store[T any] struct {
	db  Database[T]
	sql statements
}

// New makes a store. postgres says whether the database is PostgreSQL; else it is SQLite.
func New[T any](db Database[T], postgres bool) *Store[T] {
	if postgres {
		return &Store[T]{db, forPostgreSQL}
	}
	return &Store[T]{db, forSQLite}
}

// CreateTables creates the tables that do not exist.
func (s *Store[T]) CreateTables(ctx context.Context) error {
	for statement := range strings.SplitSeq(s.sql.schema, ";\n") {
		if strings.TrimSpace(statement) == "" {
			continue
		}
		if _, err := s.db.Exec(ctx, statement); err != nil {
			return fmt.Errorf("receive: creating the tables: %w", err)
		}
	}
	return nil
}

// Claim implements receive.Store.
func (s *Store[T]) Claim(ctx context.Context, b receive.Bid) (receive.Claim, error) {
	statement := s.sql.claim
	if b.Replay {
		statement = s.sql.revive
	}
	c, won, err := s.bid(ctx, s.db, statement, b, receive.Busy, "")
	if err != nil || won {
		return c, err
	}
	return s.Look(ctx, b.Key)
}

// bid runs a claiming statement.
func (s *Store[T]) bid(ctx context.Context, on Conn, statement string, b receive.Bid, to receive.State, o receive.Outcome,
) (c receive.Claim, won bool, err error) {
	c, args := row(b, to, o)
	err = on.Query(ctx, func(scan func(...any) error) error {
		won = true
		return scan(&c.Generation, &c.Deliveries)
	}, statement, args...)
	return c, won, err
}

// bidHere makes a bid in a transaction that waits at most wait for the key's row.
func (s *Store[T]) bidHere(ctx context.Context, tx Conn, b receive.Bid, wait time.Duration, o receive.Outcome,
) (receive.Claim, bool, error) {
	if b.Replay {
		return s.bid(ctx, tx, s.sql.revive, b, receive.Done, o)
	}
	c, args := row(b, receive.Done, o)
	if s.sql.waits {
		args = append(args, strconv.FormatInt(wait.Milliseconds(), 10)+"ms")
	}
	n, err := tx.Exec(ctx, s.sql.insertHere, args...)
	if err == nil && n == 0 {
		return s.bid(ctx, tx, s.sql.claimHere, b, receive.Done, o)
	}
	c.Generation, c.Deliveries = 1, 1
	return c, n > 0, err
}

// row is the row that a bid makes, and its columns as the parameters of a claiming statement.
func row(b receive.Bid, to receive.State, o receive.Outcome) (receive.Claim, []any) {
	return receive.Claim{Key: b.Key, State: to, Owner: b.Owner, LeaseUntil: b.LeaseUntil, BodyHash: b.BodyHash, Outcome: o},
		[]any{b.Source, b.ID, string(to), b.Owner, b.LeaseUntil.UnixMilli(), b.KeepUntil.UnixMilli(), b.BodyHash, string(o), b.Now.UnixMilli()}
}

// Look implements receive.Store.
func (s *Store[T]) Look(ctx context.Context, k receive.Key) (c receive.Claim, err error) {
	err = s.db.Query(ctx, func(scan func(...any) error) error {
		var state, outcome string
		var lease int64
		if err := scan(&state, &c.Owner, &c.Generation, &lease, &c.BodyHash, &outcome, &c.Deliveries); err != nil {
			return err
		}
		c.Key, c.State, c.Outcome, c.LeaseUntil = k, receive.State(state), receive.Outcome(outcome), time.UnixMilli(lease)
		return nil
	}, s.sql.look, k.Source, k.ID)
	return c, err
}

// Renew implements receive.Store.
func (s *Store[T]) Renew(ctx context.Context, c receive.Claim, now, until time.Time) error {
	return owned(s.db.Exec(ctx, s.sql.renew, c.Source, c.ID, c.Owner, until.UnixMilli(), now.UnixMilli()))
}

// Settle implements receive.Store.
func (s *Store[T]) Settle(ctx context.Context, c receive.Claim, to receive.State, o receive.Outcome, now time.Time) error {
	return s.settle(ctx, s.db, c, to, o, now)
}

func (s *Store[T]) settle(ctx context.Context, on Conn, c receive.Claim, to receive.State, o receive.Outcome, now time.Time) error {
	return owned(on.Exec(ctx, s.sql.settle, c.Source, c.ID, c.Owner, string(to), string(o), now.UnixMilli()))
}

// owned is the result of a statement that changes a row if it has its owner still.
func owned(changed int64, err error) error {
	if err == nil && changed == 0 {
		return receive.ErrLostClaim
	}
	return err
}

// Clean implements receive.Store.
func (s *Store[T]) Clean(ctx context.Context, source string, now time.Time, limit int) (int, error) {
	n, err := s.db.Exec(ctx, s.sql.clean, source, now.UnixMilli(), limit)
	return int(n), err
}

// Transact implements receive.Transactor.
func (s *Store[T]) Transact(ctx context.Context, b receive.Bid, wait time.Duration,
	f func(T, receive.Claim) (receive.Outcome, error),
) (receive.Claim, error) {
	return s.transact(ctx, b, wait, receive.Processed, func(tx Tx[T], c receive.Claim) (receive.Outcome, error) { return f(tx.Unwrap(), c) })
}

// transact makes the key done before it runs f: until the commit no other transaction sees
// that, and those that want the row wait. likely is the outcome that costs no further statement.
func (s *Store[T]) transact(ctx context.Context, b receive.Bid, wait time.Duration, likely receive.Outcome,
	f func(Tx[T], receive.Claim) (receive.Outcome, error),
) (receive.Claim, error) {
	tx, err := s.db.Begin(ctx, wait)
	if err != nil {
		return receive.Claim{}, locked(err)
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	c, won, err := s.bidHere(ctx, tx, b, wait, likely)
	if err != nil {
		return receive.Claim{}, locked(err)
	}
	if !won {
		tx.Rollback(ctx)
		return s.Look(ctx, b.Key)
	}
	if c.Outcome, err = f(tx, c); err != nil {
		return receive.Claim{}, err
	}
	if c.Outcome != likely {
		if _, err := tx.Exec(ctx, s.sql.outcome, b.Source, b.ID, string(c.Outcome)); err != nil {
			return receive.Claim{}, err
		}
	}
	return c, tx.Commit(ctx)
}

// locked turns a database's error about a lock that was not released in time into ErrLocked.
func locked(err error) error {
	var state interface{ SQLState() string }
	if errors.As(err, &state) && state.SQLState() == "55P03" || strings.Contains(err.Error(), "database is locked") {
		return fmt.Errorf("%w: %w", receive.ErrLocked, err)
	}
	return err
}

// within runs f in a transaction.
func (s *Store[T]) within(ctx context.Context, f func(Conn) error) error {
	tx, err := s.db.Begin(ctx, receive.DefaultWait)
	if err != nil {
		return err
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// Bury implements receive.Letters.
func (s *Store[T]) Bury(ctx context.Context, c receive.Claim, l receive.Letter) error {
	return s.within(ctx, func(tx Conn) error {
		if err := s.settle(ctx, tx, c, receive.Dead, receive.DeadLettered, l.LastAt); err != nil {
			return err
		}
		return s.write(ctx, tx, s.sql.bury, l)
	})
}

// Keep implements receive.Letters.
func (s *Store[T]) Keep(ctx context.Context, l receive.Letter) error {
	return s.write(ctx, s.db, s.sql.keep, l)
}

func (s *Store[T]) write(ctx context.Context, on Conn, statement string, l receive.Letter) error {
	headers, err := json.Marshal(l.Header)
	if err != nil {
		return err
	}
	_, err = on.Exec(ctx, statement, l.Source, l.ID, string(headers), l.Body, l.Error, l.Deliveries,
		l.FirstAt.UnixMilli(), l.LastAt.UnixMilli())
	return err
}

// Letter implements receive.Letters.
func (s *Store[T]) Letter(ctx context.Context, k receive.Key) (receive.Letter, bool, error) {
	found, err := s.read(ctx, s.sql.letter, k.Source, k.ID)
	if err != nil || len(found) == 0 {
		return receive.Letter{}, false, err
	}
	return found[0], true, nil
}

// Letters implements receive.Letters.
func (s *Store[T]) Letters(ctx context.Context, source, after string, limit int) ([]receive.Letter, error) {
	return s.read(ctx, s.sql.letters, source, after, limit)
}

func (s *Store[T]) read(ctx context.Context, query string, args ...any) (all []receive.Letter, err error) {
	err = s.db.Query(ctx, func(scan func(...any) error) error {
		var l receive.Letter
		var headers string
		var first, last, replayed int64
		err := scan(&l.Source, &l.ID, &headers, &l.Body, &l.Error, &l.Deliveries, &first, &last, &replayed, &l.Result)
		if err != nil {
			return err
		}
		l.FirstAt, l.LastAt = time.UnixMilli(first), time.UnixMilli(last)
		if replayed != 0 {
			l.ReplayedAt = time.UnixMilli(replayed)
		}
		all = append(all, l)
		return json.Unmarshal([]byte(headers), &all[len(all)-1].Header)
	}, query, args...)
	return all, err
}

// Replayed implements receive.Letters.
func (s *Store[T]) Replayed(ctx context.Context, k receive.Key, at time.Time, result string) error {
	_, err := s.db.Exec(ctx, s.sql.replayed, k.Source, k.ID, at.UnixMilli(), result)
	return err
}

// Schema is the SQL that creates the tables.
func Schema(postgres bool) string {
	if postgres {
		return forPostgreSQL.schema
	}
	return forSQLite.schema
}
