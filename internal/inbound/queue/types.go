package queue

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/trace"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Engine is the part of the engine that queues need.
type Engine interface {
	Endpoint(scope store.Scope, id string) (grapnel.Endpoint, bool)
	Queues(scope store.Scope) []grapnel.Endpoint
	Settle(ctx context.Context, changes []core.Change) ([]store.Changed, error)
}

// Store is the part of a store that queues need.
type Store interface {
	store.Leases
	IDs() *grapnel.IDs
	Heads(ctx context.Context, endpoint string, limit int) ([]store.Head, error)
	Events(ctx context.Context, seqs []int64) ([]*grapnel.Event, error)
	Delivery(ctx context.Context, scope store.Scope, seq int64) (*grapnel.Delivery, error)
}

// Broker serves the queues of one process.
type Broker struct {
	bounds  Bounds
	engine  Engine
	store   Store
	log     *slog.Logger
	now     func() time.Time
	random  io.Reader
	metrics *metrics
	granted *granted
	traces  *trace.Tracer
	labels  labels

	elsewhere func(queue string) []grapnel.Consumer

	mu       sync.RWMutex
	lines    map[string]*line // by the queue's id. Lock order: mu before a line's
	swept    time.Time        // begin of the last sweep
	failures int              // sweeps in a row that failed for some queue; only for Sweep
	setBacks int              // times that the clock was set back by more than an hour, and the start

	door  sync.Mutex // held to start a dispatcher, and to stop starting them
	ctx   context.Context
	close context.CancelFunc
	work  sync.WaitGroup // dispatchers

	unclaimed atomic.Int64 // claims in a row that failed, of all queues
}

// line is a queue's waiting consumers. Its dispatcher runs while it has waiters.
type line struct {
	broker *Broker
	queue  string
	wake   chan struct{} // holds a token when a waiter has joined or a hint has come

	hinted atomic.Bool // a delivery may be due that was not before

	mu      sync.Mutex
	waiting []*waiter // in order of arrival
	came    int       // number of waiters ever
	running bool      // there is a dispatcher
	barred  bool      // a delivery was due for which every waiter holds too many leases
	doubts  []string  // tokens of claims whose outcome is unknown
	seen    map[string]time.Time
	lookAt  time.Time // next read of the store for expired leases; zero: now
	ageAt   time.Time // next read for deliveries older than max_age

	aheadAt  time.Time // next read for deliveries that a clock that was ahead has planned
	recalled int       // Broker.setBacks for which they are due
}

// waiter is one request for leases. Its tokens are drawn once; a claim that does not use them
// leaves them for the next claim.
type waiter struct {
	number  int // the value of line.came when it joined
	wants   []store.Want
	once    bool // answer it after one claim, with or without leases
	asked   bool // the store was asked and had nothing for it
	claimed bool // a claim for it is on its way, and an answer may be
	leaving bool // its consumer has disconnected; it stays listed until the claim is answered
	reply   chan taken
}

// taken is the answer to a waiter.
type taken struct {
	leases []grapnel.Lease
	err    error
}

// labels are the values of the label queue, by the queue's id. The first Bounds.Labels queues by
// their ids, which are the oldest, have their names; all others share OtherQueues. So all nodes
// give a queue the same label, and no number of queues makes more series than that.
type labels struct {
	mu sync.Mutex
	of map[string]string
}

// metrics are the metrics of the package. The label queue is bounded (labels).
type metrics struct {
	leases   prometheus.Counter
	settled  *prometheus.CounterVec
	held     prometheus.Histogram
	stale    prometheus.Counter
	returned prometheus.Counter
	lag      prometheus.Histogram
	waiting  prometheus.Gauge
}

// Verdict is a consumer's result for a delivery.
type Verdict string
