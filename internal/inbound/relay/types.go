package relay

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/allowance"
	"github.com/grapnelhq/grapnel/internal/send/brokers"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/outbox"
)

// Engine is the part of the engine that the relay needs.
type Engine interface {
	// Sources returns those in scope.
	Sources(scope store.Scope) []grapnel.Source
	// Publish commits events with their deliveries.
	Publish(ctx context.Context, events []store.Incoming, once *store.Once) (store.Accepted, error)
	// Decides says whether this node, and no other one, reads from the broker of a source.
	Decides(source string) bool
}

// Shelf stores rows that cannot become an event.
type Shelf interface {
	SetAside(ctx context.Context, a grapnel.Aside) error
}

// Options are the parts and settings of a runner. Engine and Store are required.
type Options struct {
	Bounds   Bounds // inside this package; zero: their defaults
	Engine   Engine
	Store    Shelf
	MaxEvent int64 // bytes of an event's data; 0: DefaultMaxEvent
	// Files are the SQLite databases that sources may name. No other one is opened: whoever may make a
	// source could read and change any file of this machine.
	Files []string
	// Consume connects to the broker of a source. The consumer receives at most so many messages, and
	// so many bytes, before they are acknowledged. nil: there are no brokers
	Consume func(ctx context.Context, s *grapnel.Source, most int, bytes int64) (brokers.Consumer, error)

	Log    *slog.Logger     // nil: nothing is logged
	Now    func() time.Time // nil: time.Now
	Random func() float64   // from 0 to 1, for pauses; nil: math/rand's

	open func(ctx context.Context, dsn string) (box, error) // nil: connect; tests inject faults
}

// Runner owns the relays of one process.
type Runner struct {
	o      Options
	events *prometheus.CounterVec
	asides *allowance.Tenants // for rows that are set aside

	mu       sync.Mutex
	couriers map[string]*courier // by source
	work     sync.WaitGroup
}

// courier moves the events of one source. Its goroutine is run.
type courier struct {
	runner *Runner
	source grapnel.Source
	stop   context.CancelFunc
	over   chan struct{} // closed when run has ended
	// of run's goroutine
	most  int                    // messages that a broker may deliver at once
	aside int                    // rows of the last look that were set aside
	given map[[2]int64]*shelving // rows that were set aside and are not removed yet
	// serial is the row id of a broker's last message. It goes on over connections: given has rows of
	// the one before, and a message with the id of one of them would count as set aside.
	serial int64

	mu  sync.Mutex
	now Status
}

// shelving is how a row is set aside.
type shelving struct {
	id   string
	done bool
}

// State is the activity of a courier.
type State string

// Status is how the relay of a source is doing.
type Status struct {
	State  State
	Since  time.Time
	Detail string // why, where it is not well
	// age of the oldest committed event; an upper bound while the database is unreachable
	Lag     time.Duration
	SeenAt  time.Time // when it was looked at last; zero: never
	MovedAt time.Time // when something was carried last; zero: never since the start
	Moved   int64     // events since the start
	Aside   int64     // of those, set aside
}

// Rights are the roles that may use an outbox, besides its owner.
type Rights struct {
	Publishers []string // roles that may publish
	Relays     []string // roles that may read and remove: those of DSNs
}

// Installation describes the outbox in a producer's database.
type Installation struct {
	Place       string
	Version     int // 0: no outbox
	InstalledAt time.Time
	Waiting     int64         // events that are not relayed
	Oldest      time.Duration // age of the oldest of them
	Asleep      bool          // a relay sleeps and will be woken; false also while one is busy
}

func errNewer(version int) error {
	return grapnel.Errorf(grapnel.CodeConflict,
		"the outbox in this database is version %d, and this program knows versions up to %d", version, outbox.Version)
}

func errMore(waiting int64) error {
	return grapnel.Errorf(grapnel.CodeConflict, "%d events wait in the outbox, more than a moment ago; nothing was removed", waiting)
}
