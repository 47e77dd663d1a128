package ownership

import (
	"context"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grapnelhq/grapnel"
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
	// Remember is how long nodes are listed, and their certificates count, after they were last seen.
	Remember time.Duration `bound:"1h"`
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
	missing []missing     // lost nodes, the first lost first
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

// missing is a node that this node has seen live, and that is lost since.
type missing struct {
	store.Node
	since moment
	knows []store.Node // the nodes that were live when it was lost
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

// Peers sends to the other nodes, by their addresses. A question to a node that cannot be reached
// fails; a hint to it is lost.
type Peers interface {
	Hint(address string, heads []store.Head, queues []string) // must not block
	Order(ctx context.Context, address string, o store.Order) error
	Healths(ctx context.Context, address string, ids []string) ([]grapnel.Health, error)
	Open(ctx context.Context, address string) ([]string, error)
	Consumers(ctx context.Context, address, queue string) ([]grapnel.Consumer, error)
	CatchUp(ctx context.Context, address string) error
}

// inquiry is one question to all other nodes, shared by all changes that wait for it. A change
// joins the inquiry that has not begun (nextInquiry), so an inquiry begins after its changes were
// committed. A node that answers it has therefore applied them all.
type inquiry struct {
	done chan struct{}   // closed when the other fields are set
	know map[string]bool // nodes that have answered
	// nodes that own shards or were live within a lease, read after the inquiry began
	acting []store.Node
	err    error // of reading acting
}

// moment is one instant by two clocks. The wall clock can be set; the steady one cannot, but stops
// while the machine is suspended. A lease has expired when either clock says so: setting the wall
// clock forward loses a lease, and setting it back prolongs none.
type moment struct {
	wall   time.Time
	steady time.Duration
}

// Watchdog watches the loops that deliveries depend on. On a node that is alone it watches nothing.
type Watchdog struct {
	steady func() time.Duration // nil: not watched
	pulses []*Pulse             // complete before Run
}

// Pulse records the start of a loop's current piece of work.
type Pulse struct {
	dog  *Watchdog
	loop string
	busy atomic.Int64 // by the steady clock; 0: idle
}
