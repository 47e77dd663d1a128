package postgres

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Conns bound the connections of a store. Each kind of use has its own, so that a slow use of one
// kind never keeps another kind waiting.
type Conns struct {
	Ownership int `bound:"2"` // for leases of shards and the list of nodes
	Engine    int `bound:"4"` // for what publishing and delivering read
	Writes    int `bound:"4"` // for transactions that write; each writer has one
	// Reads are for lists, searches and counts of the API, and for chores: purges, days, moves.
	Reads int `bound:"6" least:"3"`

	// Patience is how long a transaction may take, or a read for the engine. After one that took
	// longer all connections are replaced: its answer does not come, because the machine at the
	// other end is gone. The server sets a third of the lease, so that a node renews in time over
	// new connections.
	Patience time.Duration `bound:"5s"`
	Reading  time.Duration `bound:"5s"` // of a read for the API; the database ends a longer one
	// Idle is how long a transaction may wait for its node's next statement. Then the database ends
	// it, and its locks: a node that was stopped, or cut off, between two statements would keep
	// others from its shards until the kernel notices, which takes hours.
	Idle  time.Duration `bound:"3s"`
	Ping  time.Duration `bound:"1s"`    // until a connection that was idle shows that it works
	Stall time.Duration `bound:"2s"`    // until waiting writes, none of which commits, or a silent probe make the store unable
	Probe time.Duration `bound:"500ms"` // pause between two probes of a store that is unable, or that nothing is written to
}

// errLate is the cause with which contexts end that a store made: the database did not answer in
// time.
var errLate = errors.New("postgres: the database did not answer in time")

// pool is one kind of use of connections. It has the methods of a pgxpool.Pool that the store
// needs, each with a deadline.
type pool struct {
	*pgxpool.Pool
	store    *Store
	within   time.Duration // for a call; 0: no limit, but it ends when the connections are replaced
	limit    string        // statement_timeout of each transaction, in milliseconds; empty: that of the connection
	identify bool          // each transaction looks which database it is in: there is a pooler
}

// bound gives a call its deadline. done has to be called after it; when the deadline had passed, it
// replaces all connections of the store: what keeps one from answering keeps the others, too. A
// call that only waited for a connection replaces none: all of them are busy, which says nothing
// of the network, and new ones would make a busy database busier.
func (p *pool) bound(ctx context.Context) (_ context.Context, done func()) {
	if p.within > 0 {
		got := new(atomic.Bool)
		ctx, cancel := context.WithTimeoutCause(context.WithValue(ctx, connected{}, got), p.within, errLate)
		return ctx, func() {
			if got.Load() && errors.Is(context.Cause(ctx), errLate) {
				p.store.reset()
			}
			cancel()
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(p.store.era(), func() { cancel(errLate) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// connected is the key of whether a bounded call has got a connection.
type connected struct{}

// gaveUp says whether it was the caller who gave up, and not this package on the database.
func gaveUp(ctx context.Context) bool {
	return ctx.Err() != nil && !errors.Is(context.Cause(ctx), errLate)
}

// eras cancels what has no deadline of its own when the connections are replaced.
type eras struct {
	mu  sync.Mutex
	now context.Context
	end context.CancelFunc
}

func (s *Store) era() context.Context {
	s.eras.mu.Lock()
	defer s.eras.mu.Unlock()
	if s.eras.now == nil {
		s.eras.now, s.eras.end = context.WithCancel(context.Background())
	}
	return s.eras.now
}

// reset closes all connections: idle ones now, others when their calls return.
func (s *Store) reset() {
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

// Acquire refuses once the database went back: every use of a connection begins here. Release ends
// it.
func (p *pool) Acquire(ctx context.Context) (*pgxpool.Conn, error) {
	for {
		if err := p.store.refusal(); err != nil {
			return nil, err
		}
		conn, err := p.Pool.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		if !conn.Conn().IsClosed() { // ping may have closed it
			if got, bounded := ctx.Value(connected{}).(*atomic.Bool); bounded {
				got.Store(true)
			}
			return conn, nil
		}
		p.store.giveBack(conn)
	}
}

// ping looks whether a connection that was idle still works, and closes it if not. pgxpool would
// wait for a quarter of a minute until such a connection is closed, whatever the caller's deadline.
func (s *Store) ping(ctx context.Context, is pgxpool.ShouldPingParams) bool {
	if is.IdleDuration > time.Second {
		limited, cancel := context.WithTimeout(ctx, s.bounds.Conns.Ping)
		defer cancel()
		if is.Conn.Ping(limited) != nil && ctx.Err() == nil && limited.Err() != nil {
			s.reset()
		}
	}
	return false // it is done
}

// giveBack gives a connection back. One that is broken, or still in a transaction, leaves the pool
// at once and is closed beside it: closing takes as long as the network is silent, and the pool
// would keep its place until then.
func (s *Store) giveBack(conn *pgxpool.Conn) {
	is := conn.Conn().PgConn()
	if !is.IsClosed() && !is.IsBusy() && is.TxStatus() == 'I' {
		conn.Release()
		return
	}
	broken := conn.Hijack()
	s.closing.Go(func() {
		_ = is.Conn().Close() // nothing is said to the server, which may not hear it
		_ = broken.Close(context.Background())
	})
}

// prelude is the first statement of a transaction whose connection does not say by itself how long
// a statement may take, or which database it leads to; empty: none is needed.
func (p *pool) prelude() string {
	if p.limit == "" {
		return ""
	}
	sql := "SELECT set_config('idle_in_transaction_session_timeout', '" + milliseconds(p.store.bounds.Conns.Idle) +
		"', true), set_config('statement_timeout', '" + p.limit + "', true)"
	if p.identify {
		sql += ", " + p.store.identity()
	}
	return sql
}

// queuePrelude puts the prelude into a batch, which is one transaction.
func (p *pool) queuePrelude(b *pgx.Batch) {
	sql := p.prelude()
	if sql == "" {
		return
	}
	var ignored string
	before := p.store.mark()
	b.Queue(sql).QueryRow(func(row pgx.Row) error {
		if !p.identify {
			return row.Scan(&ignored, &ignored)
		}
		var is identity
		if err := row.Scan(append([]any{&ignored, &ignored}, is.into()...)...); err != nil {
			return err
		}
		return p.store.look(is, before)
	})
}

// query is a query in a transaction with a prelude, if it needs one.
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
	end := func() { _ = results.Close() } // its error is that of the rows
	if err := look(results); err != nil {
		end()
		return nil, nil, err
	}
	rows, err := results.Query()
	return rows, end, err
}

// Query is that of a pgxpool.Pool.
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
		p.store.giveBack(conn)
		done()
		return nil, err
	}
	return &boundRows{Rows: rows, end: func() { end(); p.store.giveBack(conn); done() }}, nil
}

// boundRows end the deadline, and give the connection back, when they have been read.
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

// QueryRow is that of a pgxpool.Pool.
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
	defer r.rows.Close()
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return pgx.ErrNoRows
	}
	if err := r.rows.Scan(into...); err != nil {
		return err
	}
	r.rows.Close()
	return r.rows.Err()
}

// Exec is that of a pgxpool.Pool.
func (p *pool) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if p.prelude() == "" {
		ctx, done := p.bound(ctx)
		defer done()
		conn, err := p.Acquire(ctx)
		if err != nil {
			return pgconn.CommandTag{}, err
		}
		defer p.store.giveBack(conn)
		return conn.Exec(ctx, sql, args...)
	}
	rows, err := p.Query(ctx, sql, args...)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	rows.Close()
	return rows.CommandTag(), rows.Err()
}

// Begin is that of a pgxpool.Pool. The deadline of the transaction is for its caller to set, with
// bound.
func (p *pool) Begin(ctx context.Context) (pgx.Tx, error) { return p.BeginTx(ctx, pgx.TxOptions{}) }

// BeginTx is that of a pgxpool.Pool; see Begin.
func (p *pool) BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error) {
	conn, err := p.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	begun, err := conn.Conn().BeginTx(ctx, o)
	if err != nil {
		p.store.giveBack(conn)
		return nil, err
	}
	tx := &boundTx{begun, p.store, conn}
	b := new(pgx.Batch)
	if p.queuePrelude(b); b.Len() > 0 {
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return nil, errors.Join(err, tx.Rollback(context.WithoutCancel(ctx)))
		}
	}
	return tx, nil
}

// boundTx gives the connection back when the transaction ends.
type boundTx struct {
	pgx.Tx
	store *Store
	conn  *pgxpool.Conn
}

func (t *boundTx) end() {
	if t.conn != nil {
		t.store.giveBack(t.conn)
		t.conn = nil
	}
}

func (t *boundTx) Commit(ctx context.Context) error {
	defer t.end()
	return t.Tx.Commit(ctx)
}

// Rollback has a deadline, because callers ask for it without one.
func (t *boundTx) Rollback(ctx context.Context) error {
	defer t.end()
	ctx, cancel := context.WithTimeout(ctx, t.store.bounds.Conns.Patience)
	defer cancel()
	return t.Tx.Rollback(ctx)
}
