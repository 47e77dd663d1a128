package replay

import (
	"cmp"
	"context"
	"crypto/rand"
	"hash/fnv"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Engine is the part of the engine that the runner needs. Its writes go through the engine, because
// only the engine knows the load, and the engine has to learn of new heads.
type Engine interface {
	Endpoint(scope store.Scope, id string) (grapnel.Endpoint, bool)
	Decides(endpoint string) bool // or another node does
	CatchUp(ctx context.Context) error
	PutReplay(ctx context.Context, scope store.Scope, r grapnel.Replay, with store.With) (store.Put, error)
	Advance(ctx context.Context, tenant string, step store.ReplayStep) ([]store.Redelivered, error)
}

// Store is the part of a store that is read.
type Store interface {
	Replay(ctx context.Context, scope store.Scope, id string) (grapnel.Replay, error)
	ReplayList(ctx context.Context, scope store.Scope, q store.ReplayQuery) ([]grapnel.Replay, error)
	Candidates(ctx context.Context, scope store.Scope, q store.CandidateQuery) (list []grapnel.Delivery, resume int64, err error)
	ReplayItems(ctx context.Context, scope store.Scope, id string, after int64, limit int) ([]grapnel.ReplayItem, error)
	DeliveryList(ctx context.Context, scope store.Scope, q store.DeliveryQuery) ([]grapnel.Delivery, error)
	DeliverySearch(ctx context.Context, scope store.Scope, q store.DeliveryQuery,
		text string) (list []grapnel.Delivery, resume int64, err error)
}

// Options configure a Runner. Engine, Store and Log are required.
type Options struct {
	Bounds Bounds // inside this package; zero: their defaults
	Engine Engine
	Store  Store
	Log    *slog.Logger
	Now    func() time.Time // time.Now
	Random io.Reader        // for ids; crypto/rand's
}

// Runner owns the replays of one process.
type Runner struct {
	bounds Bounds
	engine Engine
	store  Store
	log    *slog.Logger
	now    func() time.Time
	random io.Reader

	mu     sync.Mutex
	jobs   map[string]*job           // those that have a goroutine
	active []grapnel.Replay          // as they were read last
	looks  map[string]grapnel.Replay // by id, as a job of this node looked at it last
	ended  map[grapnel.ReplayStatus]int64
	items  items
	work   sync.WaitGroup
	ctx    context.Context // of Run; nil before and after

	appeared chan struct{}   // holds a token when there may be a job without a goroutine
	turns    []chan struct{} // taken by steps; those at one endpoint take the same
}

var _ Jobs = (*Runner)(nil)

// New returns a Runner. No replay runs before Run, but orders are accepted.
func New(o Options) *Runner {
	b := bounds.Fill(o.Bounds)
	r := &Runner{
		bounds: b, turns: make([]chan struct{}, b.Turns),
		engine: o.Engine, store: o.Store, log: o.Log, now: o.Now, random: o.Random,
		jobs: map[string]*job{}, looks: map[string]grapnel.Replay{}, ended: map[grapnel.ReplayStatus]int64{}, appeared: make(chan struct{}, 1),
	}
	if r.now == nil {
		r.now = time.Now
	}
	r.random = cmp.Or(r.random, rand.Reader)
	for i := range r.turns {
		r.turns[i] = make(chan struct{}, 1)
	}
	return r
}

// Ended hints that deliveries created by a replay have finished at an endpoint. It never blocks.
func (r *Runner) Ended(endpoint string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, j := range r.jobs {
		if j.endpoint == endpoint {
			backoff.Wake(j.ended)
		}
	}
}

// changed makes a job look at itself, or get a goroutine.
func (r *Runner) changed(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if j := r.jobs[id]; j != nil {
		backoff.Wake(j.nudged)
		return
	}
	backoff.Wake(r.appeared)
}

// turn waits until no other job makes a step at the endpoint. The caller ends its turn by calling
// over.
func (r *Runner) turn(ctx context.Context, endpoint string) (over func(), err error) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(endpoint))
	turn := r.turns[h.Sum32()%uint32(len(r.turns))]
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// wait waits for d, and ends early when ctx ends or a token comes through one of the channels.
func wait(ctx context.Context, d time.Duration, tokens, more <-chan struct{}) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-tokens:
	case <-more:
	case <-ctx.Done():
	}
}

// job is the goroutine of one running replay. Its durable state is in the store; the fields may be
// lost.
type job struct {
	runner   *Runner
	id       string
	endpoint string
	ctx      context.Context
	nudged   chan struct{} // holds a token when the replay was changed
	ended    chan struct{} // holds a token when deliveries of its endpoint have finished

	pace     pace
	searched int64 // nothing qualifies up to this row id; the stored cursor may be lower
	atTheEnd bool  // the last candidate has been looked at

	mu    sync.Mutex
	why   string // the reason why it makes no progress, though it is running; empty: it does
	speed speed
}

// items counts deliveries of replays by result.
type items struct{ created, delivered, failed int64 }
