package grapnel

import (
	"strconv"
	"time"
)

// EventType is what a tenant has registered about one type of its events: a JSON Schema of their
// data, in versions. Its name is unique in the tenant.
type EventType struct {
	ID          string
	Tenant      string
	Name        string // the type of the events, such as "invoice.paid"
	Description string
	Labels      map[string]string // marks of the operator
	Check       TypeCheck
	Retain      TypeRetain
	Versions    []TypeVersion // numbered from 1; a version is never removed, and its schema never changes
	CreatedAt   time.Time
	UpdatedAt   time.Time
	Revision    int64
}

// TypeVersion is one version of an event type's schema.
type TypeVersion struct {
	Schema       string // JSON Schema 2020-12, as it was registered
	Example      string // data that satisfies the schema, as JSON; empty: none
	Note         string // its changes, for people
	CreatedAt    time.Time
	DeprecatedAt time.Time // zero: not deprecated
}

// TypeCheck is the treatment of events whose data do not satisfy the schema.
type TypeCheck string

// The checks.
const (
	CheckOff    TypeCheck = "off"    // nothing: events are not compared with the schema
	CheckRefuse TypeCheck = "refuse" // they are refused: nothing of them is stored
)

// TypeRetain says whether the content of delivered events is retained.
type TypeRetain string

// The retentions.
const (
	RetainAll  TypeRetain = "all"  // everything, until its retention has passed
	RetainNone TypeRetain = "none" // it is erased once no delivery needs it
)

// SchemaVersionKey names the metadata in which a publisher says which version of its type's schema
// an event follows. Without it an event follows the newest version.
const SchemaVersionKey = "schema_version"

// Version returns version n of the type, or nil.
func (t *EventType) Version(n int) *TypeVersion {
	if n < 1 || n > len(t.Versions) {
		return nil
	}
	return &t.Versions[n-1]
}

// FollowedBy returns the number of the version that an event follows: the one that its metadata
// names, else the newest. false: the type has no such version.
func (t *EventType) FollowedBy(ev *Event) (int, bool) {
	n := len(t.Versions)
	if text, named := ev.Metadata[SchemaVersionKey]; named {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			return 0, false
		}
	}
	return n, t.Version(n) != nil
}
