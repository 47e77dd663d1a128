package store

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
)

// MostRedeliveries is how many redeliveries Event returns. A redelivery that is delivered resolves
// as many others of its event, at least.
const MostRedeliveries = 256

// History reads events and deliveries, finished and pending.
type History interface {
	// Event returns an event with its Intake and its deliveries (without attempts), by row id: those
	// of its acceptance, and the newest MostRedeliveries of the others. It fails with
	// grapnel.CodeNotFound if the event is not in scope or is another tenant's. An empty tenant
	// means any tenant; it fails with ErrSeveral if several tenants have an event with the id.
	Event(ctx context.Context, scope Scope, tenant, id string) (*grapnel.Event, []grapnel.Delivery, error)
	// EventList returns events, the newest first. Data is included.
	EventList(ctx context.Context, scope Scope, q EventQuery) ([]grapnel.Event, error)
	// Delivery returns one delivery with its recorded attempts; grapnel.CodeNotFound if it is not
	// in scope.
	Delivery(ctx context.Context, scope Scope, seq int64) (*grapnel.Delivery, error)
	// DeliveryList returns deliveries without attempts, the newest first.
	DeliveryList(ctx context.Context, scope Scope, q DeliveryQuery) ([]grapnel.Delivery, error)
	// Feed returns an endpoint's deliveries, redeliveries too, by row id, from a mark on. No delivery
	// that is committed later has a row id up to that of a delivery that Feed has returned: while a
	// transaction is open that may commit a lower one, Feed leaves the higher ones out. In a lane row
	// ids rise with the positions. So a reader that goes on from page to page gets every delivery
	// once, and those of a lane in their order.
	Feed(ctx context.Context, scope Scope, q FeedQuery) (FeedPage, error)
	// DeliverySearch is a DeliveryList of deliveries whose event's data contain a text; an empty
	// one is in all of them. No index can find them, nor every combination of conditions, so it
	// reads a bounded number of rows. It returns the matches and, as resume, the row id before
	// which to go on; 0: the search is complete.
	DeliverySearch(ctx context.Context, scope Scope, q DeliveryQuery, text string) (list []grapnel.Delivery, resume int64, err error)
	// Counts returns the number of deliveries per endpoint and stored status. Held deliveries count
	// as pending. It may be slow.
	Counts(ctx context.Context, scope Scope) (map[string]map[grapnel.Status]int64, error)
	// StuckLanes returns lanes whose head has failed at least once or is blocked, by the heads' row
	// ids, the oldest first. The deliveries behind a head are counted up to a limit.
	StuckLanes(ctx context.Context, scope Scope, q LaneQuery) ([]grapnel.Lane, error)
	// Backlogs counts the pending deliveries and the dead letters of every endpoint that has any,
	// sorted by endpoint, as of now by the store's clock (see Leases). An empty tenant means any. It
	// reads no finished delivery but dead letters, at most limit of these and at most limit heads;
	// Shares divides the limit among the endpoints. One with a DeadMore may have no dead letter.
	Backlogs(ctx context.Context, scope Scope, tenant string, now time.Time, limit int64) ([]Backlog, error)
	// TenantCounts has an entry for each of the tenants. It reads one row or few for each endpoint
	// that exists or did, and at most limit dead letters, which Shares divides among the endpoints.
	// Whether a tenant is in someone's scope is the caller's business.
	TenantCounts(ctx context.Context, tenants []string, limit int64) (map[string]TenantCount, error)
	// Waiting counts the pending deliveries of an endpoint, at most limit.
	Waiting(ctx context.Context, endpoint string, limit int) (int, error)
	// HasType says whether a tenant has published events of a type, and counts the types of the
	// tenant's events, at most limit; one that came through several sources counts for each. The
	// writes of the last seconds may be missing.
	HasType(ctx context.Context, tenant, name string, limit int) (has bool, n int, err error)
}

// EventQuery selects events.
type EventQuery struct {
	Type     string // a pattern; empty: any
	Key      string
	Tenant   string
	Source   string    // id of a source; empty: any source or none
	From, To time.Time // of acceptance; From inclusive, To exclusive; zero: open
	Before   int64     // only events with a lower row id; 0: from the newest
	Limit    int       // at most; 0: none
}

// Takes says whether an event matches all conditions but those on its source and its row id.
func (q *EventQuery) Takes(scope Scope, tenant, eventType, key string, accepted time.Time) bool {
	at := accepted.UnixMicro()
	return scope.Allows(tenant) && (q.Tenant == "" || q.Tenant == tenant) && (q.Key == "" || q.Key == key) &&
		(q.Type == "" || grapnel.MatchType(q.Type, eventType)) &&
		(q.From.IsZero() || at >= q.From.UnixMicro()) && (q.To.IsZero() || at < q.To.UnixMicro())
}

// DeliveryQuery selects deliveries.
type DeliveryQuery struct {
	Endpoint string // empty: all
	// Status lists the statuses wanted; empty: any. A delivery that is not final is held if it is
	// not a head, is blocked, or its endpoint is in HeldEndpoints; otherwise it is pending.
	Status        []grapnel.Status
	HeldEndpoints []string
	Type          string // a pattern; empty: any
	Key           string
	Tenant        string
	Source        string             // id of the source of its event; empty: any source or none
	From, To      time.Time          // of its event's acceptance
	Class         policy.Class       // of the last attempt; empty: any
	StatusCode    int                // of the last attempt; 0: any, 4: 400 to 499
	ReasonCode    grapnel.ReasonCode // empty: any
	DeadLetters   bool               // only failed ones, neither discarded since nor repeated with success
	Replayed      bool               // of dead letters, also those repeated with success
	Before        int64
	Limit         int // at most; 0: none

	// Within is how long a DeliverySearch may look, if that is less than the store's own limit; 0:
	// that limit. A store that cannot stop in the middle of a query may take longer. A search looks
	// at a few rows in any case, so one that goes on comes to its end.
	Within time.Duration
}

// Events are the conditions on a delivery's event.
func (q *DeliveryQuery) Events() EventQuery {
	return EventQuery{Type: q.Type, Key: q.Key, Tenant: q.Tenant, Source: q.Source, From: q.From, To: q.To}
}

// Takes says whether a delivery matches all conditions but those on its event.
func (q *DeliveryQuery) Takes(d *grapnel.Delivery) bool {
	status := d.Status
	if status == grapnel.Pending && (!d.Waiting.Head || d.Waiting.Blocked || slices.Contains(q.HeldEndpoints, d.EndpointID)) {
		status = grapnel.Held
	}
	return (q.Endpoint == "" || q.Endpoint == d.EndpointID) && (len(q.Status) == 0 || slices.Contains(q.Status, status)) &&
		(q.Class == "" || q.Class == d.Last.Class) && q.Answered(d.Last.StatusCode) &&
		(q.ReasonCode == "" || q.ReasonCode == d.ReasonCode) && (!q.DeadLetters || q.Dead(d.Status, &d.Mark))
}

// Answered says whether the status code of a last attempt matches.
func (q *DeliveryQuery) Answered(code int) bool {
	return q.StatusCode == 0 || q.StatusCode == code || q.StatusCode == code/100
}

// Dead says whether a delivery of a status and a mark is one of the dead letters that the query
// selects.
func (q *DeliveryQuery) Dead(status grapnel.Status, mark *grapnel.Mark) bool {
	return status == grapnel.Failed && mark.DiscardedAt.IsZero() && (q.Replayed || mark.ReplayResult != grapnel.Delivered)
}

// LaneQuery selects lanes.
type LaneQuery struct {
	Endpoint string // one; empty finds nothing
	After    int64  // only lanes whose head has a higher row id
	Limit    int    // at most; 0: none
	Waiting  int    // limit of the counts; 0: MaxWaiting
}

// MaxWaiting is the usual limit of StuckLanes' counts.
const MaxWaiting = 10_000

// MostWaiting is the limit of the counts.
func (q LaneQuery) MostWaiting() int { return cmp.Or(q.Waiting, MaxWaiting) }
