package grapnel

import (
	"maps"
	"strconv"
	"strings"
	"time"
)

// Event is an immutable fact. Its Data are the publisher's bytes exactly as received; they are
// never re-encoded.
type Event struct {
	Seq         int64 // given by the store when the event is committed; orders events
	ID          string
	Tenant      string
	Type        string
	Key         string // the ordering key; empty: no order
	Data        []byte
	ContentType string // of Data, as their sender declares; see PromisesJSON
	Metadata    map[string]string
	OccurredAt  time.Time
	AcceptedAt  time.Time
	Source      string  // id of the source that received it; empty: the API
	Intake      *Intake // how it arrived; only set when a single event is read
	Damaged     bool    // only in lists: the stored bytes do not match their checksum, so Data is not there
	// ErasedAt is when Data, Metadata and Intake were erased by an order; zero: they were not.
	ErasedAt time.Time
	Erased   bool // Data and Metadata were erased, with the data key that had sealed them
}

// HopsKey names the metadata with the number of servers like this one that an event has passed
// through. Ingress copies it from the header that egress sends, so that a loop of endpoints and
// sources ends.
const HopsKey = "grapnel-hops"

// TraceKey names the metadata with the W3C traceparent of the span that published an event. The
// engine writes it from the request's header, or a publisher gives it; tracestate and baggage are
// not stored. Another text that is no traceparent has no meaning.
const TraceKey = "traceparent"

// Hops is that number; text that is no number counts as 0.
func (e *Event) Hops() int {
	text := e.Metadata[HopsKey]
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return max(n, 0)
}

// JSONType is the content type of event data published as JSON.
const JSONType = "application/json"

// PromisesJSON says that Data are certainly one valid JSON value: the API validates events
// published as JSONType. Events of a source keep the content type that the provider sent, true or
// not.
func (e *Event) PromisesJSON() bool { return e.ContentType == JSONType && e.Source == "" }

// SetTrace puts a traceparent into the metadata, as a new map: others may read the old one.
func (e *Event) SetTrace(traceparent string) {
	metadata := make(map[string]string, len(e.Metadata)+1)
	maps.Copy(metadata, e.Metadata)
	metadata[TraceKey] = traceparent
	e.Metadata = metadata
}

// Limits of an event's parts. The size of its data is a setting of the server.
const (
	MaxTypeLength     = 128
	MaxKeyLength      = 256
	MaxTenantLength   = 64
	MaxMetadata       = 32
	MaxMetadataLength = 1024
	MaxDepth          = 64
)

// ValidType says whether s is a valid event type: dotted segments of [A-Za-z0-9_-], as in
// "invoice.paid".
func ValidType(s string) bool {
	return len(s) <= MaxTypeLength && validSegments(s, false)
}

// ValidPattern says whether s is an event type in which a whole segment may be "*".
func ValidPattern(s string) bool {
	return len(s) <= MaxTypeLength && validSegments(s, true)
}

// ValidTenant says whether s can name a tenant; tenants follow the rule of ids.
func ValidTenant(s string) bool { return ValidID(s) }

// BindsTenant says whether a key, a portal or a person can be bound to the tenant.
func BindsTenant(s string) bool { return ValidTenant(s) && s != OperatorTenant }

func validSegments(s string, star bool) bool {
	start := 0
	for i := 0; i <= len(s); i++ {
		if i < len(s) && s[i] != '.' {
			continue
		}
		segment := s[start:i]
		start = i + 1
		if star && segment == "*" {
			continue
		}
		if !ValidID(segment) {
			return false
		}
	}
	return true
}

// MatchType says whether an event type matches a pattern. "*" stands for one or more segments at
// its position: "invoice.*" matches "invoice.paid" and "invoice.line.added", "*" matches
// everything.
func MatchType(pattern, eventType string) bool {
	p, n := segments{pattern, pattern != ""}, segments{eventType, eventType != ""}
	// The state to return to if the last star takes one more segment. Earlier stars never need to:
	// trying them too finds no other match and takes exponential time.
	var afterStar, taken segments
	for n.left {
		want, rest := p.cut()
		is, tail := n.cut()
		switch {
		case p.left && want == "*":
			p, n, afterStar, taken = rest, tail, rest, tail
		case p.left && want == is:
			p, n = rest, tail
		case taken.left:
			_, taken = taken.cut()
			p, n = afterStar, taken
		default:
			return false
		}
	}
	return !p.left
}

// segments are the remaining segments of a name.
type segments struct {
	text string
	left bool
}

func (s segments) cut() (first string, rest segments) {
	first, text, more := strings.Cut(s.text, ".")
	return first, segments{text, more}
}

// The types of operational events, which report on one endpoint to the tenant's other endpoints.
const (
	EventDeliveryFailed    = "webhook_endpoint.delivery_failed"
	EventEndpointDisabled  = "webhook_endpoint.disabled"
	EventEndpointEnabled   = "webhook_endpoint.enabled"
	EventEndpointFailing   = "webhook_endpoint.failing"
	EventEndpointRecovered = "webhook_endpoint.recovered"
)

// The types of alerts, which are operational events as well. They go to channels.
const (
	EventAlertFired    = "grapnel.alert.fired"
	EventAlertResolved = "grapnel.alert.resolved"
	EventAlertDigest   = "grapnel.alert.digest" // of several alerts that a channel gathered
	EventAlertTest     = "grapnel.alert.test"
	EventAlertContact  = "grapnel.alert.contact" // a message to a customer's contact
)

// Operational says whether an event of this type reports on an endpoint, or is an alert. Such
// events cause no others, so that two endpoints that both fail do not notify each other forever.
func Operational(eventType string) bool {
	return strings.HasPrefix(eventType, "webhook_endpoint.") || IsAlert(eventType)
}

// IsAlert says whether events of this type are alerts. Only the server makes them, and only
// endpoints that name a pattern of such types get them: one that wants every type does not.
func IsAlert(eventType string) bool { return strings.HasPrefix(eventType, "grapnel.alert.") }

// Duplicate says that an event was published, or received, again: the store had it, so nothing else
// was stored.
type Duplicate struct {
	Event  string
	Tenant string
	Source string    `json:",omitempty"` // of the last repetition
	Times  int64     // that it came again
	First  time.Time // of the repetitions
	Last   time.Time
}
