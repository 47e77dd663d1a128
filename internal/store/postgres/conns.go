package postgres

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// bound gives a call its deadline; the caller must call done after it. If the deadline has passed,
// done replaces all connections of the store, because the fault that silences one affects the
// others. A call that only waited for a connection replaces none: all of them are busy, which says
// nothing about the network, and new ones would make a busy database busier.
func (p *pool) bound(ctx context.Context) (_ context.Context, done func()) {
	if p.within > 0 {
		got := new(atomic.Bool)
		ctx, cancel := context.WithTimeoutCause(context.WithValue(ctx, connected{}, got), p.within, errLate)
		return ctx, func() {
			if got.Load() && errors.Is(context.Cause(ctx), errLate) {
				p.of.reset()
			}
			cancel()
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(p.of.era(), func() { cancel(errLate) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// connected is the context key that tells whether a bounded call has got a connection.
type connected struct{}

func (s *connections) era() context.Context {
	s.eras.mu.Lock()
	defer s.eras.mu.Unlock()
	if s.eras.now == nil {
		s.eras.now, s.eras.end = context.WithCancel(context.Background())
	}
	return s.eras.now
}

// reset closes all connections: idle ones now, others when their calls return.
func (s *connections) reset() {
	s.eras.mu.Lock()
	end := s.eras.end
	s.eras.now, s.eras.end = nil, nil
	s.eras.mu.Unlock()
	if end != nil {
		end()
	}
	for _, p := range s.pools {
		p.Reset()
	}
}

// Acquire refuses once the database went back. Every use of a connection begins here. Release ends
// it.
func (p *pool) Acquire(ctx context.Context) (*pgxpool.Conn, error) {
	for {
		if err := p.of.refusal(); err != nil {
			return nil, err
		}
		began := time.Now()
		conn, err := p.Pool.Acquire(ctx)
		if err != nil {
			if p.of.password.refused(err, began) {
				continue // with the present one
			}
			return nil, err
		}
		if !conn.Conn().IsClosed() { // ping may have closed it
			if got, bounded := ctx.Value(connected{}).(*atomic.Bool); bounded {
				got.Store(true)
			}
			return conn, nil
		}
		p.of.giveBack(conn)
	}
}

// ping checks whether an idle connection still works, and closes it if not. It does so after a
// second, and if a transaction has found its connection cut since this one was used: whatever cut
// that one may have cut this one. pgxpool would take fifteen seconds to close it, whatever the
// caller's deadline.
func (s *connections) ping(ctx context.Context, is pgxpool.ShouldPingParams) bool {
	if is.IdleDuration > time.Second || s.now().Add(-is.IdleDuration).UnixNano() <= s.cut.Load() {
		limited, cancel := context.WithTimeout(ctx, s.bounds.Conns.Ping)
		defer cancel()
		if is.Conn.Ping(limited) != nil && ctx.Err() == nil && limited.Err() != nil {
			s.reset()
		}
	}
	return false // it is done
}

// giveBack returns a connection to the pool. A connection that is broken, or still in a
// transaction, leaves the pool at once and is closed separately: closing takes as long as the
// network is silent, and would occupy a slot of the pool until then.
func (s *connections) giveBack(conn *pgxpool.Conn) {
	is := conn.Conn().PgConn()
	if !is.IsClosed() && !is.IsBusy() && is.TxStatus() == 'I' {
		conn.Release()
		return
	}
	broken := conn.Hijack()
	s.closing.Go(func() {
		_ = is.Conn().Close() // without a message to the server, which may be unreachable
		_ = broken.Close(context.Background())
	})
}

// prelude is the first statement of a transaction whose connection does not itself limit statements
// or identify its database; empty: none is needed.
func (p *pool) prelude() string {
	if p.limit == "" {
		return ""
	}
	sql := "SELECT set_config('idle_in_transaction_session_timeout', '" + milliseconds(p.of.bounds.Conns.Idle) +
		"', true), set_config('statement_timeout', '" + p.limit + "', true), set_config('jit', 'off', true)"
	if p.identify {
		sql += ", " + p.of.identity()
	}
	return sql
}

// queuePrelude adds the prelude to a batch, which is one transaction.
func (p *pool) queuePrelude(b *pgx.Batch) {
	sql := p.prelude()
	if sql == "" {
		return
	}
	var ignored string
	before := p.of.mark()
	b.Queue(sql).QueryRow(func(row pgx.Row) error {
		if !p.identify {
			return row.Scan(&ignored, &ignored, &ignored)
		}
		var is identity
		if err := row.Scan(append([]any{&ignored, &ignored, &ignored}, is.into()...)...); err != nil {
			return err
		}
		return p.of.look(is, before)
	})
}

// query runs a query, in a transaction with a prelude if one is needed.
func (p *pool) query(ctx context.Context, conn *pgxpool.Conn, sql string, args []any) (pgx.Rows, func(), error) {
	if p.prelude() == "" {
		rows, err := conn.Query(ctx, sql, args...)
		return rows, func() {}, err
	}
	b := new(pgx.Batch)
	p.queuePrelude(b)
	look := b.QueuedQueries[0].Fn
	b.Queue(sql, args...)
	results := conn.SendBatch(ctx, b)
	end := func() { _ = results.Close() } // its error is the error of the rows
	if err := look(results); err != nil {
		end()
		return nil, nil, err
	}
	rows, err := results.Query()
	return rows, end, err
}

// Query is like pgxpool.Pool.Query.
func (p *pool) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	ctx, done := p.bound(ctx)
	conn, err := p.Acquire(ctx)
	if err != nil {
		done()
		return nil, err
	}
	rows, end, err := p.query(ctx, conn, sql, args)
	if err != nil {
		if rows != nil {
			rows.Close()
		}
		p.of.giveBack(conn)
		done()
		return nil, err
	}
	return &boundRows{Rows: rows, end: func() { end(); p.of.giveBack(conn); done() }}, nil
}

// boundRows end the deadline, and return the connection, when they have been read.
type boundRows struct {
	pgx.Rows
	end func()
}

func (r *boundRows) Next() bool {
	more := r.Rows.Next()
	if !more {
		r.Close()
	}
	return more
}

func (r *boundRows) Close() {
	r.Rows.Close()
	if r.end != nil {
		r.end()
		r.end = nil
	}
}

// QueryRow is like pgxpool.Pool.QueryRow.
func (p *pool) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	rows, err := p.Query(ctx, sql, args...)
	return boundRow{rows, err}
}

type boundRow struct {
	rows pgx.Rows
	err  error
}

// Scan reads the first row; pgx.ErrNoRows: there is none.
func (r boundRow) Scan(into ...any) error {
	if r.err != nil {
		return r.err
	}
	_, err := pgx.CollectOneRow(r.rows, func(row pgx.CollectableRow) (struct{}, error) { return struct{}{}, row.Scan(into...) })
	return err
}

// Exec is like pgxpool.Pool.Exec.
func (p *pool) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	rows, err := p.Query(ctx, sql, args...)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	rows.Close()
	return rows.CommandTag(), rows.Err()
}

// Begin is like pgxpool.Pool.Begin. The caller sets the transaction's deadline, with bound.
func (p *pool) Begin(ctx context.Context) (pgx.Tx, error) { return p.BeginTx(ctx, pgx.TxOptions{}) }

// BeginTx is like pgxpool.Pool.BeginTx; see Begin.
func (p *pool) BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error) {
	conn, err := p.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	begun, err := conn.Conn().BeginTx(ctx, o)
	if err != nil {
		p.of.giveBack(conn)
		return nil, err
	}
	tx := &boundTx{begun, p.of, conn}
	b := new(pgx.Batch)
	if p.queuePrelude(b); b.Len() > 0 {
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return nil, errors.Join(err, tx.Rollback(context.WithoutCancel(ctx)))
		}
	}
	return tx, nil
}

// boundTx returns the connection when the transaction ends.
type boundTx struct {
	pgx.Tx
	of   *connections
	conn *pgxpool.Conn
}

func (t *boundTx) end() {
	if t.conn != nil {
		t.of.giveBack(t.conn)
		t.conn = nil
	}
}

func (t *boundTx) Commit(ctx context.Context) error {
	defer t.end()
	return t.Tx.Commit(ctx)
}

// Rollback has a deadline of its own, because callers pass a context without one.
func (t *boundTx) Rollback(ctx context.Context) error {
	defer t.end()
	ctx, cancel := context.WithTimeout(ctx, t.of.bounds.Conns.Patience)
	defer cancel()
	return t.Tx.Rollback(ctx)
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
