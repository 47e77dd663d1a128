// Package engine is the shell around the core: it runs the core's effects against the real store, the real network and the
// real clock, and brings their results back. It decides nothing about deliveries; it owns the goroutines.
//
// One goroutine (Run) owns the core and is the only one to call it. Attempts run in goroutines of their own, at most one per
// slot. One goroutine records: it gathers the changes that have piled up and commits them together, in the order in which
// the core asked for them. A few more do chores: pages, ends, configuration that the core asks for. Run waits for all of them.
//
// Publishing does not pass through Run: Publish matches an event against the current configuration, appends it to the store
// and, once it is durable, hints at the new heads. It is refused before the store suffers (admission.go), and a tenant may have only so
// much waiting (pending.go). What has been over for long enough is purged (retention.go). What happens to endpoints is told to others in the transaction of what it is about (tell.go).
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
	"github.com/grapnelhq/grapnel/internal/core"
	"github.com/grapnelhq/grapnel/internal/egress"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Store is the part of a store that the engine needs.
type Store interface {
	store.Street
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

// Options are what an engine is made of. Store, Sender and Log are required.
type Options struct {
	Bounds       Bounds // inside this room; zero: their defaults
	Store        Store
	Sender       Sender
	Now          func() time.Time // time.Now
	Log          *slog.Logger
	Core         core.Options
	DrainTimeout time.Duration // how long attempts in flight may take once Run is told to stop; 30 s
	CacheBytes   int64         // of event data kept for attempts soon to come; 32 MiB
	Keep         Retention     // of what is over

	Cluster *Cluster // nil: the store is this engine's alone

	Ready    func(queue string)    // nil, or told that a queue may have something due; it must not wait
	Replayed func(endpoint string) // nil, or told now and then that deliveries which a replay has made are over; it must not wait

	// When new work is refused: see admission.go.
	MaxPublishing int                  // publishes on their way to the store at once; 1024
	MaxPending    int64                // deliveries of one tenant that wait; 0: no limit
	Disk          func() (Room, error) // how much room there is where the store is; nil: nobody looks
	Random        func() float64       // from 0 up to 1, safe for use by many; spreads those who are to come again. math/rand's
}

// Engine moves events from the store to their endpoints.
type Engine struct {
	store  Store
	sender Sender
	now    func() time.Time
	log    *slog.Logger
	drain  time.Duration
	keep   Retention

	ready    func(queue string)
	replayed func(endpoint string)

	core   *core.Core
	inputs chan input
	over   chan struct{} // closed when Run takes no more inputs

	configuring chan struct{} // holds a token while the configuration changes, in the store and here
	config      atomic.Pointer[configuration]
	settled     atomic.Pointer[configuration] // the last one that the core has taken in; written by who has locked the configuration
	sessions    sessions

	standings map[string]store.Standing // of endpoints when the engine was made; the core knows better from then on
	admission *admission
	pending   *pending
	bounds    Bounds
	stopping  atomic.Bool // Run was told to stop
	incidents *incidents

	events     *cache
	shards     *shards // nil: everything is this engine's
	departures departures
	sealed     sync.Map // endpoints that the core leaves because the store refuses what is of their tenants
	recorder   *recorder
	chores     *chores
	idle       chan core.Attempt // taken by goroutines that wait for an attempt to make
	attempts   sync.WaitGroup    // those goroutines
	sending    context.Context   // of attempts; cancelled when draining takes too long
	abandon    context.CancelFunc
	wentBack   sync.Once     // the log says so
	forsaken   chan struct{} // closed by Forsake
	forsaking  sync.Once

	tokens  atomic.Int64
	waiting sync.Map // token → chan error, of orders that the core has not answered yet

	metrics *Metrics

	pulses []*pulse // of the loops that deliveries depend on; complete before Run
	turns  *pulse   // of Run
}

// input is something for the core, and maybe somebody who waits until the core has taken it.
type input struct {
	core.Input
	ask  func(*core.Core, time.Time) // instead of an Input: a look at the core
	done chan struct{}
}

// New makes an engine with the configuration that the store has. Nothing moves before Run.
func New(ctx context.Context, o Options) (*Engine, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	// The core compares times with those of the store, which are of the wall clock. A time that still has a reading of the
	// monotonic clock would compare by that with its like and by the wall with others, which after a jump is no order at all.
	wall := func() time.Time { return o.Now().Round(0) }
	o.Core.Shared = o.Cluster != nil
	e := &Engine{
		store: o.Store, sender: o.Sender, now: wall, log: o.Log, bounds: bounds.Fill(o.Bounds),
		drain: cmp.Or(o.DrainTimeout, 30*time.Second), keep: o.Keep, ready: o.Ready, replayed: o.Replayed,
		core:        core.New(o.Core),
		inputs:      make(chan input, 1024),
		configuring: make(chan struct{}, 1),
		over:        make(chan struct{}),
		forsaken:    make(chan struct{}),
		idle:        make(chan core.Attempt),
		events:      newCache(cmp.Or(o.CacheBytes, 32<<20)),
		pending:     newPending(o.MaxPending),
	}
	e.metrics = newMetrics(e)
	e.admission = newAdmission(o, e.metrics.refused)
	if o.Cluster != nil {
		e.shards = newShards(e, o.Cluster, o.Bounds)
	}
	e.recorder, e.incidents = newRecorder(e), newIncidents(e)
	e.turns = e.pulse("run")
	e.chores = newChores(e)
	e.sending, e.abandon = context.WithCancel(context.Background())
	if err := e.remember(ctx); err != nil {
		return nil, err
	}
	return e, nil
}

// remember reads what the store has before anything moves.
func (e *Engine) remember(ctx context.Context) error {
	if err := e.reload(ctx); err != nil {
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
	counted, err := e.countPending(ctx)
	if err != nil {
		return err
	}
	e.pending.set(counted)
	return nil
}

// Run moves deliveries until ctx ends. Then it starts no more attempts, lets those in flight finish within the drain
// timeout, records their outcomes, and returns.
func (e *Engine) Run(ctx context.Context) {
	var helpers sync.WaitGroup
	helpers.Go(e.recorder.run)
	helpers.Go(e.recorder.runNames)
	helpers.Go(e.incidents.run)
	helpers.Go(e.keepHouse)
	helpers.Go(e.purge)
	for range e.bounds.Recorder.Workers {
		helpers.Go(e.chores.run)
	}
	if e.shards != nil {
		helpers.Go(e.shards.keep)
		helpers.Go(e.shards.guard)
		helpers.Go(e.shards.watch)
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
	if e.shards != nil {
		e.shards.close()
	}
	e.waiting.Range(func(token, _ any) bool {
		e.answer(token.(int64), errStopping)
		return true
	})
}

// ownAll tells the core of every endpoint.
func (e *Engine) ownAll() {
	conf := e.config.Load()
	for _, ep := range conf.endpoints {
		if !conf.open(ep.Tenant) {
			continue
		}
		e.step(core.Configured{Endpoint: &ep.Endpoint, Newest: conf.newest, Standing: e.standings[ep.ID]})
	}
}

// Forsake ends Run at once: attempts in flight are cut off, and their outcomes are not recorded. It is for a store that answers
// nothing any more because what the engine knows of it has become false (store.ErrWentBack).
func (e *Engine) Forsake() { e.forsaking.Do(func() { close(e.forsaken) }) }

// loop feeds the core until the context has ended and everything in flight is recorded, or the drain takes too long.
func (e *Engine) loop(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	stop, draining := ctx.Done(), false
	var late <-chan time.Time
	for {
		e.turns.rest()
		if running, recording := e.core.Busy(); draining && running == 0 && recording == 0 {
			return
		}
		timer.Reset(e.untilWake())
		select {
		case in := <-e.inputs:
			e.work(e.turns)
			e.take(in)
			e.takeMore()
		case <-timer.C:
			e.work(e.turns)
			e.step(core.Tick{})
		case <-stop:
			stop, draining = nil, true
			e.stopping.Store(true)
			if e.shards != nil {
				e.shards.drain()
			}
			e.step(core.Drain{})
			late = time.After(e.drain)
		case <-late:
			running, _ := e.core.Busy()
			e.log.Warn("drain timeout: attempts in flight are abandoned and will be repeated", "attempts", running)
			e.abandon()
			late = nil
		case <-e.forsaken:
			return
		}
	}
}

// takeMore takes what is already there without looking at the timer and the context for each.
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

// longestSleep bounds how long a jump of the wall clock can go unnoticed.
const longestSleep = 10 * time.Second

// untilWake is how long the loop may sleep.
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

// await gives the core an input and waits until it has been taken in.
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
