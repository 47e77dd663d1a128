package wire

import (
	"encoding/json"
	"time"

	"github.com/grapnelhq/grapnel"
)

// NewEventType is an event type to be registered. Only Name is required; with Schema it has version
// 1 at once.
type NewEventType struct {
	Name        string             `json:"name" required:"true" fixed:"true" form:"type" doc:"the type of the events"`
	Tenant      string             `json:"tenant" fixed:"true" form:"tenant" doc:"the tenant of the key if not given, else default"`
	Description string             `json:"description" maxLength:"1000"`
	Check       grapnel.TypeCheck  `json:"check" enum:"off,refuse" doc:"refuse: an event whose data do not satisfy the schema is answered 422, and nothing of it is stored; off if not given"`
	Labels      map[string]string  `json:"labels" maxProperties:"16" names:"^[A-Za-z0-9_.-]{1,64}$" maxLength:"256" doc:"marks of your own; names of 1 to 64 characters of [A-Za-z0-9_.-], values of at most 256 bytes"`
	Retain      grapnel.TypeRetain `json:"retain" enum:"all,none" doc:"none: what an event contains is erased within seconds once it is delivered everywhere and none of its deliveries is a dead letter; all if not given"`
	Schema      json.RawMessage    `json:"schema" fixed:"true" doc:"JSON Schema 2020-12 of the events' data, at most 64 KiB; references begin with #"`
	Example     json.RawMessage    `json:"example" fixed:"true" doc:"data that satisfy the schema"`
	Note        string             `json:"note" fixed:"true" maxLength:"1000" doc:"of version 1, for people"`
}

// MarshalJSON writes the fields that are set.
func (t NewEventType) MarshalJSON() ([]byte, error) { return Request(t) }

// NewTypeVersion is a version of a schema to be added.
type NewTypeVersion struct {
	Schema  json.RawMessage `json:"schema" required:"true" doc:"JSON Schema 2020-12 of the events' data, at most 64 KiB; references begin with #"`
	Example json.RawMessage `json:"example" doc:"data that satisfy the schema"`
	Note    string          `json:"note" maxLength:"1000" doc:"changes of this version, for people"`
}

// MarshalJSON writes the fields that are set.
func (v NewTypeVersion) MarshalJSON() ([]byte, error) { return Request(v) }

// TypeVersionSettings are what can be changed of a version.
type TypeVersionSettings struct {
	Note       string `json:"note" maxLength:"1000" doc:"changes of this version, for people"`
	Deprecated bool   `json:"deprecated" doc:"publishers shall follow a later version"`
}

// MarshalJSON writes the fields that are set.
func (v TypeVersionSettings) MarshalJSON() ([]byte, error) { return Request(v) }

// EventType is an event type that a tenant has registered, with the versions of its schema.
type EventType struct {
	Raw
	ID          string             `json:"id"`
	Tenant      string             `json:"tenant"`
	Name        string             `json:"name" doc:"the type of the events"`
	Description string             `json:"description"`
	Check       grapnel.TypeCheck  `json:"check" enum:"off,refuse" doc:"refuse: an event whose data do not satisfy the schema is answered 422, and nothing of it is stored"`
	Labels      map[string]string  `json:"labels" doc:"marks of your own"`
	Retain      grapnel.TypeRetain `json:"retain" enum:"all,none" doc:"none: what an event contains is erased once it is delivered"`
	Versions    []TypeVersion      `json:"versions" nullable:"false" doc:"the first one first"`
	CreatedAt   time.Time          `json:"created_at"`
	UpdatedAt   time.Time          `json:"updated_at"`
	Revision    int64              `json:"revision" doc:"grows with every change"`
}

// MarshalJSON writes the event type as the API does.
func (t EventType) MarshalJSON() ([]byte, error) { return Encode(t) }

// TypeVersion is one version of an event type's schema.
type TypeVersion struct {
	Version      int             `json:"version" doc:"1 for the first"`
	Schema       json.RawMessage `json:"schema,omitempty" doc:"JSON Schema 2020-12; lists of event types leave it out"`
	Example      json.RawMessage `json:"example,omitempty" doc:"data that satisfy the schema; absent: none was given, or this is a list"`
	Note         string          `json:"note" doc:"changes of this version, for people"`
	CreatedAt    time.Time       `json:"created_at"`
	DeprecatedAt time.Time       `json:"deprecated_at" nullable:"true" doc:"null: not deprecated"`
}

// TypeComparison has the differences of two versions of a schema.
type TypeComparison struct {
	Raw
	From        int              `json:"from"`
	To          int              `json:"to"`
	Breaking    bool             `json:"breaking" doc:"whether any difference is"`
	Stricter    bool             `json:"stricter" doc:"whether any difference is"`
	Differences []TypeDifference `json:"differences" nullable:"false"`
}

// MarshalJSON writes the comparison as the API does.
func (c TypeComparison) MarshalJSON() ([]byte, error) { return Encode(c) }

// TypeDifference is one of them.
type TypeDifference struct {
	Pointer  string `json:"pointer" doc:"JSON pointer into the later schema; into the earlier one, if the later has nothing there"`
	What     string `json:"what" doc:"a sentence"`
	Breaking bool   `json:"breaking" doc:"receivers that know the earlier version may get something new"`
	Stricter bool   `json:"stricter" doc:"publishers that follow the earlier version may be refused"`
}
