package api

import (
	"time"

	"github.com/grapnelhq/grapnel/policy"
)

// timeOf is nil for a time that is not set.
func timeOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// spanOf is nil for no time at all.
func spanOf(d time.Duration) *policy.Duration {
	if d <= 0 {
		return nil
	}
	return new(policy.Duration(d))
}

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }
