package api

import (
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// stamp is a time as all answers write it: RFC 3339, UTC, microseconds.
type stamp time.Time

const stampLayout = "2006-01-02T15:04:05.000000Z"

// MarshalJSON writes the time.
func (s stamp) MarshalJSON() ([]byte, error) {
	return []byte(`"` + time.Time(s).UTC().Format(stampLayout) + `"`), nil
}

// Schema says how it looks.
func (stamp) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: "date-time"}
}

// stampOf is null for a time that is not set.
func stampOf(t time.Time) *stamp {
	if t.IsZero() {
		return nil
	}
	s := stamp(t)
	return &s
}

// span is a duration as a Go string.
type span time.Duration

// MarshalJSON writes the duration.
func (s span) MarshalJSON() ([]byte, error) {
	return []byte(`"` + time.Duration(s).String() + `"`), nil
}

// Schema says how it looks.
func (span) Schema(huma.Registry) *huma.Schema { return durationSchema() }

// orNull is null for the empty text.
func orNull[T ~string](s T) *string {
	if s == "" {
		return nil
	}
	text := string(s)
	return &text
}

// numberOrNull is null for zero.
func numberOrNull[T ~int | ~int64](n T) *T {
	if n == 0 {
		return nil
	}
	return &n
}

func durationSchema() *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Examples: []any{"1h30m"}}
}

type rateLimit struct {
	PerSecond float64 `json:"per_second" required:"true" minimum:"0.0001" maximum:"100000"`
	Burst     int     `json:"burst,omitempty" minimum:"1" maximum:"100000" doc:"one second's worth if not given"`
}

// rateLimitView is a limit or null.
type rateLimitView struct {
	PerSecond float64 `json:"per_second"`
	Burst     int     `json:"burst"`
}

// Schema says that it may be null.
func (rateLimitView) Schema(r huma.Registry) *huma.Schema {
	return huma.SchemaFromType(r, reflect.TypeFor[struct {
		PerSecond float64 `json:"per_second"`
		Burst     int     `json:"burst"`
	}]())
}

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }
