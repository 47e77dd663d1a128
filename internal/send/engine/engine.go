// Package engine is the shell around the core: it runs the core's effects against the real store,
// the real network and the real clock, and returns their results to the core. It decides nothing
// about deliveries; it owns the goroutines.
//
// One goroutine (Run) owns the core and is the only one to call it. Attempts run in goroutines of
// their own, at most one per slot. One goroutine records: it collects the changes that are queued
// and commits them together, in the order in which the core asked for them. A few more do chores
// that the core asks for: reading pages, finishing deliveries, disabling endpoints. Run waits for
// all of them.
//
// Publishing does not pass through Run: Publish matches an event against the current configuration,
// appends it to the store and, once it is durable, hints at the new heads. New work is refused
// before the store suffers (admission.go), and each tenant has a limit of pending deliveries
// (pending.go). Finished deliveries are purged after their retention (retention.go). Operational
// events about an endpoint are committed in the transaction of the change they report
// (operational.go).
package engine

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/promise"
	"github.com/grapnelhq/grapnel/internal/base/trace"
	"github.com/grapnelhq/grapnel/internal/nodes/configuration"
	"github.com/grapnelhq/grapnel/internal/nodes/ownership"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/send/issue"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Options are the parts and settings of an engine. Store, Sender and Log are required.
type Options struct {
	Bounds       Bounds // inside this package; zero: their defaults
	Store        Store
	Sender       Sender
	Now          func() time.Time // time.Now
	Log          *slog.Logger
	Core         core.Options
	DrainTimeout time.Duration // for attempts in flight once Run is told to stop; 30 s
	Keep         Retention     // how long finished deliveries are retained

	Cluster *ownership.Options // nil: no other node uses the store
	Traces  *trace.Tracer      // nil: no spans are made

	// nil, or called when a queue may have something due; it must not block
	Ready func(queue string)
	// nil, or lists the consumers that this node has seen at a queue, for other nodes
	Consumers func(queue string) []grapnel.Consumer
	// nil, or drops a tenant's data key from memory if the database has it no longer
	ForgetKey func(ctx context.Context, tenant string) error
	// nil, or called when a delivery created by a replay has finished; it must not block
	Replayed func(endpoint string)
	// nil, or called when a delivery was made of an event whose type retains none; an empty
	// type is unknown. It must not block
	Delivered func(tenant, eventType string, event int64)
	// nil, or makes the link of a message to a customer's contact
	ContactLink func(to *grapnel.Endpoint, message *grapnel.Event) string
	// nil, or gets what package promise counts of attempts; it must not block
	Promised func(i promise.Indicator, good bool, took time.Duration)
	// counts neither events nor attempts: no metrics, promises or issues of them. Only for measuring
	// what counting costs
	Silent bool

	// Limits beyond which new work is refused: see admission.go.
	Limits
	Disk func() (DiskSpace, error) // space where the store is; nil: not measured
	// from 0 up to 1, safe for concurrent use; spreads the retries of refused callers. math/rand's
	Random func() float64
}

// Engine moves events from the store to their endpoints. Its parts know neither it nor, but for
// what they are given, each other.
type Engine struct {
	*configuration.Book // the configuration, and changes of it
	*publisher          // events in
	*orders             // people's requests
	*settler            // the endpoints that the core has

	store     Store
	ids       *grapnel.IDs // the store's
	now       func() time.Time
	log       *slog.Logger
	bounds    Bounds
	drain     time.Duration // for attempts in flight once Run is told to stop
	replayed  func(endpoint string)
	delivered func(tenant, eventType string, event int64)
	seen      func(queue string) []grapnel.Consumer

	forgetKey func(ctx context.Context, tenant string) error

	core   *core.Core
	inputs *inputs
	turns  *ownership.Pulse // of Run
	// of endpoints when the engine was created; the core has newer ones from then on
	standings map[string]store.Standing

	attempts  *attempts
	recorder  *recorder
	chores    *chores
	keeper    *keeper
	changes   *changeLog
	issues    *issues
	admission *admission
	pending   *pending
	metrics   *Metrics
	shards    *ownership.Shards // nil: this engine owns all endpoints
	watchdog  ownership.Watchdog

	issueKeeper *issue.Keeper

	stopping  atomic.Bool     // Run was told to stop
	sending   context.Context // of attempts; cancelled when draining takes too long
	abandon   context.CancelFunc
	forsaken  chan struct{} // closed by Forsake
	forsaking sync.Once
}

// Queues. The core attempts no delivery of a pulled endpoint: consumers take leases from the store
// (package queue), and the outcomes are recorded here, like those of other attempts.

// Settle records the outcomes of leases. A change that did not apply had no effect: its lease had
// expired, or was settled already.
func (e *Engine) Settle(ctx context.Context, changes []core.Change) ([]store.Changed, error) {
	return e.recorder.settle(ctx, changes)
}

// Metrics returns the engine's metrics.
func (e *Engine) Metrics() *Metrics { return e.metrics }

// Shards returns the endpoints that this node owns; nil: no other node uses the store, and this
// node owns all.
func (e *Engine) Shards() *ownership.Shards { return e.shards }

// Leads says whether this node does the work that one node does for all that share the store.
func (e *Engine) Leads() bool { return e.shards.Leads() }

// IDs returns the codec for the ids of the store's deliveries.
func (e *Engine) IDs() *grapnel.IDs { return e.ids }
