// Package ownership divides endpoints among the nodes that share a store: it decides which of them
// this node owns.
//
// Endpoints are divided into shards. A node holds a lease on each of its shards and renews it. Each
// time a shard changes its owner its epoch rises, and the store refuses writes of an earlier epoch.
// So two nodes never both record outcomes of a shard, whatever their clocks and networks do. A node
// may send a request that another one repeats: delivery is at least once.
//
// The package also sends hints and questions between nodes (Peers), and delays the answer to a
// change of the configuration until every node that answers requests has applied it (Confirm). It
// does not know deliveries: it tells the engine (Env) which endpoints to take and which to leave.
package ownership

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Options name the nodes that share a store, and this one.
type Options struct {
	Ownership store.Ownership
	Node      store.Node    // this one; its ID is new at each start
	Lease     time.Duration // of shards; 15 s
	Peers     Peers
	Steady    func() time.Duration // a clock that cannot be set, always > 0; nil: the process's
	Bounds    Bounds
}

// Bounds are the sizes and time limits of this package; see package bounds.
type Bounds struct {
	// between two reads of deliveries that other nodes have accepted
	FreshEvery time.Duration `bound:"250ms" tiny:"50ms"`
	FreshPage  int           `bound:"1000"` // heads in one such read
	// reads, after which those since as many reads before are repeated
	FreshBack int           `bound:"8"`
	AskWithin time.Duration `bound:"2s" tiny:"500ms"` // for another node to answer a question
	Move      time.Duration `bound:"4s" tiny:"500ms"` // for which an order waits while its endpoint moves
	// a read of the loops may take this part of a lease
	Parts int `bound:"3" least:"3"`
}

// Env is the part of the engine that shards need. Between runs a function between two steps of the
// core and returns once it has run; only that function may call Leave and Configure.
type Env struct {
	Now      func() time.Time
	Log      *slog.Logger
	Over     <-chan struct{} // closed when the engine has ended
	Sending  context.Context // of all attempts
	Watchdog *Watchdog

	Between   func(ctx context.Context, do func()) error
	Leave     func(endpoint string)
	Configure func(ep *grapnel.Endpoint, newest int64, st store.Standing)

	Endpoints func() iter.Seq[*grapnel.Endpoint]
	CatchUp   func(ctx context.Context) error          // reads changes of the configuration
	Applied   func() int64                             // version of the configuration that CatchUp applied
	Newest    func(ctx context.Context) (int64, error) // row id of the newest delivery
	Standings func(ctx context.Context) (map[string]store.Standing, error)
	Operate   func(ctx context.Context, o store.Order) error
	Accepted  func(heads []store.Head) // by other nodes, in this node's shards
}

// leaseMargin is the time before the end of its lease at which a node treats it as expired.
const leaseMargin = time.Second

// Shards are the endpoints that this node decides about. Every node applies the same hash (wanted)
// to the list of live nodes, so all agree on one owner for each shard without talking to each
// other. A node releases a shard that it should not own once nothing of it is in flight, and
// acquires unowned shards that it should. The store guarantees that a shard has one owner.
//
// Two clocks judge a lease. The store's says when others may take a shard. The node itself counts
// from before it asked, by a clock that cannot be set back, and stops a second earlier: attempts
// are cancelled, and none starts. A write after that is refused by the store.
//
// Held shards are changed between two steps of the core only; other goroutines read them.
//
// A nil *Shards is a node that does not share its store: it owns every endpoint.
type Shards struct {
	env     Env
	log     *slog.Logger
	cluster Options
	bounds  Bounds
	// shards that were not released: the lease ended, or another node had them
	lost atomic.Int64
	done chan struct{} // closed when keep has returned

	drains chan struct{} // closed by Drain

	mu      sync.RWMutex
	held    map[int]*holding
	stalled string // name of the stalled loop; empty: none

	nodes   []store.Node  // live nodes, as of the last look
	there   []store.Shard // all shards, as of the last look
	reached moment        // end of the last round that did everything
	// start of the last round that updated this node's row and then read the configuration; see
	// Current
	current moment
	joined  chan struct{} // closed by the first of these
	looked  moment        // used by keep alone
	renewed moment        // used by keep alone

	next      *inquiry      // the one that has not begun and has a waiting caller; nil: none
	inquiring chan struct{} // holds a token while an inquiry runs

	watching, keeping *Pulse
}

// holding is a shard that this node owns.
type holding struct {
	epoch int64
	until moment // the lease counts as expired then
	// not nil: the shard is being released; the endpoints that the core has not left yet
	leaving map[string]bool
	alive   context.Context // of its attempts
	cut     context.CancelFunc
}

// New makes the shards of a node; none is held before Run. Without options it returns nil: the node
// is alone.
func New(o *Options, env Env) *Shards {
	if o == nil {
		return nil
	}
	s := &Shards{env: env, log: env.Log, cluster: *o, bounds: bounds.Fill(o.Bounds), done: make(chan struct{}),
		held: map[int]*holding{}, inquiring: make(chan struct{}, 1), joined: make(chan struct{}), drains: make(chan struct{})}
	s.cluster.Lease = cmp.Or(o.Lease, 15*time.Second)
	if s.cluster.Steady == nil {
		s.cluster.Steady = steadily()
	}
	env.Watchdog.steady = s.cluster.Steady
	s.watching, s.keeping = env.Watchdog.Pulse("watch"), env.Watchdog.Pulse("keep")
	return s
}

// Run takes, renews and releases shards until the engine stops.
func (s *Shards) Run() {
	if s == nil {
		return
	}
	var loops sync.WaitGroup
	loops.Go(s.keep)
	loops.Go(s.guard)
	loops.Go(s.watch)
	loops.Wait()
}

// Has says whether this node owns an endpoint and is not releasing it. A node that stood still for
// longer than its lease still has its endpoints until its next round.
func (s *Shards) Has(endpoint string) bool {
	return s == nil || s.stays(s.cluster.Ownership.ShardOf(endpoint), false) != nil
}

// Owns says whether this node has an endpoint by a lease that has not expired. Without one its
// memory may be out of date, and it must decide nothing by it.
func (s *Shards) Owns(endpoint string) bool {
	return s == nil || s.stays(s.cluster.Ownership.ShardOf(endpoint), true) != nil
}

// Leads says whether this node does the work that one node does for all.
func (s *Shards) Leads() bool { return s == nil || s.stays(0, true) != nil }

// stays returns a shard that this node has and is not releasing; leased: only if its lease has not
// expired. Else it returns nil. The caller reads of it what never changes.
func (s *Shards) stays(shard int, leased bool) *holding {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if h := s.held[shard]; h != nil && h.leaving == nil && (!leased || s.now().before(h.until)) {
		return h
	}
	return nil
}

// Share is the number of shards that this node owns and is not releasing.
func (s *Shards) Share() int { return len(s.owned(staying)) }

func staying(_ int, h *holding) bool { return h.leaving == nil }

// Epoch is the epoch for writes about an endpoint. While work of the endpoint is in progress its
// shard is not released, so the epoch is that of the decision.
func (s *Shards) Epoch(endpoint string) int64 {
	if s == nil {
		return 0
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if h := s.held[s.cluster.Ownership.ShardOf(endpoint)]; h != nil {
		return h.epoch
	}
	return nobodys
}

// nobodys is an epoch that no shard is ever in.
const nobodys = -1

// Sending returns the context and the epoch of an attempt that is about to start; nil: it must not
// start. All is the context of a node that does not share its store.
func (s *Shards) Sending(all context.Context, endpoint string) (context.Context, int64) {
	if s == nil {
		return all, 0
	}
	if h := s.stays(s.cluster.Ownership.ShardOf(endpoint), true); h != nil {
		return h.alive, h.epoch
	}
	return nil, 0
}

// Still returns a check for the last moment before a request is sent, after steps that may have
// taken long: resolving a name, a handshake, a descheduled process. It is true while the node may
// still send to the endpoint in the same epoch. A node that does not share its store needs no
// check: nil.
func (s *Shards) Still(endpoint string, epoch int64) func() bool {
	if s == nil {
		return nil
	}
	return func() bool {
		sending, now := s.Sending(s.env.Sending, endpoint)
		return sending != nil && now == epoch
	}
}

// guard cancels attempts in shards whose lease has expired, and in all shards while a loop is
// stalled, until the engine stops. It calls neither store nor core, so neither can delay it.
func (s *Shards) guard() {
	for backoff.Wait(s.env.Over, leaseMargin/10) {
		stalled, held := s.env.Watchdog.stalled(s.cluster.Lease), 0
		s.mu.Lock()
		was := s.stalled
		s.stalled = stalled
		for _, h := range s.held {
			if stalled != "" {
				h.until = moment{}
			}
			if !s.now().before(h.until) {
				h.cut()
			}
			held++
		}
		s.mu.Unlock()
		switch {
		case stalled != "" && was == "":
			s.log.Error("engine loop stands still; shards released until it moves", "loop", stalled, "shards", held)
		case stalled == "" && was != "":
			s.log.Info("engine loop moves again; shards can be taken", "loop", was)
		}
	}
}

// expire begins to release shards whose lease has expired, also if it was renewed after guard had
// cancelled the attempts. A stop cancels attempts too, before this loop ends: that loses no lease.
func (s *Shards) expire() {
	over := s.owned(func(_ int, h *holding) bool {
		cancelled := h.alive.Err() != nil && s.env.Sending.Err() == nil
		return h.leaving == nil && (cancelled || !s.now().before(h.until))
	})
	if len(over) > 0 {
		if !s.standsStill() { // guard logs that case
			s.log.Error("lease lost; shards released", "shards", len(over))
		}
		s.lost.Add(int64(len(over)))
		s.leave(over)
	}
}

// leave begins to release shards.
func (s *Shards) leave(these []store.Owned) {
	if len(these) == 0 {
		return
	}
	// an error means that the engine has stopped and nothing is left to release
	_ = s.env.Between(context.Background(), func() {
		s.mu.Lock()
		leaving := map[int]bool{}
		for _, o := range these {
			if h := s.held[o.Shard]; h != nil && h.epoch == o.Epoch && h.leaving == nil {
				h.leaving, leaving[o.Shard] = map[string]bool{}, true
			}
		}
		var endpoints []string
		for ep := range s.env.Endpoints() {
			if n := s.cluster.Ownership.ShardOf(ep.ID); leaving[n] {
				s.held[n].leaving[ep.ID] = true
				endpoints = append(endpoints, ep.ID)
			}
		}
		s.mu.Unlock()
		for _, id := range endpoints {
			s.env.Leave(id)
		}
	})
}

// Left records that the core has left an endpoint. If neither its shard is being released nor the
// endpoint was removed, the store has refused a write in the shard's epoch (refused): another node
// owns the shard.
func (s *Shards) Left(endpoint string, refused bool) {
	if s == nil {
		return
	}
	n := s.cluster.Ownership.ShardOf(endpoint)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch h := s.held[n]; {
	case h == nil:
	case h.leaving == nil && refused:
		h.until = moment{}
	default:
		delete(h.leaving, endpoint)
	}
}

// Drain begins to release all shards. It is called once.
func (s *Shards) Drain() {
	if s != nil {
		close(s.drains)
	}
}

// Close releases the remaining shards, once no work is in progress.
func (s *Shards) Close() {
	if s == nil {
		return
	}
	<-s.done
	ctx, cancel := context.WithTimeout(context.Background(), s.cluster.Lease)
	defer cancel()
	me := s.cluster.Node.ID
	if err := errors.Join(s.cluster.Ownership.Release(ctx, me, s.owned(nil)), s.cluster.Ownership.Leave(ctx, me)); err != nil {
		s.log.Warn("releasing shards failed; other nodes take them when their leases expire", "err", err)
	}
}
