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
// events about an endpoint are committed in the transaction of the change they report (tell.go).
package engine

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/bounds"
	"github.com/grapnelhq/grapnel/internal/configuration"
	"github.com/grapnelhq/grapnel/internal/core"
	"github.com/grapnelhq/grapnel/internal/egress"
	"github.com/grapnelhq/grapnel/internal/ownership"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Store is the part of a store that the engine needs.
type Store interface {
	store.Deliveries
	store.Configuration
	Delivery(ctx context.Context, scope store.Scope, seq int64) (*grapnel.Delivery, error)
	Counts(ctx context.Context, scope store.Scope) (map[string]map[grapnel.Status]int64, error)
	Purge(ctx context.Context, keep store.Keep, limit int) (int, error)
	Clear(ctx context.Context, c store.Clearing, limit int) (int, error)
	Imbalance(ctx context.Context) (int64, error)
	Waiting(ctx context.Context, endpoint string, limit int) (int, error)
	Note(ctx context.Context, e grapnel.AuditEntry) error
	Unlearn(ctx context.Context, now, asideBefore time.Time, limit int) (int, error)
	PutReplay(ctx context.Context, scope store.Scope, r grapnel.Replay, with store.With) (store.Put, error)
	Advance(ctx context.Context, s store.ReplayStep) ([]store.Redelivered, error)
}

// Sender makes one attempt.
type Sender interface {
	Send(ctx context.Context, d egress.Delivery) egress.Result
}

// Options are the parts and settings of an engine. Store, Sender and Log are required.
type Options struct {
	Bounds       Bounds // inside this package; zero: their defaults
	Store        Store
	Sender       Sender
	Now          func() time.Time // time.Now
	Log          *slog.Logger
	Core         core.Options
	DrainTimeout time.Duration // for attempts in flight once Run is told to stop; 30 s
	CacheBytes   int64         // event data cached for first attempts; 32 MiB
	Keep         Retention     // how long finished deliveries are retained

	Cluster *ownership.Options // nil: no other node uses the store

	// nil, or called when a queue may have something due; it must not block
	Ready func(queue string)
	// nil, or called when a delivery created by a replay has finished; it must not block
	Replayed func(endpoint string)

	// Limits beyond which new work is refused: see admission.go.
	MaxPublishing int                       // publishes in flight to the store; 1024
	MaxPending    int64                     // pending deliveries of one tenant; 0: no limit
	MaxEndpoints  int                       // of one tenant, queues among them; 0: no limit
	Disk          func() (DiskSpace, error) // space where the store is; nil: not measured
	// from 0 up to 1, safe for concurrent use; spreads the retries of refused callers. math/rand's
	Random func() float64
}

// Engine moves events from the store to their endpoints.
type Engine struct {
	*configuration.Book // the configuration, and changes of it
	*orders

	store  Store
	ids    *grapnel.IDs // the store's
	sender Sender
	now    func() time.Time
	log    *slog.Logger
	drain  time.Duration
	most   int // endpoints of one tenant; 0: no limit

	ready    func(queue string)
	replayed func(endpoint string)

	core   *core.Core
	inputs chan input
	over   chan struct{} // closed when Run accepts no more inputs

	book *configuration.Book

	// of endpoints when the engine was created; the core has newer ones from then on
	standings map[string]store.Standing
	admission *admission
	filters   *filterWork
	pending   *pending
	bounds    Bounds
	stopping  atomic.Bool // Run was told to stop
	incidents *incidents

	events *cache
	shards *ownership.Shards // nil: this engine owns all endpoints
	// endpoints that the core leaves because the store refuses writes of their sealed tenants
	sealed sync.Map
	// endpoints that the core leaves or has left because their tenants were closed
	away      sync.Map
	returned  returned
	recorder  *recorder
	chores    *chores
	keeper    *keeper
	idle      chan core.Attempt // received by goroutines that wait for an attempt
	attempts  sync.WaitGroup    // those goroutines
	sending   context.Context   // of attempts; cancelled when draining takes too long
	abandon   context.CancelFunc
	wentBack  sync.Once     // the log mentions it once
	forsaken  chan struct{} // closed by Forsake
	forsaking sync.Once

	metrics *Metrics

	watchdog ownership.Watchdog
	turns    *ownership.Pulse // of Run
}

// input is one input for the core. done, if not nil, is closed once the core has taken it.
type input struct {
	core.Input
	ask  func(*core.Core, time.Time) // instead of an Input: reads the core
	done chan struct{}
}

// New makes an engine with the configuration in the store. Nothing is attempted before Run.
func New(ctx context.Context, o Options) (*Engine, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	// The core compares times with those of the store, which are wall-clock times. Times with a
	// monotonic reading compare by that among themselves and by the wall clock with others. After a
	// jump of the clock that is no order at all.
	wall := func() time.Time { return o.Now().Round(0) }
	o.Core.Shared, o.Core.IDs = o.Cluster != nil, o.Store.IDs()
	e := &Engine{
		store: o.Store, ids: o.Store.IDs(), sender: o.Sender, now: wall, log: o.Log, bounds: bounds.Fill(o.Bounds),
		drain: cmp.Or(o.DrainTimeout, 30*time.Second), most: o.MaxEndpoints, ready: o.Ready, replayed: o.Replayed,
		core:     core.New(o.Core),
		inputs:   make(chan input, 1024),
		over:     make(chan struct{}),
		forsaken: make(chan struct{}),
		idle:     make(chan core.Attempt),
		events:   newCache(cmp.Or(o.CacheBytes, 32<<20)),
		pending:  newPending(o.MaxPending),
		returned: returned{wake: make(chan struct{}, 1)},
	}
	e.sending, e.abandon = context.WithCancel(context.Background())
	e.shards = ownership.New(o.Cluster, e.env())
	e.Book = configuration.NewBook(configuration.Options{Store: o.Store, Log: o.Log, Settle: e.settle, Rouse: e.rouse,
		Confirm: e.shards.Confirm, Reading: e.shards.Reading, Current: e.shards.Current})
	e.metrics = newMetrics(e)
	e.admission = newAdmission(o, e.metrics.refused)
	e.filters = newFilterWork(e.bounds, o.Now)
	e.incidents = newIncidents(e)
	e.recorder = &recorder{store: o.Store, book: e.Book, log: o.Log, bounds: e.bounds.Recorder, over: e.over,
		events: e.events, pending: e.pending, admission: e.admission, metrics: e.metrics,
		epoch: e.shards.Epoch, stopping: e.stopping.Load, send: e.send, sealed: e.noteSeal, applied: e.after,
		pulse: e.watchdog.Pulse("recorder"), stuck: map[int64]bool{},
		changes: newPages(e.bounds.Recorder.Page), unnamed: newPages(e.bounds.Recorder.Names)}
	e.keeper = &keeper{
		store:     o.Store,
		now:       wall,
		log:       o.Log,
		keep:      o.Keep,
		bounds:    e.bounds.Recorder,
		over:      e.over,
		sending:   e.sending,
		shared:    o.Cluster != nil,
		leads:     e.shards.Leads,
		count:     func(ctx context.Context) ([]share, error) { return countPending(ctx, o.Store, e.Snapshot()) },
		pending:   e.pending,
		incidents: e.incidents,
		admission: e.admission,
		metrics:   e.metrics,
	}
	e.turns = e.watchdog.Pulse("run")
	e.chores = newChores(e)
	e.orders = &orders{store: o.Store, book: e.Book, shards: e.shards, now: wall, bounds: e.bounds.Recorder, over: e.over,
		admission: e.admission, pending: e.pending, send: e.send, arrived: e.arrived, end: e.chores.end}
	if err := e.remember(ctx); err != nil {
		return nil, err
	}
	return e, nil
}

// remember reads configuration, standings and counts from the store.
func (e *Engine) remember(ctx context.Context) error {
	if err := e.Book.Load(ctx); err != nil {
		return err
	}
	standings, err := e.readStandings(ctx)
	if err != nil {
		return err
	}
	e.standings = standings
	for _, st := range standings {
		e.metrics.stands(&st)
	}
	counted, err := countPending(ctx, e.store, e.Snapshot())
	if err != nil {
		return err
	}
	e.pending.set(counted)
	return nil
}

// Run attempts deliveries until ctx ends. Then it starts no more attempts, lets those in flight
// finish within the drain timeout, records their outcomes, and returns.
func (e *Engine) Run(ctx context.Context) {
	var helpers sync.WaitGroup
	helpers.Go(e.recorder.run)
	helpers.Go(e.recorder.runNames)
	helpers.Go(e.incidents.run)
	helpers.Go(e.keeper.tidy)
	helpers.Go(e.keeper.purge)
	helpers.Go(e.reopenAll)
	for range e.bounds.Recorder.Workers {
		helpers.Go(e.chores.run)
	}
	if e.shards != nil {
		helpers.Go(e.shards.Run)
	} else {
		e.ownAll()
	}
	e.standings = nil
	e.loop(ctx)
	close(e.over)
	e.abandon()
	e.attempts.Wait()
	e.recorder.close()
	e.chores.close()
	helpers.Wait()
	e.incidents.close()
	e.shards.Close()
	e.orders.close()
}

// ownAll configures every endpoint of an open tenant in the core.
func (e *Engine) ownAll() {
	conf := e.Snapshot()
	for _, ep := range conf.Endpoints() {
		if !conf.Open(ep.Tenant) {
			continue
		}
		e.step(core.Configured{Endpoint: &ep.Endpoint, Newest: conf.Newest, Standing: e.standings[ep.ID]})
	}
}

// Forsake ends Run at once: attempts in flight are cut off, and their outcomes are not recorded. It
// is for a store that answers nothing any more because it was set back behind the engine's memory
// (store.ErrWentBack).
func (e *Engine) Forsake() { e.forsaking.Do(func() { close(e.forsaken) }) }

// loop feeds the core until the context has ended and everything in flight is recorded, or the
// drain takes too long.
func (e *Engine) loop(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	stop, draining := ctx.Done(), false
	var late <-chan time.Time
	for {
		e.turns.Rest()
		if running, recording := e.core.Busy(); draining && running == 0 && recording == 0 {
			return
		}
		timer.Reset(e.untilWake())
		select {
		case in := <-e.inputs:
			e.turns.Work()
			e.take(in)
			e.takeMore()
		case <-timer.C:
			e.turns.Work()
			e.step(core.Tick{})
		case <-stop:
			stop, draining = nil, true
			e.stopping.Store(true)
			e.shards.Drain()
			e.step(core.Drain{})
			late = time.After(e.drain)
		case <-late:
			running, _ := e.core.Busy()
			e.log.Warn("drain timeout: attempts in flight abandoned; they are repeated after the restart", "attempts", running)
			e.abandon()
			late = nil
		case <-e.forsaken:
			return
		}
	}
}

// takeMore takes the inputs that are queued already, without looking at the timer and the context
// for each.
func (e *Engine) takeMore() {
	for range cap(e.inputs) {
		select {
		case in := <-e.inputs:
			e.take(in)
		default:
			return
		}
	}
}

func (e *Engine) take(in input) {
	if in.ask != nil {
		in.ask(e.core, e.now())
	} else {
		e.step(in.Input)
	}
	if in.done != nil {
		close(in.done)
	}
}

// longestSleep bounds how long a jump of the wall clock goes unnoticed.
const longestSleep = 10 * time.Second

// untilWake is the time for which the loop may sleep.
func (e *Engine) untilWake() time.Duration {
	at := e.core.Wake()
	if at.IsZero() {
		return longestSleep
	}
	return min(max(at.Sub(e.now()), 0), longestSleep)
}

// send gives the core an input; false: the engine has stopped.
func (e *Engine) send(in core.Input) bool {
	select {
	case e.inputs <- input{Input: in}:
		return true
	case <-e.over:
		return false
	}
}

// await gives the core an input and waits until the core has taken it.
func (e *Engine) await(ctx context.Context, in input) error {
	in.done = make(chan struct{})
	select {
	case e.inputs <- in:
	case <-e.over:
		return errStopping
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-in.done:
		return nil
	case <-e.over:
		return errStopping
	case <-ctx.Done():
		return ctx.Err()
	}
}

var errStopping = grapnel.Errorf(grapnel.CodeUnavailable, "the server is shutting down")
