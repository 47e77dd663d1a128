package grapnel

import (
	"time"
)

// Event is an immutable fact. Its Data are the publisher's bytes exactly as they came; nothing ever re-encodes them.
type Event struct {
	Seq         int64 // given by the store when the event is committed; orders events
	ID          string
	Tenant      string
	Type        string
	Key         string // the ordering key; empty: no order
	Data        []byte
	ContentType string // of Data, as whoever sent them says; see PromisesJSON
	Metadata    map[string]string
	OccurredAt  time.Time
	AcceptedAt  time.Time
	Source      string  // the id of the source that it came in through; empty: the API
	Intake      *Intake // how it came in; only where an event is looked at by itself
}

// JSONType is the content type of event data published as JSON.
const JSONType = "application/json"

// PromisesJSON says that Data are certainly one valid JSON value: the API checks what is published
// as JSONType. What came in through a source keeps the content type that its provider gave it,
// whether it is true or not.
func (e *Event) PromisesJSON() bool { return e.ContentType == JSONType && e.Source == "" }

// Limits of an event's parts. The size of its data is a setting of the server.
const (
	MaxTypeLength     = 128
	MaxKeyLength      = 256
	MaxTenantLength   = 64
	MaxMetadata       = 32
	MaxMetadataLength = 1024
	MaxDepth          = 64
)

// ValidType says whether s is a name an event can have: dotted segments of [A-Za-z0-9_-], as in "invoice.paid".
func ValidType(s string) bool {
	return len(s) <= MaxTypeLength && validSegments(s, false)
}

// ValidPattern says whether s is an event type in which a whole segment may be "*".
func ValidPattern(s string) bool {
	return len(s) <= MaxTypeLength && validSegments(s, true)
}

// ValidTenant says whether s can name a tenant; tenants follow the rule of ids.
func ValidTenant(s string) bool { return ValidID(s) }

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

// MatchType says whether an event type matches a pattern. "*" stands for one or more segments at its place: "invoice.*"
// matches "invoice.paid" and "invoice.line.added", "*" matches everything.
func MatchType(pattern, eventType string) bool {
	for {
		segment, rest, more := cutSegment(pattern)
		if segment == "*" {
			if !more {
				return eventType != ""
			}
			// The star takes one segment, then as many more as it needs.
			for {
				_, tail, left := cutSegment(eventType)
				if !left {
					return false
				}
				if MatchType(rest, tail) {
					return true
				}
				eventType = tail
			}
		}
		head, tail, left := cutSegment(eventType)
		if segment != head || more != left {
			return false
		}
		if !more {
			return true
		}
		pattern, eventType = rest, tail
	}
}

func cutSegment(s string) (first, rest string, more bool) {
	for i := range len(s) {
		if s[i] == '.' {
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}
