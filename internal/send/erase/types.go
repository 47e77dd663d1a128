package erase

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Bounds are the sizes and time limits of this package; see package bounds.
type Bounds struct {
	Look  time.Duration `bound:"2s" tiny:"20ms"` // between two looks for jobs, which other nodes may have taken
	Page  int           `bound:"100" tiny:"2"`   // events that a step looks at, or rows that it deletes
	Pause time.Duration `bound:"20ms" tiny:"1ms"`
	Jobs  int           `bound:"100"` // read at once
}

// Engine is the part of the engine that jobs need.
type Engine interface {
	Leads() bool // this node does the work that one node does for all
	// EndErased ends the pending deliveries of an event.
	EndErased(ctx context.Context, tenant, event string) (int, error)
}

// Store is the part of a store that jobs need.
type Store interface {
	store.Documents
	store.Erasing
	EventList(ctx context.Context, scope store.Scope, q store.EventQuery) ([]grapnel.Event, error)
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
}
