package contacts

import (
	"context"
	"log/slog"
	"net/url"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/pass"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Kinds of the documents of this package.
const (
	KindTrouble = "contact_trouble" // an endpoint in trouble, by its id
	KindBudget  = "contact_budget"  // one per tenant: messages of the day; its id is the tenant
)

// Stage is how far the trouble of an endpoint has gone.
type Stage string

// The stages, in their order.
const (
	Failing   Stage = "failing"      // no attempt has succeeded for Bounds.First
	Day       Stage = "day"          // nor for Bounds.Day
	Soon      Stage = "disable_soon" // it will be disabled if it goes on
	Disabled  Stage = "disabled"     // the server has disabled it
	Recovered Stage = "recovered"    // attempts have succeeded again for Bounds.Calm
)

// rank orders the stages; that of no stage is 0.
var rank = map[Stage]int{Failing: 1, Day: 2, Soon: 3, Disabled: 4, Recovered: 5}

// Bounds are the sizes and time limits inside this package; see package bounds.
type Bounds struct {
	Every   time.Duration `bound:"10s"  tiny:"50ms"`  // between two rounds
	First   time.Duration `bound:"10m"  tiny:"200ms"` // an endpoint fails for this long before its customer is told
	Day     time.Duration `bound:"24h"  tiny:"600ms"` // and for this long before the customer is told again
	Calm    time.Duration `bound:"10m"  tiny:"200ms"` // an endpoint works for this long before its customer is told
	Percent int           `bound:"75" least:"50"`     // of the way to being disabled at which the customer is told
	PerDay  int           `bound:"20" least:"4"`      // messages of a tenant on one day (UTC), unless grapnel.Sender says another number
	Page    int           `bound:"1000" least:"8"`    // documents that are read at once
	Heads   int64         `bound:"2000"`              // heads that are counted of a tenant
	LinkFor time.Duration `bound:"168h" tiny:"10s"`   // a link in a message works for this long
	Session time.Duration `bound:"1h" tiny:"10s"`     // a portal that a link has opened stays open for this long
}

// Engine is the part of the engine that is needed here.
type Engine interface {
	Leads() bool // or another node does the work
	Endpoint(scope store.Scope, id string) (grapnel.Endpoint, bool)
	EachEndpoint(scope store.Scope, see func(*grapnel.Endpoint) bool)
	Healths(ids []string) []grapnel.Health
	Sender() grapnel.Sender
	Access(id string) *grapnel.AccessRecord
	PutDocuments(ctx context.Context, scope store.Scope, with store.With,
		compose func(targets func(ev *grapnel.Event, only []string) []store.Target) ([]store.DocumentWrite, []store.Incoming)) (store.Put,
		error)
}

// Store is the part of a store that is read.
type Store interface {
	Document(ctx context.Context, scope store.Scope, tenant, kind, id string) (store.Document, error)
	DocumentList(ctx context.Context, scope store.Scope, q store.DocumentQuery) ([]store.Document, error)
	Backlogs(ctx context.Context, scope store.Scope, tenant string, now time.Time, limit int64) ([]store.Backlog, error)
	Totals(ctx context.Context, scope store.Scope, q store.TotalsQuery) ([]grapnel.Bucket, error)
	DeliveryList(ctx context.Context, scope store.Scope, q store.DeliveryQuery) ([]grapnel.Delivery, error)
}

// Options configure a Keeper. Engine, Store, Sealer and Log are required.
type Options struct {
	Bounds    Bounds // inside this package; zero: their defaults
	Engine    Engine
	Store     Store
	Sealer    *pass.Sealer // of links
	Log       *slog.Logger
	Now       func() time.Time // time.Now
	PublicURL *url.URL         // base of links in messages; nil: messages have none
}

// Keeper tells the contacts of all tenants.
type Keeper struct {
	o      Options
	bounds Bounds
	now    func() time.Time
}

// Trouble is the body of a document of KindTrouble: one episode of an endpoint, from its first
// stage until it has recovered.
type Trouble struct {
	Began time.Time `json:"began"`          // no attempt succeeded since
	Stage Stage     `json:"stage"`          // the last that was reached
	Told  Stage     `json:"told,omitempty"` // the last of which a message was sent; empty: none
	Over  time.Time `json:"over,omitzero"`  // it works since; zero: it does not
	Good  int64     `json:"good,omitempty"` // successes counted when it was seen disabled
	Held  Stage     `json:"held,omitempty"` // the last that the budget has held back; empty: none
}

// Budget is the body of a document of KindBudget.
type Budget struct {
	Day  string `json:"day"` // 2026-01-31
	Sent int    `json:"sent"`
	Held int    `json:"held,omitempty"` // stages held back since the last message
}

// Look is what one round sees of an endpoint.
type Look struct {
	Now time.Time
	*grapnel.Endpoint
	Health grapnel.Health
	Good   int64 // successes counted since the hour in which the trouble began
}
