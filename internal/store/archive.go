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
	// out, and a part into which From or To falls is taken whole. What ended counts when it ended, an attempt when it was recorded. Hours
	// that are older than HoursKept at a Purge are kept as days from then on; such a day stands at its beginning among hours, too.
	Totals(ctx context.Context, scope Scope, q TotalsQuery) ([]grapnel.Bucket, error)
	// Purge removes what is older than it is kept: deliveries that have been over for longer, with their attempts and marks, and events
	// that were accepted longer ago and of which no delivery is left. No delivery of an event that is still young is removed. What
	// is not final is never removed, nor is an event that it belongs to. The oldest events go first, at most limit deliveries; an event that
	// had none counts as one. It says how many it removed; fewer than limit: nothing is left. Their bytes are gone from the files when it
	// returns without error. Numbers that were given are not given again. With Keep.Slack it may also remove much at once that is old, more than limit
	// and whatever is the oldest.
	Purge(ctx context.Context, keep Keep, limit int) (int, error)
	// Clear removes what is told of work long past: audit entries from before a time, and replays that have been over since before another,
	// with what they list; what such a replay made and is not over goes on uncounted. It removes at most limit entries, listed deliveries and
	// replays, and says how many; fewer than limit: nothing is left. The newest entry stays, for numbers go on from it.
	Clear(ctx context.Context, c Clearing, limit int) (int, error)
	// Imbalance is how many deliveries were made minus those that wait, ended and were purged. Anything but 0 is a defect.
	Imbalance(ctx context.Context) (int64, error)
	// Annotate puts a note on a delivery that is over, or marks it as discarded, which replaces what was noted before;
	// grapnel.CodeNotFound out of scope, grapnel.CodeConflict when it is not over or, for a discard, did not fail.
	Annotate(ctx context.Context, scope Scope, a Annotation) error
}

// HoursKept is for how long totals are kept by the hour.
const HoursKept = 90 * 24 * time.Hour

// TotalsQuery selects totals.
type TotalsQuery struct {
	Endpoint string    // empty: all in scope together
	Tenant   string    // empty: any
	From, To time.Time // To exclusive; zero: open
	Daily    bool
}

// Keep says how long what is over is kept.
type Keep struct {
	Now   time.Time
	For   time.Duration
	Rules []KeepRule    // the first that matches says it instead
	Slack time.Duration // what is over may stay that much longer, if removing it is cheaper then; but see Late
}

// KeepRule is how long deliveries of a tenant and type are kept.
type KeepRule struct {
	Tenant string // empty: any
	Type   string // a pattern; empty: any
	For    time.Duration
}

// Clearing says what is told for long enough.
type Clearing struct {
	Audit   time.Time // entries from before
	Replays time.Time // those that have been over since before
}

// Annotation is what is noted on a delivery.
type Annotation struct {
	Delivery int64
	Note     *string // nil: stays
	Discard  string  // why; empty: it is not discarded
	At       time.Time
	Audit    *grapnel.AuditEntry
}

// Late is how much longer than it is kept may stay what is kept for so long: Slack, but never more than a twelfth of that.
func (k *Keep) Late(kept time.Duration) time.Duration { return min(k.Slack, kept/12) }

// Of is how long deliveries of a tenant and type are kept.
func (k *Keep) Of(tenant, eventType string) time.Duration {
	for _, r := range k.Rules {
		if (r.Tenant == "" || r.Tenant == tenant) && (r.Type == "" || grapnel.MatchType(r.Type, eventType)) {
			return r.For
		}
	}
	return k.For
}
