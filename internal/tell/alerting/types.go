package alerting

import (
	"context"
	"log/slog"
	"net/url"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/tell/alert"
)

// Engine is the part of the engine that alerts need.
type Engine interface {
	Leads() bool // or another node evaluates
	Tenants() []string
	Endpoint(scope store.Scope, id string) (grapnel.Endpoint, bool)
	EachEndpoint(scope store.Scope, see func(*grapnel.Endpoint) bool)
	Healths(ids []string) []grapnel.Health
	Sources(scope store.Scope) []grapnel.Source
	Keys(scope store.Scope) []grapnel.Key
	PutDocuments(ctx context.Context, scope store.Scope, with store.With,
		compose func(targets func(ev *grapnel.Event, only []string) []store.Target) ([]store.DocumentWrite, []store.Incoming)) (store.Put,
		error)
}

// Store is the part of a store that is read.
type Store interface {
	Document(ctx context.Context, scope store.Scope, tenant, kind, id string) (store.Document, error)
	DocumentList(ctx context.Context, scope store.Scope, q store.DocumentQuery) ([]store.Document, error)
	ClearDocuments(ctx context.Context, kind string, before time.Time, limit int) (int, error)
	Backlogs(ctx context.Context, scope store.Scope, tenant string, now time.Time, limit int64) ([]store.Backlog, error)
	Heads(ctx context.Context, endpoint string, limit int) ([]store.Head, error)
	Totals(ctx context.Context, scope store.Scope, q store.TotalsQuery) ([]grapnel.Bucket, error)
	Imbalance(ctx context.Context) (int64, error)
	Event(ctx context.Context, scope store.Scope, tenant, id string) (*grapnel.Event, []grapnel.Delivery, error)
	EventList(ctx context.Context, scope store.Scope, q store.EventQuery) ([]grapnel.Event, error)
	Delivery(ctx context.Context, scope store.Scope, seq int64) (*grapnel.Delivery, error)
	DeliveryList(ctx context.Context, scope store.Scope, q store.DeliveryQuery) ([]grapnel.Delivery, error)
	AuditList(ctx context.Context, scope store.Scope, q store.AuditQuery) ([]grapnel.AuditEntry, error)
}

// Sealer seals the tokens of acknowledge links.
type Sealer interface {
	SealFor(use string, v any) (string, error)
	OpenFor(use, text string, v any) error
}

// Bounds are the sizes and time limits inside this package; see package bounds.
type Bounds struct {
	Rules alert.Bounds

	Every time.Duration `bound:"10s" tiny:"50ms"` // between two rounds
	Slow  time.Duration `bound:"1m"  tiny:"50ms"` // between two readings of facts that need a read for each object
	// objects of each kind that one slow reading looks at; the others follow in turn
	Turn       int           `bound:"200"`
	Tenants    int           `bound:"50"`               // the same for tenants, whose baseline is 28 days of totals
	Heads      int64         `bound:"2000"`             // heads counted in one round
	Late       int           `bound:"200"`              // endpoints whose earliest due delivery is read in one round
	Tried      int           `bound:"500"`              // heads of an endpoint whose attempts are read in one round
	Page       int           `bound:"1000" least:"8"`   // documents read, and transitions committed, at once
	Usual      time.Duration `bound:"1h" tiny:"1s"`     // between two computations of a tenant's baseline
	Growth     time.Duration `bound:"15m" tiny:"400ms"` // the backlog is compared with that of this long ago
	Retain     time.Duration `bound:"2160h" tiny:"10s"` // resolved alerts are stored for this long
	Own        time.Duration `bound:"1h" tiny:"50ms"`   // between two looks at the certificate at PublicURL
	Dial       time.Duration `bound:"5s" tiny:"1s"`     // longest of them
	Backtested int           `bound:"50"`               // endpoints whose hours one backtest reads
	LinkFor    time.Duration `bound:"168h" tiny:"10s"`  // an acknowledge link works for this long
}

// Options configure a Keeper. Engine, Store and Log are required.
type Options struct {
	Bounds Bounds // inside this package; zero: their defaults
	Engine Engine
	Store  Store
	Log    *slog.Logger
	Now    func() time.Time // time.Now
	// space where the store is; nil: not measured
	Disk        func(context.Context) (free, total uint64, e error)
	Certificate func(context.Context) (time.Time, error) // its end of validity at PublicURL; nil: there is none
	Unverified  func(source string) int                  // requests of the last hour that could not be verified; nil: unknown
	Backups     func() *alert.Backups                    // how scheduled backups went; nil: unknown
	Burns       func() []alert.Burn                      // of the error budgets of promises; nil: unknown
	PublicURL   *url.URL                                 // base of links in messages; nil: messages have none
	Sealer      Sealer                                   // nil: messages have no acknowledge links
}

// Keeper owns the alerts of one store.
type Keeper struct {
	o      Options
	bounds Bounds
	now    func() time.Time
	log    *slog.Logger

	mu     sync.Mutex // held by a round
	memory *alert.Memory
	facts  *gathering
}

// gathering reads facts. It remembers those that a slow reading found, and the backlogs of before.
type gathering struct {
	k    *Keeper
	slow time.Time // of the last slow reading

	tenants, sources, endpoints turns

	// The maps have the objects that were looked at. An alert about any other object is not resolved
	// for want of facts, such as one whose facts were purged before a restart.
	hours        map[string]*usualHours // by tenant; "": all
	last         map[string]time.Time   // of the last event, by source; zero: there was none
	certificates map[string]time.Time   // end of validity, by endpoint; zero: unknown
	imbalance    *int64
	own          time.Time  // end of validity of the certificate at PublicURL; zero: unknown
	looked       time.Time  // when it was read last, well or not
	backlogs     []backlogs // of the last Bounds.Growth, the oldest first

	failures map[string]int // in a row, by the reading that failed
}

// usualHours are the totals of a tenant with the time of the computation of their baseline.
type usualHours struct {
	alert.Hours
	at time.Time
}

// backlogs are the numbers of pending deliveries at a time, by tenant.
type backlogs struct {
	at      time.Time
	pending map[string]int64
}

// turns takes ids in turn.
type turns struct {
	after  string
	failed bool // some reading since the first id failed
	whole  bool // each id was read once
}
