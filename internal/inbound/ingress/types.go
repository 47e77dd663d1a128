package ingress

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	debts "github.com/grapnelhq/grapnel/internal/base/allowance"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/scheme"
)

// metrics are the Receiver's metrics. The table of schemes and the list above bound their labels.
type metrics struct {
	requests *prometheus.CounterVec
	// requests without proof that the provider sent them
	signatures *prometheus.CounterVec
	busy       prometheus.Collector
}

// Receiver receives requests. It is safe for concurrent use.
type Receiver struct {
	o       Options
	sources sync.Map     // id → *source, of those that were asked for; see forget
	fresh   atomic.Int64 // added to sources since forget looked at all of them
	stayed  atomic.Int64 // sources that existed then
	busy    *admission
	metrics *metrics
	far     *debts.Tenants // requests that have come from far
}

// Refusals are the refused requests of a source. They are in the memory of this node, since its
// start.
type Refusals struct {
	LastAt     time.Time // zero: nothing was refused
	LastStatus int       // of the answer
	LastReason string
	LastHour   int // requests, to the minute
	Unverified int // those of LastHour that could not be verified
}

// refusals counts by the minute, so a source needs the same memory for any number of senders.
type refusals struct {
	mu         sync.Mutex
	last       Refusals // without its counts
	minutes    [60]int
	unverified [60]int // those that could not be verified
	minute     int64   // since 1970, of the newest count
}

func waited(checks []grapnel.Check) bool {
	return slices.Contains(checks, grapnel.Check{Text: scheme.WaitsForSecret})
}
