// Package relay moves events from the outboxes of producers, which are tables in databases of their own, into Grapnel.
//
// A Runner owns the relays. Each source with an outbox has one goroutine with one connection, a courier. It reads what has been committed there, in
// order, publishes it through the engine, and then removes it. How the order comes about is told in outbox/install.sql.
//
// What holds:
//
//   - Events of one key are published in the order of their commits. A look sees of each key the oldest that are left, without a gap, and
//     nothing is published before what was seen with it, or earlier, is durable.
//   - Each event arrives once. It has had its id since it was published, so doing again what may have been done is a duplicate, which the
//     store recognises; and an event is removed only after it is durable here.
//   - So two relays of one outbox do no harm. A lock in the producer's database sees to it that mostly one of them works.
//   - Polling is the truth. NOTIFY wakes a courier that sleeps, and losing one costs half a second.
//   - What Grapnel cannot take is set aside with the reason and holds up nothing.
//   - A database that is away is one courier's trouble and nobody else's.
//   - Nothing of a DSN is in a log, a status or an error.
//
// What it does not promise: that an event is recognised which was published here, could not be removed there, and was tried again only when
// Grapnel had forgotten it. Events are remembered as long as they are kept (--retention).
package relay

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/bounds"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Street is what the relay needs of the engine.
type Street interface {
	// Sources returns those in scope.
	Sources(scope store.Scope) []grapnel.Source
	// Publish commits events with their deliveries.
	Publish(ctx context.Context, events []store.Incoming, once *store.Once) (store.Accepted, error)
}

// Shelf keeps what cannot become an event.
type Shelf interface {
	SetAside(ctx context.Context, a grapnel.Aside) error
}

// Options are what a runner is made of. Street and Store are required.
type Options struct {
	Bounds   Bounds // inside this room; zero: their defaults
	Street   Street
	Store    Shelf
	MaxEvent int64            // bytes of an event's data; 0: DefaultMaxEvent
	Log      *slog.Logger     // nil: nothing is logged
	Now      func() time.Time // nil: time.Now
	Random   func() float64   // from 0 to 1, for pauses; nil: math/rand's

	open func(ctx context.Context, dsn string) (box, error) // nil: connect; tests put faults in between
}

// DefaultMaxEvent is how much data an event may have if nobody says otherwise.
const DefaultMaxEvent = 256 << 10

// Runner owns the relays of one process.
type Runner struct {
	o       Options
	metrics *counts

	mu       sync.Mutex
	couriers map[string]*courier // by source
	work     sync.WaitGroup
}

// New makes a runner. Nothing moves before Run.
func New(o Options) *Runner {
	if o.MaxEvent == 0 {
		o.MaxEvent = DefaultMaxEvent
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	o.Bounds = bounds.Fill(o.Bounds)
	if o.open == nil {
		o.open = func(ctx context.Context, dsn string) (box, error) { return open(ctx, dsn, o.Bounds) }
	}
	r := &Runner{o: o, couriers: map[string]*courier{}}
	r.metrics = newCounts()
	return r
}

// Run moves events until ctx ends, and returns when all that it started has returned. What was in the middle is done again by the next Run.
func (r *Runner) Run(ctx context.Context) {
	tick := time.NewTicker(r.o.Bounds.Sweep)
	defer tick.Stop()
	for ctx.Err() == nil {
		r.sweep(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	r.work.Wait()
}

// sweep gives every source with an outbox a courier, and takes it from those that have none any more, have another one, or are paused.
func (r *Runner) sweep(ctx context.Context) {
	wanted := map[string]grapnel.Source{}
	for _, s := range r.o.Street.Sources(store.Everyone()) {
		if s.Outbox != nil && !s.Paused {
			wanted[s.ID] = s
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, c := range r.couriers {
		if s, still := wanted[id]; !still || s.Outbox.DSN.Text != c.source.Outbox.DSN.Text || s.Tenant != c.source.Tenant {
			c.stop()
			// It is gone from the list at once, and there is another one at the next sweep: two of them do no harm.
			delete(r.couriers, id)
			continue
		}
		delete(wanted, id)
	}
	for id, s := range wanted {
		if ctx.Err() != nil {
			return
		}
		c := newCourier(r, s)
		var own context.Context
		own, c.stop = context.WithCancel(ctx)
		r.couriers[id] = c
		r.work.Go(func() { c.run(own) })
	}
}

// Status says how the relay of a source is doing. false: there is none.
func (r *Runner) Status(source string) (Status, bool) {
	r.mu.Lock()
	c := r.couriers[source]
	r.mu.Unlock()
	if c == nil {
		return Status{}, false
	}
	return c.status(), true
}
