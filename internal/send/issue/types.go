package issue

import (
	"context"
	"log/slog"
	"time"

	"github.com/grapnelhq/grapnel/internal/store"
)

// Keeper merges the deltas of a Tally into documents, and resolves issues whose endpoint delivers
// again. Flush is for one goroutine.
type Keeper struct {
	o        Options
	index    index
	next     time.Time // when all issues are read again
	purge    time.Time // when old issues are deleted again
	failures int       // flushes in a row that failed
}

// Options are the parts that a Keeper works with.
type Options struct {
	Bounds    Bounds
	Documents store.Documents
	Tally     *Tally
	Now       func() time.Time
	Log       *slog.Logger
	// Failing says whether a delivery with the issue's class and status is still being retried.
	Failing func(ctx context.Context, i *Issue) (bool, error)
	// Gone says whether the endpoint was deleted.
	Gone  func(endpoint string) bool
	Leads func() bool // this node deletes old issues
}
