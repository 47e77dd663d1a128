package store

import (
	"context"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
)

// History answers questions about what happened and what waits.
type History interface {
	// Event returns an event with its Intake and its deliveries (without attempts), in the order of their numbers; grapnel.CodeNotFound when it
	// is not in scope or of another tenant. An empty tenant is any; it is ErrSeveral when events of
	// several tenants have the id.
	Event(ctx context.Context, scope Scope, tenant, id string) (*grapnel.Event, []grapnel.Delivery, error)
	// EventList returns events, the newest first. Data is included.
	EventList(ctx context.Context, scope Scope, q EventQuery) ([]grapnel.Event, error)
	// Delivery returns one delivery with its attempts as they were recorded; grapnel.CodeNotFound when it is not in scope.
	Delivery(ctx context.Context, scope Scope, seq int64) (*grapnel.Delivery, error)
	// DeliveryList returns deliveries without attempts, the newest first.
	DeliveryList(ctx context.Context, scope Scope, q DeliveryQuery) ([]grapnel.Delivery, error)
	// DeliverySearch is a DeliveryList of those whose event's data contain a text. No index can find them, so it looks at so much and no
	// more; then it returns what it has found and, as resume, the number before which to go on; 0 when there is nothing more.
	DeliverySearch(ctx context.Context, scope Scope, q DeliveryQuery, text string) (list []grapnel.Delivery, resume int64, err error)
	// Counts returns how many deliveries there are per endpoint and stored status, so held ones are counted as pending; it may
	// take its time to count.
	Counts(ctx context.Context, scope Scope) (map[string]map[grapnel.Status]int64, error)
	// StuckLanes returns lanes whose head has failed at least once or is blocked, by the numbers of the heads, the oldest first. How many
	// wait behind a head is counted up to MaxWaiting.
	StuckLanes(ctx context.Context, scope Scope, q LaneQuery) ([]grapnel.Lane, error)
	// Waiting returns how many pending deliveries an endpoint has, counting at most limit.
	Waiting(ctx context.Context, endpoint string, limit int) (int, error)
}

// EventQuery selects events.
type EventQuery struct {
	Type     string // a pattern; empty: any
	Key      string
	Tenant   string
	Source   string    // id of a source; empty: any, and none
	From, To time.Time // of acceptance; From inclusive, To exclusive; zero: open
	Before   int64     // only events with a lower number; 0: from the newest
	Limit    int       // at most; 0: none
}

// DeliveryQuery selects deliveries.
type DeliveryQuery struct {
	Endpoint string // empty: all
	// Status lists the statuses wanted; empty: any. Held and Pending are told apart by HeldEndpoints and by the lane:
	// a delivery that is not final is held when it is not a head, is blocked, or its endpoint is listed.
	Status        []grapnel.Status
	HeldEndpoints []string
	Type          string // a pattern; empty: any
	Key           string
	Tenant        string
	From, To      time.Time          // of its event's acceptance
	Class         policy.Class       // of the last attempt; empty: any
	StatusCode    int                // of the last attempt; 0: any
	ReasonCode    grapnel.ReasonCode // empty: any
	DeadLetters   bool               // only what failed, and was neither discarded since nor repeated with success
	Replayed      bool               // of dead letters, also what was repeated with success
	Before        int64
	Limit         int // at most; 0: none
}

// Dead says whether a delivery is one of the dead letters that are asked for.
func (q *DeliveryQuery) Dead(d *grapnel.Delivery) bool {
	return d.Status == grapnel.Failed && d.Mark.DiscardedAt.IsZero() && (q.Replayed || d.Mark.ReplayResult != grapnel.Delivered)
}

// LaneQuery selects lanes.
type LaneQuery struct {
	Endpoint string // one; empty finds nothing
	After    int64  // only lanes whose head has a higher number
	Limit    int    // at most; 0: none
}

// MaxWaiting is as far as StuckLanes counts.
const MaxWaiting = 10_000
