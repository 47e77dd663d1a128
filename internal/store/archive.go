package store

import (
	"context"
	"time"

	"github.com/grapnelhq/grapnel"
)

// Archive manages finished deliveries: their retention, their totals and the notes on them.
//
// A total is written in the transaction of the rows it counts. So it agrees with them exactly, and
// it outlives them.
type Archive interface {
	// Totals returns the totals of an endpoint, or of all endpoints in scope, by hour or by day
	// (UTC), the oldest first. Hours and days without totals are left out; an hour or day that
	// contains From or To is included whole. A finished delivery counts at the time it finished, an
	// attempt at the time it was recorded. A Purge turns hours older than HoursKept into days;
	// among hours such a day stands at its beginning.
	//
	// With By it returns the totals of groups instead, sorted by their names, the time left zero. No
	// more than MostGroups have a name; all others are together in the group without a name, which
	// also has the types that were not told apart (TypesCounted).
	Totals(ctx context.Context, scope Scope, q TotalsQuery) ([]grapnel.Bucket, error)
	// Purge deletes rows whose retention has passed: deliveries that have been finished for longer,
	// with their attempts and marks, and events that were accepted longer ago and have no delivery
	// left. A delivery stays while its event's retention has not passed. A delivery that is not
	// final is never deleted, nor is its event. The oldest events go first, at most limit
	// deliveries; an event without any counts as one. Purge returns how many it deleted; fewer than
	// limit: nothing is left. When it returns without error their bytes are no longer in the files.
	// Row ids are not used again. With Keep.Slack it may also delete many old rows at once, more
	// than limit and not the oldest ones.
	Purge(ctx context.Context, keep Keep, limit int) (int, error)
	// Clear deletes old records of work: audit entries from before one time, and replays that
	// finished before another, with their items. Pending deliveries of such a replay continue and
	// are no longer counted. It deletes at most limit entries, items and replays, and returns how
	// many; fewer than limit: nothing is left. The newest audit entry stays, because the next
	// entry's row id follows from it.
	Clear(ctx context.Context, c Clearing, limit int) (int, error)
	// Imbalance is the number of deliveries created minus those pending, finished and purged. Any
	// value but 0 is a defect.
	Imbalance(ctx context.Context) (int64, error)
	// Annotate writes a note on a finished delivery, or marks it as discarded; either replaces the
	// earlier value. It fails with grapnel.CodeNotFound if the delivery is out of scope, and with
	// grapnel.CodeConflict if it is not finished or, for a discard, has not failed.
	Annotate(ctx context.Context, scope Scope, a Annotation) error
}

// HoursKept is how long totals are stored by the hour.
const HoursKept = 90 * 24 * time.Hour

// TypesCounted is how many event types of a tenant the totals of an hour, and those of a day, tell
// apart: the first that occur. All others are counted together, so that a publisher who invents
// types cannot fill the disk.
const TypesCounted = 200

// MostGroups is the number of groups that Totals returns by name.
const MostGroups = 10_000

// Grouping is what Totals groups by.
type Grouping string

// The groupings.
const (
	ByTime     Grouping = ""
	ByEndpoint Grouping = "endpoint"
	ByTenant   Grouping = "tenant"
	ByType     Grouping = "type"
)

// TotalsQuery selects totals. They are stored by endpoint and tenant, and by type and tenant, but
// not by endpoint and type: with Type or ByType, Endpoint and ByEndpoint find nothing (Impossible).
type TotalsQuery struct {
	Endpoint string    // empty: all in scope, added up
	Tenant   string    // empty: any
	Type     string    // empty: any
	From, To time.Time // To exclusive; zero: open
	Daily    bool      // also with By: hours are read as whole days
	By       Grouping

	// Duplicates includes Totals.Duplicates, which no endpoint has. Totals by type always have them.
	Duplicates bool
}

// ByTypes says whether the totals by type answer the query.
func (q *TotalsQuery) ByTypes() bool { return q.Type != "" || q.By == ByType }

// Impossible says whether nothing can answer the query, because it combines endpoints and types.
func (q *TotalsQuery) Impossible() bool {
	return q.ByTypes() && (q.Endpoint != "" || q.By == ByEndpoint)
}

// AlsoTypes says whether the totals by type have duplicates that the others lack.
func (q *TotalsQuery) AlsoTypes() bool {
	return q.Duplicates && !q.ByTypes() && q.Endpoint == "" && q.By != ByEndpoint
}

// Keep is the retention of finished deliveries.
type Keep struct {
	Now   time.Time
	For   time.Duration
	Rules []KeepRule    // the first that matches replaces For
	Slack time.Duration // extra time that finished deliveries may stay if deleting them is cheaper then; see Late
}

// KeepRule is the retention of one tenant's deliveries of one type.
type KeepRule struct {
	Tenant string // empty: any
	Type   string // a pattern; empty: any
	For    time.Duration
}

// Clearing selects the records to delete.
type Clearing struct {
	Audit   time.Time // entries older than this
	Replays time.Time // replays that finished before this
}

// Annotation is a note on a delivery.
type Annotation struct {
	Delivery int64
	Note     *string // nil: unchanged
	Discard  string  // the reason; empty: no discard
	At       time.Time
	Audit    *grapnel.AuditEntry
}

// Late is the extra time for a retention of kept: Slack, but at most a twelfth of kept.
func (k *Keep) Late(kept time.Duration) time.Duration { return min(k.Slack, kept/12) }

// Shortest is the shortest retention of all.
func (k *Keep) Shortest() time.Duration {
	shortest := k.For
	for _, r := range k.Rules {
		shortest = min(shortest, r.For)
	}
	return shortest
}

// Of is the retention of deliveries of a tenant and type.
func (k *Keep) Of(tenant, eventType string) time.Duration {
	for _, r := range k.Rules {
		if (r.Tenant == "" || r.Tenant == tenant) && (r.Type == "" || grapnel.MatchType(r.Type, eventType)) {
			return r.For
		}
	}
	return k.For
}
