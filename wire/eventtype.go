package wire

import (
	"encoding/json"
	"time"

	"github.com/grapnelhq/grapnel"
)

// EventType is an event type that a tenant has registered, with the versions of its schema.
type EventType struct {
	Raw
	ID          string            `json:"id"`
	Tenant      string            `json:"tenant"`
	Name        string            `json:"name" doc:"the type of the events"`
	Description string            `json:"description"`
	Check       grapnel.TypeCheck `json:"check" enum:"off,refuse" doc:"refuse: an event whose data do not satisfy the schema is answered 422, and nothing of it is stored"`
	Versions    []TypeVersion     `json:"versions" nullable:"false" doc:"the first one first"`
	CreatedAt   time.Time         `json:"created_at"`
	UpdatedAt   time.Time         `json:"updated_at"`
	Revision    int64             `json:"revision" doc:"grows with every change"`
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
