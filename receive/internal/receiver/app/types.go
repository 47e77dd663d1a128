package app

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/grapnelhq/grapnel/receive"
	"github.com/grapnelhq/grapnel/receive/gate"
)

// Handler is the invoice service's handler. Its effects go to db: a transaction in the mode
// transaction, and else the ledger's own connections.
type Handler func(ctx context.Context, db Conn, d *receive.Delivery) error

// Backend is a store with a ledger.
type Backend struct {
	Store  receive.Store
	Ledger Conn
	// Transaction is the mode transaction; nil: the store has no transactions.
	Transaction func(*receive.Kit, Handler) *receive.Endpoint
	// Within runs f in a transaction of the ledger's database.
	Within func(ctx context.Context, f func(Conn) error) error
	Close  func() error
}

type app struct {
	env     func(string) string
	backend *Backend
	faults  faults
	hold    hold
	skew    atomic.Int64 // nanoseconds that the kit's clock is ahead of the machine's
	work    []func(context.Context)
}

// Conn runs SQL with parameters $1, $2 and so on.
type Conn interface {
	Exec(ctx context.Context, query string, args ...any) (int64, error)
	Row(ctx context.Context, query string, args []any, into ...any) error
	Gate() gate.DB
}

// faults are the next failures of events, by their ids.
type faults struct {
	mu   sync.Mutex
	next map[string][]fault
}

type fault struct {
	kind string
	ms   int64
}
