package api

import (
	"encoding/json"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/grapnelhq/grapnel/internal/api/openapi"
	"github.com/grapnelhq/grapnel/policy"
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

// policyRef is the policy of an endpoint: a name, or the policy itself.
type policyRef struct {
	name   string
	policy policy.Policy
}

// MarshalJSON writes the one or the other.
func (p policyRef) MarshalJSON() ([]byte, error) {
	if p.name != "" {
		return json.Marshal(p.name)
	}
	return json.Marshal(p.policy)
}

// Schema says that it is one of two.
func (policyRef) Schema(r huma.Registry) *huma.Schema {
	return openapi.PolicyOrName(r, openapi.PolicySchema)
}

// policyInput is the same as it comes in, still to be read.
type policyInput []byte

// MarshalJSON writes it as it is.
func (p policyInput) MarshalJSON() ([]byte, error) { return p, nil }

// Schema says that it is one of two.
func (policyInput) Schema(r huma.Registry) *huma.Schema {
	return openapi.PolicyOrName(r, openapi.PolicyIn)
}

// PatchSchema says that parts of a policy will do.
func (policyInput) PatchSchema(r huma.Registry) *huma.Schema {
	return openapi.PolicyOrName(r, openapi.PolicyMerged)
}
