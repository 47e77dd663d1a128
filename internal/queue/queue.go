// Package queue hands the deliveries of queues to consumers who ask for them, and takes in what they say came of them. A queue is an
// endpoint that is pulled; what belongs to every endpoint (policy, lanes, dead letters, replay, history) is not here but where it always is.
//
// Who asks waits in the line of a queue. One dispatcher for each line that somebody waits in gathers what all of them want into one claim, so
// that many consumers share a commit. It is woken by hints that something may be due (Ready), by the time at which the next delivery or
// the end of a lease is due, and looks by itself now and then, because a hint may be lost. A sweep does what must happen though nobody asks:
// leases that ran out are recorded as failed attempts, and what the policy lets wait no longer ends.
//
// What holds here:
//
//   - A lease is durable before anybody learns of it. It is the store that decides whether one is valid; what is in memory only saves reading.
//   - Who came first is served first, as far as it may hold more leases.
//   - Nobody who has left gets a lease: it is found out before claiming, and a lease that was granted meanwhile is given back at once and
//     counts as no attempt. The same goes for leases of a claim whose outcome is unknown, as soon as it is known.
//   - Nothing is handed out by a claim that ends after a queue was paused, disabled or deleted.
//   - What a settlement makes of a delivery is decided by the core's own lines (core.Settle), and recorded with everything that is to be told.
//
// What it does not promise: that a consumer whose answer got lost is told that it had settled. It is told that the lease is over, which is
// true. And order: consumers get the deliveries of one key one after the other, but what they do with them is theirs.
package queue

import (
	"cmp"
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/bounds"
	"github.com/grapnelhq/grapnel/internal/core"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Street is the part of the engine that queues need.
type Street interface {
	Endpoint(scope store.Scope, id string) (grapnel.Endpoint, bool)
	Queues(scope store.Scope) []grapnel.Endpoint
	Settle(ctx context.Context, changes []core.Change) ([]store.Changed, error)
}

// Store is the part of a store that queues need.
type Store interface {
	store.Leases
	Heads(ctx context.Context, endpoint string, limit int) ([]store.Head, error)
	Events(ctx context.Context, seqs []int64) ([]*grapnel.Event, error)
	Delivery(ctx context.Context, scope store.Scope, seq int64) (*grapnel.Delivery, error)
}

// Options are what a room is made of. Street, Store and Log are required.
type Options struct {
	Bounds Bounds // inside this room; zero: their defaults
	Street Street
	Store  Store
	Log    *slog.Logger
	Now    func() time.Time // time.Now
	Random io.Reader        // for tokens, safe for use by many; crypto/rand's
}

// Room owns the queues of one process.
type Room struct {
	bounds  Bounds
	street  Street
	store   Store
	log     *slog.Logger
	now     func() time.Time
	random  io.Reader
	metrics *metrics
	granted *granted

	mu    sync.RWMutex
	lines map[string]*line // by the queue's id. Who holds mu may take a line's; not the other way round

	door  sync.Mutex // taken to start a dispatcher, and to close the room
	ctx   context.Context
	close context.CancelFunc
	work  sync.WaitGroup // dispatchers
}

// Message is what a consumer gets: an event, and the right to say what came of it.
type Message struct {
	grapnel.Lease
	Event *grapnel.Event
}

// New makes a room. Whoever asks is served from now on; Run has to be called as well, since it is what ends that.
func New(o Options) *Room {
	b := bounds.Fill(o.Bounds)
	r := &Room{bounds: b, street: o.Street, store: o.Store, log: o.Log, random: cmp.Or(o.Random, rand.Reader), granted: newGranted(b.Granted),
		lines: map[string]*line{}}
	now := o.Now
	if now == nil {
		now = time.Now
	}
	// Times are compared with those of the store, which are of the wall clock; see engine.New.
	r.now = func() time.Time { return now().Round(0) }
	r.metrics = newMetrics(r)
	r.ctx, r.close = context.WithCancel(context.Background())
	return r
}

// Run sweeps, and lets the room be open, until ctx ends. Then whoever waits is answered that there is nothing, and nothing more is claimed; leases can still be
// settled. It returns when all that it started has returned.
func (r *Room) Run(ctx context.Context) {
	r.sweepUntil(ctx)
	// Whoever starts a dispatcher looks first whether the room is open: from here on nobody does.
	r.door.Lock()
	r.close()
	r.door.Unlock()
	r.work.Wait()
}

// Ready says that a queue may have something due. It never waits.
func (r *Room) Ready(queue string) {
	r.mu.RLock()
	l := r.lines[queue]
	r.mu.RUnlock()
	if l != nil {
		l.nudge()
	}
}

// line is the line of a queue; there is one for every queue that anybody has asked about.
func (r *Room) line(queue string) *line {
	r.mu.RLock()
	l := r.lines[queue]
	r.mu.RUnlock()
	if l != nil {
		return l
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if l = r.lines[queue]; l == nil {
		l = &line{room: r, queue: queue, wake: make(chan struct{}, 1), seen: map[string]time.Time{}}
		r.lines[queue] = l
	}
	return l
}

// begin starts a line's dispatcher; false: the room is not open.
func (r *Room) begin(l *line) bool {
	r.door.Lock()
	defer r.door.Unlock()
	if r.ctx.Err() != nil {
		return false
	}
	r.work.Go(func() { l.dispatch(r.ctx) })
	return true
}

// active says whether a queue hands anything out now.
func active(ep *grapnel.Endpoint) bool {
	return ep.Queue != nil && ep.Status == grapnel.EndpointEnabled && ep.DeletedAt.IsZero()
}

// rest lets time pass, unless ctx ends.
func rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Waiting is what a queue has: a delivery and its event.
type Waiting struct {
	store.Head
	Event *grapnel.Event // nil: it is damaged
}
