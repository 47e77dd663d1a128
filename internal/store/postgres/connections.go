package postgres

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// connections are those to the database, each kind of use with its own pool. They replace broken
// ones, and refuse a database that went back (wentback.go).
type connections struct {
	bounds  Bounds
	log     *slog.Logger
	now     func() time.Time
	pools   []*pool // all but chores, which shares the connections of reading
	owning  *pool   // for leases of shards and the list of nodes
	pool    *pool   // for reads of publishing and delivering
	reading *pool   // for callers of the API
	chores  *pool   // for work without a time limit
	writing *pool   // for the writers
	eras    eras

	password passwords // of new connections

	cut     atomic.Int64   // when a transaction last found its connection cut, in nanoseconds since 1970
	closing sync.WaitGroup // broken connections that are being closed

	history *History
	at      identity              // of the database of the first connection; guarded by history.mu
	blind   atomic.Bool           // the server does not report its identity
	warned  atomic.Bool           // a connection in clear was reported
	lost    atomic.Pointer[error] // the reason for which every call is refused; nil: none
	fatal   chan error
	ctx     context.Context // of transactions: a caller that gives up does not cancel the write
	cancel  context.CancelFunc
}

// pool is one kind of use of connections. It has the methods of pgxpool.Pool that the store needs,
// each with a deadline.
type pool struct {
	*pgxpool.Pool
	of       *connections
	within   time.Duration // of a call; 0: no limit, but the call ends when the connections are replaced
	limit    string        // statement_timeout of each transaction, in milliseconds; empty: the connection's
	identify bool          // each transaction checks the identity of its database, because of a pooler
}

// eras cancels calls without a deadline of their own when the connections are replaced.
type eras struct {
	mu  sync.Mutex
	now context.Context
	end context.CancelFunc
}
