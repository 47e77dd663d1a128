package policy_test

import (
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/policy"
)

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"30d": 720 * time.Hour, "1d12h": 36 * time.Hour, "0.5d": 12 * time.Hour, "-1d1h": -25 * time.Hour, "90s": 90 * time.Second,
		"1h30m": 90 * time.Minute, "0d": 0, "106751d": 106751 * 24 * time.Hour,
	} {
		if d, err := policy.ParseDuration(text); err != nil || d != want {
			t.Errorf("%s: %v, %v; want %v", text, d, err, want)
		}
	}
	for _, text := range []string{"", "d", "30", "1dd", "1d-2h", "1d+2h", "2h1d", "x1d", "NaNd", "Infd", "106752d", "9999999999d", "-106753d",
		"1d5", "1e400d"} {
		if d, err := policy.ParseDuration(text); err == nil {
			t.Errorf("%q is %v", text, d)
		}
	}
}
