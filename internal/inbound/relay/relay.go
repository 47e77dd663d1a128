// Package relay moves events from the outboxes of producers, which are tables in databases of their
// own, into Grapnel, and messages from brokers.
//
// A Runner owns the relays. Each source with an outbox or a broker has one goroutine with one
// connection, a courier. It reads committed rows in order, publishes them through the engine, and
// then removes them. outbox/install.sql explains the order.
//
// Its guarantees:
//
//   - Events of one key are published in the order of their commits. A look reads the oldest rows
//     of each key without a gap, and nothing is published before the rows that were read with it,
//     or earlier, are durable.
//   - Each event arrives once. It has its id since it was published, so a repeated publish is a
//     duplicate, which the store recognises; and a row is removed only after its event is durable
//     here.
//   - So two relays of one outbox do no harm. A lock in the producer's database lets mostly one of
//     them work.
//   - Polling alone is sufficient. NOTIFY wakes a sleeping courier, and a lost one costs half a
//     second.
//   - An event that Grapnel cannot accept is set aside with the reason and delays no others.
//   - An unreachable database stops one courier only.
//   - No log, status or error contains a DSN's secrets.
//
// A broker is read like an outbox: its messages are the rows, and an acknowledgement removes them.
// Instead of a lock, the node that owns the source reads (brokerbox.go).
//
// It does not promise to recognise an event that was published here, could not be removed there,
// and is published again after Grapnel has forgotten it. Events are remembered for their retention
// (--retention).
package relay

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/allowance"
	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/store"
)

// DefaultMaxEvent is the limit of an event's data if Options set none.
const DefaultMaxEvent = 256 << 10

// New makes a runner. Nothing moves before Run.
func New(o Options) *Runner {
	if o.MaxEvent == 0 {
		o.MaxEvent = DefaultMaxEvent
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	o.Bounds = bounds.Fill(o.Bounds)
	if o.open == nil {
		o.open = func(ctx context.Context, dsn string) (box, error) {
			switch KindOf(dsn) {
			case SQLite:
				if path := filePath(dsn); slices.Contains(o.Files, path) {
					return openFile(path, o.Bounds)
				}
				return nil, errNotGiven
			case MySQL:
				return openMySQL(ctx, dsn, o.Bounds)
			}
			return open(ctx, dsn, o.Bounds)
		}
	}
	return &Runner{o: o, events: newEvents(), couriers: map[string]*courier{},
		asides: allowance.New(o.Bounds.AsideBurst, o.Bounds.AsideTenants)}
}

// Run moves events until ctx ends, and returns after everything it started has. Unfinished work is
// repeated by the next Run.
func (r *Runner) Run(ctx context.Context) {
	for ctx.Err() == nil {
		r.sweep(ctx)
		backoff.Wait(ctx.Done(), r.o.Bounds.Sweep)
	}
	r.work.Wait()
}

// sweep starts a courier for every source with an outbox or a broker, and stops those of sources
// that have none any more, have another one, or are paused. A source has one courier at a time: the
// next one starts when the one before has ended.
func (r *Runner) sweep(ctx context.Context) {
	wanted := map[string]grapnel.Source{}
	for _, s := range r.o.Engine.Sources(store.Everyone()) {
		if (s.Outbox != nil || s.Broker != nil && r.o.Consume != nil) && !s.Paused {
			wanted[s.ID] = s
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, c := range r.couriers {
		if s, still := wanted[id]; still && c.serves(&s) {
			delete(wanted, id)
			continue
		}
		c.stop()
		select {
		case <-c.over:
			delete(r.couriers, id)
		default:
			delete(wanted, id)
		}
	}
	for id, s := range wanted {
		if ctx.Err() != nil {
			return
		}
		c := newCourier(r, s)
		var own context.Context
		own, c.stop = context.WithCancel(ctx)
		r.couriers[id] = c
		r.work.Go(func() {
			defer close(c.over)
			c.run(own)
		})
	}
}

// serves says whether a courier reads what the source, as it is now, wants.
func (c *courier) serves(s *grapnel.Source) bool {
	switch {
	case s.Tenant != c.source.Tenant || (s.Outbox == nil) != (c.source.Outbox == nil):
		return false
	case s.Outbox != nil:
		return s.Outbox.DSN.Text == c.source.Outbox.DSN.Text
	}
	return s.Revision == c.source.Revision
}

// Status returns the state of a source's relay. false: it has none.
func (r *Runner) Status(source string) (Status, bool) {
	r.mu.Lock()
	c := r.couriers[source]
	r.mu.Unlock()
	if c == nil {
		return Status{}, false
	}
	return c.status(), true
}
