package consent

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/allowance"
	"github.com/grapnelhq/grapnel/internal/send/egress"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Bounds are the sizes and time limits inside this package; see package bounds.
type Bounds struct {
	Every     time.Duration `bound:"10s" tiny:"50ms"`  // between two looks for endpoints that are due
	Tries     int           `bound:"8" tiny:"8"`       // challenges of one address without a person
	First     time.Duration `bound:"1m" tiny:"100ms"`  // from the first challenge to the second; each pause is twice the one before
	Longest   time.Duration `bound:"12h" tiny:"400ms"` // of these pauses
	Timeout   time.Duration `bound:"10s"`              // of a challenge, if the policy's is longer
	PerTenant int           `bound:"60" tiny:"60"`     // challenges of one tenant at once, and as many in each hour
	PerHost   int           `bound:"60" tiny:"60"`     // the same to one host, by all tenants
	Names     int           `bound:"65536"`            // tenants, and hosts, without a debt in memory
	AtOnce    int           `bound:"8"`                // challenges by schedule that run
	Queue     int           `bound:"1024"`             // endpoints that wait for one to end; others wait for the next look
}

// Engine is the part of the engine that is needed here.
type Engine interface {
	Leads() bool // or another node looks for endpoints that are due, and counts challenges
	Endpoint(scope store.Scope, id string) (grapnel.Endpoint, bool)
	EachEndpoint(scope store.Scope, see func(*grapnel.Endpoint) bool)
	Consent(tenant string) grapnel.ConsentRule
	Terms(tenant string) grapnel.Terms
	// PutEndpoint returns grapnel.CodeConflict if the endpoint was changed since it was read.
	PutEndpoint(ctx context.Context, scope store.Scope, ep grapnel.Endpoint, with store.With) (store.Put, error)
}

// Sender makes requests as deliveries do; an *egress.Sender.
type Sender interface {
	Send(ctx context.Context, d egress.Delivery) egress.Result
}

// Options configure a Keeper. Engine, Sender, Random and Log are required.
type Options struct {
	Bounds Bounds // inside this package; zero: their defaults
	Engine Engine
	Sender Sender
	Random io.Reader // of ids and tokens; safe for concurrent use
	Log    *slog.Logger
	Now    func() time.Time // time.Now
	// Leader has the leading node count a challenge (Spend); nil: this node is alone.
	Leader func(ctx context.Context, tenant string, hosts []string, back bool) error
}

// Keeper asks the addresses of endpoints for consent.
type Keeper struct {
	o              Options
	bounds         Bounds
	now            func() time.Time
	due            chan string // ids of endpoints
	tenants, hosts *allowance.Tenants
}
