// Package configuration holds the operators' settings: endpoints, sources, policies, event types,
// keys, and the access records that say which passes are refused.
//
// A Snapshot is all of it at one version of the store, ready for use, and never changes. A Book
// holds the current one: it persists changes, replaces the last snapshot with the next, and returns
// once the change has taken effect here (Options.Settle) and on every other node (Options.Confirm).
// It answers questions about the configuration from memory.
//
// It promises nothing about the effects of a change on deliveries: the engine does.
package configuration

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/grapnelhq/grapnel/internal/store"
)

// Options are the store and the callbacks of a book.
type Options struct {
	Store store.Configuration
	Log   *slog.Logger
	// Settle applies the differences between two snapshots to the core, and returns the queues
	// whose consumers have to claim again.
	Settle     func(ctx context.Context, before, now *Snapshot) (queues []string, err error)
	WakeQueues func(queues []string)
	// Confirm returns once every other node has applied a change that was just committed.
	Confirm func(ctx context.Context) error
	// Reading bounds one read of the store.
	Reading func(ctx context.Context) (context.Context, context.CancelFunc)
	// Current returns an error while the configuration in memory may be out of date.
	Current func() error
}

// Book holds the current configuration. It is safe for concurrent use.
type Book struct {
	o        Options
	changing chan struct{} // holds a token while the configuration changes, in the store and here
	current  atomic.Pointer[Snapshot]
	// the last one that Settle applied; written by the holder of the token
	settled  atomic.Pointer[Snapshot]
	sessions sessions
}

// NewBook makes a book; it is empty before Load.
func NewBook(o Options) *Book { return &Book{o: o, changing: make(chan struct{}, 1)} }

// Snapshot returns the current configuration.
func (b *Book) Snapshot() *Snapshot { return b.current.Load() }

// Settled returns the last configuration that Options.Settle has applied.
func (b *Book) Settled() *Snapshot { return b.settled.Load() }
