package engine

import (
	"cmp"
	"context"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/allowance"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/nodes/configuration"
	"github.com/grapnelhq/grapnel/internal/nodes/ownership"
	"github.com/grapnelhq/grapnel/internal/send/catalogue"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/send/issue"
	"github.com/grapnelhq/grapnel/internal/store"
)

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
	documents := &refusing{Store: o.Store}
	o.Store = documents
	e := &Engine{
		store: o.Store, ids: o.Store.IDs(), now: wall, log: o.Log, bounds: bounds.Fill(o.Bounds),
		drain: cmp.Or(o.DrainTimeout, 30*time.Second), replayed: o.Replayed, delivered: o.Delivered, seen: o.Consumers, forgetKey: o.ForgetKey,
		core: core.New(o.Core), inputs: newInputs(), metrics: newMetrics(o.Promised, o.Silent),
		forsaken: make(chan struct{}),
	}
	e.sending, e.abandon = context.WithCancel(context.Background())
	e.shards = ownership.New(o.Cluster, e.env())
	e.settler = &settler{store: o.Store, shards: e.shards, inputs: e.inputs, step: e.step, gone: e.forgetTenant}
	limited := &rates{store: o.Store, clock: o.Now, log: o.Log, days: map[string]*dayCount{}, debts: allowance.New(0, e.bounds.RateTenants),
		terms: func(tenant string) grapnel.Terms { return e.Terms(tenant) }}
	e.pending = newPending(limited.pending)
	e.publisher = &publisher{rates: limited, store: o.Store, shards: e.shards, pending: e.pending, metrics: e.metrics, log: o.Log,
		repeated: &duplicates{store: o.Store, log: o.Log, bounds: e.bounds.Duplicates, over: e.inputs.over,
			noted: map[string]map[string]*grapnel.Duplicate{}},
		bounds: e.bounds, inputs: e.inputs, ready: o.Ready, traces: o.Traces, filters: newFilterWork(e.bounds, o.Now),
		types:   newTypeLimit(o.Store, o.MaxTypes, e.bounds.Types),
		schemas: catalogue.NewCache(e.bounds.SchemaBytes), pacing: newPacing(e.bounds.Pacing, o.Now, e.metrics.waits.Inc),
		events: newCache(e.bounds.EventCache)}
	book := configuration.NewBook(configuration.Options{Store: o.Store, Log: o.Log, Settle: e.settle, WakeQueues: e.wakeQueues,
		Confirm: e.shards.Confirm, Reading: e.shards.Reading, Current: e.shards.Current})
	e.Book, e.settler.book, e.publisher.book, documents.book = book, book, book, book
	e.admission = &admission{clock: o.Now, random: o.Random, disk: o.Disk, log: o.Log, count: e.metrics.refused,
		bounds: e.bounds.Admission, seen: strain{most: e.bounds.Recorder.Publish, long: e.bounds.Admission.LongCommit}}
	if o.Random == nil {
		e.admission.random = rand.Float64
	}
	e.publisher.admission = e.admission
	e.metrics.watch(e.pending, e.admission, e.shards, e.inputs)
	e.makeParts(o)
	if err := e.remember(ctx); err != nil {
		return nil, err
	}
	return e, nil
}

// makeParts makes the parts that carry out what the core and people ask for.
func (e *Engine) makeParts(o Options) {
	b := e.bounds.Recorder
	e.attempts = &attempts{store: o.Store, sender: o.Sender, book: e.Book, shards: e.shards, ids: e.ids, events: e.events,
		metrics: e.metrics, log: o.Log, inputs: e.inputs, traces: o.Traces, sending: e.sending, idle: make(chan core.Attempt),
		link: o.ContactLink}
	e.changes = &changeLog{store: o.Store, book: e.Book, ids: e.ids, events: e.events, metrics: e.metrics, log: o.Log,
		bounds: b, over: e.inputs.over, sending: e.sending, dead: map[string]int{}, work: make(chan struct{}, 1)}
	e.recorder = &recorder{store: o.Store, book: e.Book, log: o.Log, bounds: b, over: e.inputs.over,
		pending: e.pending, admission: e.admission, metrics: e.metrics,
		namer: namer{store: o.Store, events: e.events, log: o.Log, bounds: b, over: e.inputs.over},
		epoch: e.shards.Epoch, stopping: e.stopping.Load, send: e.inputs.send, applied: e.after,
		pulse: e.watchdog.Pulse("recorder"), stuck: map[int64]bool{},
		changes: newPages(b.Page, &e.bounds.Recorder), unnamed: newPages(b.Names, &e.bounds.Recorder)}
	count := func(ctx context.Context) ([]share, error) { return countPending(ctx, o.Store, e.Snapshot()) }
	if o.Cluster != nil {
		e.pending.clock, e.pending.rest = o.Now, b.Recount
		e.pending.again = func() ([]share, error) { return count(e.sending) }
	}
	e.keeper = &keeper{store: o.Store, now: e.now, log: o.Log, keep: new(atomic.Pointer[Retention]), bounds: b, over: e.inputs.over,
		sending: e.sending, shared: o.Cluster != nil, leads: e.shards.Leads,
		count: count, pending: e.pending, changes: e.changes, admission: e.admission, metrics: e.metrics}
	e.SetLimits(o.Limits, o.Keep)
	tally := issue.NewTally(e.bounds.Issues)
	e.issues = &issues{book: e.Book, ids: e.ids, tally: tally, silent: o.Silent}
	e.issueKeeper = newIssueKeeper(issue.Options{Bounds: e.bounds.Issues, Tally: tally, Now: e.now, Log: o.Log,
		Leads: e.shards.Leads}, o.Store, e.Book)
	e.turns = e.watchdog.Pulse("run")
	e.chores = &chores{store: o.Store, book: e.Book, shards: e.shards, log: o.Log, sending: e.sending, pending: e.pending,
		metrics: e.metrics, send: e.inputs.send, forget: e.forget, disable: e.disable}
	e.chores.open(b.Workers, &e.watchdog)
	e.orders = &orders{store: o.Store, book: e.Book, shards: e.shards, now: e.now, bounds: b, inputs: e.inputs,
		admission: e.admission, pending: e.pending, arrived: e.publisher.arrived, end: e.chores.end}
}

// SetLimits replaces the limits of each tenant, and the retention from the next round of purging
// on. Types that a tenant has published stay known under a lower limit.
func (e *Engine) SetLimits(to Limits, keep Retention) {
	e.rates.limits.Store(&to)
	e.publisher.types.most.Store(int64(to.MaxTypes))
	e.keeper.keep.Store(&keep)
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
	helpers.Go(e.changes.run)
	helpers.Go(func() { e.issueKeeper.Run(e.sending, e.inputs.over) })
	helpers.Go(e.keeper.tidy)
	helpers.Go(e.keeper.purge)
	helpers.Go(e.rest)
	helpers.Go(e.publisher.notes)
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
	close(e.inputs.over)
	e.abandon()
	e.attempts.running.Wait()
	e.recorder.close()
	e.chores.close()
	helpers.Wait()
	e.changes.close()
	select {
	case <-e.forsaken: // the store answers nothing any more
	default:
		e.issueKeeper.Close()
	}
	e.shards.Close()
	e.orders.close()
}

// ownAll configures every endpoint in the core.
func (e *Engine) ownAll() {
	conf := e.Snapshot()
	for _, ep := range conf.Endpoints() {
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
		case in := <-e.inputs.queue:
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
			if running, _ := e.core.Busy(); running > 0 { // else only outcomes are left, and the recorder logs why
				e.log.Warn("drain timeout: attempts in flight abandoned; they are repeated after the restart", "attempts", running)
			}
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
	for range cap(e.inputs.queue) {
		select {
		case in := <-e.inputs.queue:
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

// untilWake is the time for which the loop may sleep.
func (e *Engine) untilWake() time.Duration {
	at := e.core.Wake()
	if at.IsZero() {
		return e.bounds.Unaware
	}
	return min(max(at.Sub(e.now()), 0), e.bounds.Unaware)
}

// step gives the core one input and carries out the effects that it returns.
func (e *Engine) step(in core.Input) {
	for _, effect := range e.core.Step(e.now(), in) {
		switch effect := effect.(type) {
		case core.Attempt:
			e.attempts.begin(effect)
		case core.Record:
			e.recorder.add(effect.Change)
		case core.Reply:
			e.answer(effect.Token, effect.Err)
		case core.Left:
			e.left(effect.Endpoint)
		default:
			e.chores.add(effect)
		}
	}
}

// env is the part of the engine that its shards need.
func (e *Engine) env() ownership.Env {
	return ownership.Env{
		Now: e.now, Log: e.log, Over: e.inputs.over, Sending: e.sending, Watchdog: &e.watchdog,
		Between: func(ctx context.Context, do func()) error {
			return e.inputs.ask(ctx, func(*core.Core, time.Time) { do() })
		},
		Leave: func(endpoint string) { e.step(core.Leave{Endpoint: endpoint}) },
		Configure: func(ep *grapnel.Endpoint, newest int64, st store.Standing) {
			e.metrics.stands(&st)
			e.step(core.Configured{Endpoint: ep, Newest: newest, Standing: st})
		},
		Endpoints: func() iter.Seq[*grapnel.Endpoint] {
			conf := e.Snapshot()
			return func(yield func(*grapnel.Endpoint) bool) {
				for _, ep := range conf.Endpoints() {
					if !yield(&ep.Endpoint) {
						return
					}
				}
			}
		},
		CatchUp: func(ctx context.Context) error { return e.Book.CatchUp(ctx) },
		Applied: func() int64 { return e.Book.Settled().Version },
		Newest: func(ctx context.Context) (int64, error) {
			_, newest, err := e.Book.StoreVersion(ctx)
			return newest, err
		},
		Standings: func(ctx context.Context) (map[string]store.Standing, error) { return e.readStandings(ctx) },
		Operate:   func(ctx context.Context, o store.Order) error { return e.Operate(ctx, o) },
		Accepted:  func(heads []store.Head) { e.Hinted(e.Snapshot().Pulled(heads)) },
	}
}

// after passes durable changes on: to metrics, logs, replays and waiting consumers.
func (e *Engine) after(page []core.Change, changes []store.Change, results []store.Changed) {
	e.metrics.recorded(page, results)
	e.ended(page, results)
	e.changes.recorded(page, results)
	e.issues.recorded(page, results)
	conf := e.Snapshot()
	e.pacing.outcomes(conf, page, results)
	var queues []string
	for i := range results {
		if c := &changes[i]; results[i].Applied && c.Status == grapnel.Delivered && e.delivered != nil && c.Identity.Event != 0 &&
			conf.RetainsNone(c.Tenant, page[i].Subject.Type) {
			e.delivered(c.Tenant, page[i].Subject.Type, c.Identity.Event)
		}
		e.operationalStored(changes[i].Operational, results[i].Operational)
		if results[i].Foreign {
			e.attempts.foreign(e.ids.Delivery(changes[i].Identity.CreatedAt, changes[i].Delivery), page[i].Endpoint)
		}
		if id := page[i].Endpoint; results[i].Next != nil && conf.Pulling() && conf.Pulls(id) && !slices.Contains(queues, id) {
			queues = append(queues, id)
		}
	}
	e.wakeQueues(queues)
	e.shards.WakeQueues(queues)
}

// ended reports the endpoints of deliveries that a replay created and whose first attempt finished
// them.
func (e *Engine) ended(page []core.Change, results []store.Changed) {
	if e.replayed == nil {
		return
	}
	for i := range results {
		if a := page[i].Attempt; results[i].Applied && page[i].Status.Final() && a != nil && a.Trigger == grapnel.TriggerReplay {
			e.replayed(page[i].Endpoint)
		}
	}
}
