package grapnel

import (
	"log/slog"
	"time"

	"github.com/grapnelhq/grapnel/policy"
)

// Endpoint is where events go: an HTTP URL that takes deliveries as POST requests, or a queue, which is an endpoint that is pulled.
type Endpoint struct {
	ID             string
	Tenant         string
	URL            string
	Description    string
	EventTypes     []string // patterns; empty: every type
	Filter         string   // a CEL expression over event; empty: no filter
	Source         string   // only events that came in through this source; empty: from anywhere
	Queue          *Queue   // not nil: it is a queue, and has nothing that belongs to requests
	PolicyName     string   // a preset or a policy of the tenant; empty when Policy was given inline
	Policy         policy.Policy
	Ordering       Ordering
	RateLimit      *RateLimit
	MaxConcurrency int
	Headers        map[string]string
	Format         Format
	Signing        Signing
	Secrets        []Secret // the newest first; those that have expired no longer sign
	Status         EndpointStatus
	DisabledReason string
	DisabledAt     time.Time
	CreatedAt      time.Time
	UpdatedAt      time.Time
	DeletedAt      time.Time // set while what waited for a deleted endpoint is being ended
	Revision       int64     // grows with every change of this endpoint
}

// DropReason is why an event accepted while the endpoint is disabled is dropped at once; empty: it is not, it waits.
func (ep *Endpoint) DropReason() string {
	if ep.Status != EndpointDisabled || ep.Policy.Disable.Pending != policy.PendingDrop {
		return ""
	}
	return "dropped: its endpoint is disabled (" + ep.DisabledReason + ") and its policy drops what would wait"
}

// Quiet says that nobody but its own consumers notices the endpoint: no operational events are about it, no totals count it, and what
// would be a dead letter, or would block its key, is discarded. Only a queue can be quiet.
func (ep *Endpoint) Quiet() bool { return ep.Queue != nil && ep.Queue.Quiet }

// DefaultMaxConcurrency is how many requests an endpoint gets at once unless it says otherwise.
const DefaultMaxConcurrency = 32

// MaxEndpointConcurrency is the most an endpoint may ask for.
const MaxEndpointConcurrency = 1024

// Ordering says whether events of one key wait for each other.
type Ordering string

// The orderings.
const (
	OrderByKey Ordering = "key"
	Unordered  Ordering = "none"
)

// Format is the shape of the request that an endpoint gets.
type Format string

// The formats.
const (
	FormatStandard    Format = "standard"
	FormatRaw         Format = "raw"
	FormatCloudEvents Format = "cloudevents"
)

// Signing is under which names a request carries its id, time and signature.
type Signing string

// The signings. The names of Standard Webhooks are always there; with SigningSvix those of Svix are too.
const (
	SigningStandard Signing = "standard"
	SigningSvix     Signing = "svix"
)

// EndpointStatus says whether an endpoint gets deliveries.
type EndpointStatus string

// The statuses of an endpoint. Deliveries to a paused one are held; to a disabled one, held or dropped as its policy says.
const (
	EndpointEnabled  EndpointStatus = "enabled"
	EndpointPaused   EndpointStatus = "paused"
	EndpointDisabled EndpointStatus = "disabled"
)

// RateLimit is a token bucket.
type RateLimit struct {
	PerSecond float64 `json:"per_second"`
	Burst     int     `json:"burst"`
}

// MinPerSecond is the smallest rate that can be set: one in three hours, about.
const MinPerSecond = 0.0001

// century is longer than any pace that means something, and short enough to be added to a time.
const century = 100 * 365 * 24 * time.Hour

// Pace is the time that one request takes of the limit, and a burst of them; 0: there is no limit.
// A burst takes a century at most, however small the rate: unchecked, the durations would overflow
// and become negative, which limits nothing.
func (l *RateLimit) Pace() (each, burst time.Duration) {
	if l == nil || !(l.PerSecond > 0) { // not "<= 0", which a NaN is not
		return 0, 0
	}
	most := century / time.Duration(max(l.Burst, 1))
	each = time.Duration(max(min(float64(time.Second)/l.PerSecond, float64(most)), 1))
	return each, each * time.Duration(max(l.Burst, 1))
}

// Secret signs deliveries. Its text form starts with whsec_ (symmetric) or whsk_ (ed25519); see package sign. It never
// shows itself in logs or formatted output.
type Secret struct {
	Text      string
	CreatedAt time.Time
	ExpiresAt time.Time // zero: does not expire
}

// Live says whether the secret signs at the given time.
func (s Secret) Live(now time.Time) bool { return s.ExpiresAt.IsZero() || now.Before(s.ExpiresAt) }

// String keeps the secret out of formatted output.
func (Secret) String() string { return "[redacted]" }

// GoString keeps the secret out of %#v.
func (Secret) GoString() string { return "[redacted]" }

// LogValue keeps the secret out of logs.
func (Secret) LogValue() slog.Value { return slog.StringValue("[redacted]") }

// MarshalText keeps the secret out of JSON, where it would come from inside of a logged endpoint. What stores secrets names
// their fields itself.
func (Secret) MarshalText() ([]byte, error) { return []byte("[redacted]"), nil }

// NamedPolicy is a policy that a tenant keeps under a name of its own.
type NamedPolicy struct {
	ID        string
	Tenant    string
	Name      string
	Policy    policy.Policy
	CreatedAt time.Time
	UpdatedAt time.Time
	Revision  int64
}
