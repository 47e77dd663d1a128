package api

import (
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
