package store

import (
	"context"
	"time"

	"github.com/grapnelhq/grapnel"
)

// Archive keeps what is over: for how long, what it adds up to, and what is noted on it.
//
// Totals are written in the transaction of what they count, so they agree with it to the unit, and they outlive it.
type Archive interface {
	// Totals returns the totals of an endpoint, or of all in scope, by hour or by day (UTC), the oldest first; parts without any are left
	// out. What ended counts when it ended, an attempt when it was recorded. After some time hours are kept as days only.
	Totals(ctx context.Context, scope Scope, q TotalsQuery) ([]grapnel.Bucket, error)
	// Purge removes finished deliveries that have been over for longer than they are kept, with their attempts and marks, and events of
	// which no delivery is left and that are as old; at most limit deliveries. What is not final is never removed, nor is an event that it
	// belongs to. Their bytes are gone from the files when it returns. It says how many it removed; fewer than limit: nothing is left.
	Purge(ctx context.Context, keep Keep, limit int) (int, error)
	// Imbalance is how many deliveries were made minus those that wait, ended and were purged. Anything but 0 is a defect.
	Imbalance(ctx context.Context) (int64, error)
	// Annotate puts a note on a delivery that is over, or marks it as discarded; grapnel.CodeNotFound out of scope, grapnel.CodeConflict when
	// it is not over or, for a discard, no dead letter.
	Annotate(ctx context.Context, scope Scope, a Annotation) error
}

// TotalsQuery selects totals.
type TotalsQuery struct {
	Endpoint string // empty: all in scope together
	Tenant   string // empty: any
	From, To time.Time
	Daily    bool
}

// Keep says how long what is over is kept.
type Keep struct {
	Now   time.Time
	For   time.Duration
	Rules []KeepRule // the first that matches says it instead
}

// KeepRule is how long deliveries of a tenant and type are kept.
type KeepRule struct {
	Tenant string // empty: any
	Type   string // a pattern; empty: any
	For    time.Duration
}

// Annotation is what is noted on a delivery.
type Annotation struct {
	Delivery int64
	Note     *string // nil: stays
	Discard  string  // why; empty: it is not discarded
	At       time.Time
	Audit    *grapnel.AuditEntry
}
