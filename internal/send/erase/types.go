package erase

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/nodes/configuration"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Bounds are the sizes and time limits of this package; see package bounds.
type Bounds struct {
	Look  time.Duration `bound:"2s" tiny:"20ms"` // between two looks for jobs, which other nodes may have taken
	Page  int           `bound:"100" tiny:"2"`   // events that a step looks at, or rows that it deletes
	Pause time.Duration `bound:"20ms" tiny:"1ms"`
	Jobs  int           `bound:"100"` // read at once
	// Rows of a tenant that a step deletes, about.
	Rows int `bound:"1000" tiny:"3"`
	// Quiet is longer than anything takes that a node may have begun for a tenant before it knew
	// that the tenant is deleted: a request, a count that is stored now and then.
	Quiet  time.Duration `bound:"30s" tiny:"50ms"`
	Retain RetainBounds
}

// RetainBounds are the sizes and time limits of a sweep, which erases the content of delivered events
// of types that retain none.
type RetainBounds struct {
	Sweep time.Duration `bound:"5s" tiny:"20ms"`  // between two looks at the events that were just delivered
	Named int           `bound:"100000" tiny:"3"` // such events that are remembered; a search finds others
	// Search is the pause between two searches for events that were not named: after a crash,
	// after the discard of a dead letter, and from before the type retained none.
	Search time.Duration `bound:"1h" tiny:"20ms"`
	// Late is longer than a commit takes: an event may become visible after some with higher row ids.
	Late time.Duration `bound:"1m" tiny:"1ms"`
	Left int           `bound:"1000" tiny:"2"` // events that a search remembers for the next: not delivered yet, or dead letters
	// Forget is the age at which the place of a search is forgotten: its type is gone, or retains all.
	Forget time.Duration `bound:"720h" tiny:"1m"`
}

// Engine is the part of the engine that jobs need.
type Engine interface {
	Leads() bool // this node does the work that one node does for all
	// EndErased ends the pending deliveries of an event.
	EndErased(ctx context.Context, tenant, event string) (int, error)

	EventTypes(scope store.Scope) []grapnel.EventType
	Snapshot() *configuration.Snapshot
	// Tenants lists the tenants that own a part of the configuration, sorted.
	Tenants() []string
	// EndTenant has all nodes refuse a tenant. It returns the record in force, which may be that of
	// an earlier order.
	EndTenant(ctx context.Context, end grapnel.TenantEnd, with store.With) (grapnel.TenantEnd, store.Put, error)
	// TenantEnds lists the tenants that are being deleted.
	TenantEnds() []grapnel.TenantEnd
	// ClearTenant deletes a page of such a tenant's configuration, on all nodes, and says whether
	// anything is left, such as pending deliveries.
	ClearTenant(ctx context.Context, tenant string, page int) (deleted int, left bool, err error)
	// KeyGone has all nodes drop the tenant's data key, which the store has no longer.
	KeyGone(ctx context.Context, tenant string) error
	// TenantEnded has all nodes take a tenant of the same name again, but no passes of before.
	TenantEnded(ctx context.Context, end grapnel.TenantEnd, passes grapnel.EndedSessions) error
}

// Store is the part of a store that jobs need.
type Store interface {
	store.Documents
	store.Erasing
	Events(ctx context.Context, seqs []int64) ([]*grapnel.Event, error)
	EventList(ctx context.Context, scope store.Scope, q store.EventQuery) ([]grapnel.Event, error)
	AuditList(ctx context.Context, scope store.Scope, q store.AuditQuery) ([]grapnel.AuditEntry, error)
}

// Options configure a Runner. Engine, Store and Log are required.
type Options struct {
	Bounds  Bounds
	Engine  Engine
	Store   Store
	Log     *slog.Logger
	Backups func() []string  // names of the backups that this server has; nil: it makes none
	Now     func() time.Time // time.Now
	Random  io.Reader        // for ids; crypto/rand's
}

// Runner owns the erasures of one process.
type Runner struct {
	o      Options
	bounds Bounds
	asked  chan struct{} // holds a token when there may be a new job
	names  names
	swept  time.Time // when the last sweep began; used by the goroutine of retain alone
}

// named is an event of which a delivery has succeeded.
type named struct {
	tenant string
	kind   string // its type; empty: unknown
	event  int64
}

// names are the events that were named and not looked at yet.
type names struct {
	mu  sync.Mutex
	all []named
}
