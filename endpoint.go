package grapnel

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel/policy"
)

// Endpoint is a destination of events: an HTTP URL that takes deliveries as requests, a broker that
// takes them as messages, or a queue, from which consumers pull.
type Endpoint struct {
	ID          string
	Tenant      string
	URL         string // with a Target: of the broker, for people (brokers.URL)
	Description string
	Labels      map[string]string // marks of the operator; no delivery depends on them
	EventTypes  []string          // patterns; empty: every type
	Filter      string            // a CEL expression over event; empty: no filter
	Source      string            // only events of this source; empty: any origin
	Queue       *Queue            // not nil: the endpoint is a queue, and the fields of requests are empty
	Channel     *Channel          // not nil: the endpoint is a channel of alerts
	Target      *Target           // not nil: deliveries go to a broker, and not to the URL
	// a preset or a policy of the tenant; empty if Policy was given inline
	PolicyName     string
	Policy         policy.Policy
	Ordering       Ordering // empty: it says nothing, see Order
	RateLimit      *RateLimit
	MaxConcurrency int
	Headers        map[string]string
	Method         string  // POST, PUT or PATCH; empty: POST
	OAuth2         *OAuth2 // not nil: requests carry a token
	TLS            *TLS    // not nil: connections have a client certificate or a private CA
	Proxy          Secret  // URL of the forward proxy that connections go through; empty: none
	Format         Format  // empty: it says nothing, see Shape
	// a jq expression over the standard body that gives the one to send; empty: the preset's, if it
	// has one
	Transform      string
	Former         []Shape // earlier shapes, the earliest first
	Signing        Signing
	Trace          bool     // requests have the header traceparent, if the event has a trace
	Secrets        []Secret // the newest first; those that have expired no longer sign
	Status         EndpointStatus
	DisabledReason string // also of a paused one: HeldReason, ConsentReason
	DisabledAt     time.Time
	Consent        *Consent // nil: its address was asked for none
	// one answer disabled it, such as a 410: pending deliveries are held, even if the policy drops
	DisabledByAnswer bool
	CreatedAt        time.Time
	UpdatedAt        time.Time
	// set while a deleted endpoint's pending deliveries are being finished
	DeletedAt time.Time
	Revision  int64 // grows with every change of this endpoint
}

// Shape is the conversion of an event into a body.
type Shape struct {
	// it applies to events accepted before this; zero: it is the current one
	Until     time.Time
	Format    Format
	Transform string // empty: the body is that of the format
}

// Receives says whether it is a receiver's, and neither a queue nor a channel.
func (ep *Endpoint) Receives() bool { return ep.Queue == nil && ep.Channel == nil }

// Shape is the current shape: the endpoint's own settings before those of its policy's preset. A
// preset's transform belongs to the standard format.
func (ep *Endpoint) Shape() Shape {
	preset := ep.Policy.RequestShape()
	s := Shape{Format: cmp.Or(ep.Format, Format(preset.Format), FormatStandard), Transform: ep.Transform}
	if s.Transform == "" && s.Format == FormatStandard {
		s.Transform = preset.Transform
	}
	return s
}

// Order is the endpoint's ordering: its own setting before that of its policy's preset.
func (ep *Endpoint) Order() Ordering {
	return cmp.Or(ep.Ordering, Ordering(ep.Policy.RequestShape().Ordering), OrderByKey)
}

// Ordered says whether an event waits for earlier events of its key.
func (ep *Endpoint) Ordered() bool { return ep.Order() == OrderByKey }

// ShapeAt is the shape at a time. An event keeps the shape of its acceptance, whatever the
// endpoint's becomes.
func (ep *Endpoint) ShapeAt(accepted time.Time) Shape {
	accepted = accepted.Truncate(time.Microsecond) // as the store rounds it
	for _, s := range ep.Former {
		if accepted.Before(s.Until) {
			return s
		}
	}
	return ep.Shape()
}

// Reshaped records that the endpoint had another shape until now. Events accepted before keep that
// one.
func (ep *Endpoint) Reshaped(was Shape, now time.Time) {
	is := ep.Shape()
	if is.Format == was.Format && is.Transform == was.Transform {
		return
	}
	was.Until = now.Truncate(time.Microsecond)
	if n := len(ep.Former); n > 0 && was.Until.Before(ep.Former[n-1].Until) {
		was.Until = ep.Former[n-1].Until // the clock was set back
	}
	ep.Former = append(slices.Clip(ep.Former), was)
}

// SentHeaders are the endpoint's own headers, and those of its policy's preset that it does not set
// itself.
func (ep *Endpoint) SentHeaders() map[string]string {
	preset := ep.Policy.RequestShape().Headers
	if len(preset) == 0 {
		return ep.Headers
	}
	all := maps.Clone(preset)
	for name, value := range ep.Headers {
		maps.DeleteFunc(all, func(is, _ string) bool { return strings.EqualFold(is, name) })
		all[name] = value
	}
	return all
}

// DropReason is the reason for which an event accepted while the endpoint is disabled is dropped at
// once; empty: its delivery is held.
func (ep *Endpoint) DropReason() string {
	if ep.Status != EndpointDisabled || ep.DisabledByAnswer || ep.Policy.Disable.Pending != policy.PendingDrop {
		return ""
	}
	return "dropped: its endpoint is disabled (" + ep.DisabledReason + ") and its policy drops what would wait"
}

// OAuth2 is the client of the endpoint at its token server (client credentials, RFC 6749).
type OAuth2 struct {
	TokenURL     string
	ClientID     string
	ClientSecret Secret
	Scopes       []string
	Audience     string // empty: the token server is not told one
}

// TLS is how connections to the endpoint prove themselves, and whom they trust. Texts are PEM.
type TLS struct {
	CA         string // the only authorities that are trusted; empty: those of the system
	ClientCert string // the client certificate, with its intermediate ones; empty: none
	ClientKey  Secret
}

// Quiet says that only the endpoint's own consumers see it: no operational events report it, no
// totals count it, and a delivery that would become a dead letter, or block its key, is discarded.
// Only a queue can be quiet.
func (ep *Endpoint) Quiet() bool { return ep.Queue != nil && ep.Queue.Quiet }

// Uncounted says that no statistics count its deliveries: those of a channel are messages about the
// tenant's deliveries, and no such deliveries themselves.
func (ep *Endpoint) Uncounted() bool { return ep.Quiet() || ep.Channel != nil }

// DefaultMaxConcurrency is the limit of an endpoint's simultaneous requests if it sets none.
const DefaultMaxConcurrency = 32

// MaxEndpointConcurrency is the most an endpoint may ask for.
const MaxEndpointConcurrency = 1024

// Ordering says whether an event waits for earlier events of its key.
type Ordering string

// The orderings.
const (
	OrderByKey Ordering = "key"
	Unordered  Ordering = "none"
)

// Format is the format of an endpoint's requests.
type Format string

// The formats.
const (
	FormatStandard    Format = "standard"
	FormatRaw         Format = "raw"
	FormatCloudEvents Format = "cloudevents"
	FormatBatch       Format = "batch" // an array of events in the standard format, each shaped by the transform
)

// Signing selects the header names of a request's id, time and signature.
type Signing string

// The signings. The headers of Standard Webhooks are always sent; SigningSvix adds those of Svix.
const (
	SigningStandard Signing = "standard"
	SigningSvix     Signing = "svix"
)

// Consent is the state of asking an endpoint's address for its consent.
type Consent struct {
	Since   time.Time // when the endpoint got the address
	Asked   int       // challenges that were begun
	AskedAt time.Time // the last of them
	Next    time.Time // of the next challenge; zero: only a person sends another
	Cause   string    // why the last challenge brought no consent; empty: it has no result yet
	GivenAt time.Time // zero: the endpoint waits for it
}

// EndpointStatus says whether an endpoint gets deliveries.
type EndpointStatus string

// The statuses of an endpoint. Deliveries of a paused one are held; those of a disabled one are
// held or dropped, by its policy.
const (
	EndpointEnabled  EndpointStatus = "enabled"
	EndpointPaused   EndpointStatus = "paused"
	EndpointDisabled EndpointStatus = "disabled"
)

// HeldReason is the DisabledReason of endpoints and queues that a restore has paused.
const HeldReason = "held since a restore of the database"

// OperatorReason begins the DisabledReason of endpoints and queues that a person has disabled.
const OperatorReason = "an operator disabled it"

// RateLimit is a token bucket.
type RateLimit struct {
	PerSecond float64 `json:"per_second" required:"true" minimum:"0.0001" maximum:"100000"`
	Burst     int     `json:"burst" minimum:"1" maximum:"100000" doc:"one second's worth if not given"`
}

// The smallest allowed rate, about one in three hours, and the highest, which is also the longest
// burst.
const (
	MinPerSecond = 0.0001
	MaxPerSecond = 100_000
)

// century is longer than any useful pace, and short enough to be added to a time.
const century = 100 * 365 * 24 * time.Hour

// Pace is the time between requests at the limit, and the length of a burst; 0: no limit. A burst
// is at most a century, however small the rate: unchecked, the durations would overflow and become
// negative, which limits nothing.
func (l *RateLimit) Pace() (each, burst time.Duration) {
	if l == nil || !(l.PerSecond > 0) { // not "<= 0", which a NaN is not
		return 0, 0
	}
	most := century / time.Duration(max(l.Burst, 1))
	each = time.Duration(max(min(float64(time.Second)/l.PerSecond, float64(most)), 1))
	return each, each * time.Duration(max(l.Burst, 1))
}

// NamedPolicy is a policy that a tenant has stored under a name.
type NamedPolicy struct {
	ID        string
	Tenant    string
	Name      string
	Policy    policy.Policy
	CreatedAt time.Time
	UpdatedAt time.Time
	Revision  int64
}
