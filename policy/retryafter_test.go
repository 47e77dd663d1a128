package policy

import (
	"testing"
	"time"
)

func TestParseRetryAfter(t *testing.T) {
	date := time.Date(2026, 5, 6, 8, 0, 0, 500_000_000, time.UTC)
	cases := []struct {
		value string
		want  time.Duration
		ok    bool
	}{
		{"0", 0, true},
		{"120", 2 * time.Minute, true},
		{" 120\t", 2 * time.Minute, true},
		{"1.5", 1500 * time.Millisecond, true},
		{"0.0000001", 0, true},
		{"604800", 7 * 24 * time.Hour, true},
		{"604801", 0, false},
		{"99999999999999999999999999", 0, false},
		{"-5", 0, false},
		{"+5", 0, false},
		{"1e3", 0, false},
		{"0x10", 0, false},
		{"1.", 0, false},
		{".5", 0, false},
		{"1.5.2", 0, false},
		{"Inf", 0, false},
		{"NaN", 0, false},
		{"", 0, false},
		{"soon", 0, false},
		{"10s", 0, false},
		{"1,5", 0, false},
		{"Wed, 06 May 2026 08:02:00 GMT", 2 * time.Minute, true},
		{"Wednesday, 06-May-26 08:02:00 GMT", 2 * time.Minute, true},
		{"Wed May  6 08:02:00 2026", 2 * time.Minute, true},
		{"Wed, 06 May 2026 08:00:00 GMT", 0, true},
		{"Wed, 06 May 2026 07:59:59 GMT", 0, false},
		{"Thu, 14 May 2026 08:00:00 GMT", 0, false},
		{"Wed, 06 May 2026 08:02:00 PST", 0, false},
		{"2026-05-06T08:02:00Z", 0, false},
	}
	for _, c := range cases {
		if got, ok := ParseRetryAfter(c.value, date); got != c.want || ok != c.ok {
			t.Errorf("%q: %v, %v; want %v, %v", c.value, got, ok, c.want, c.ok)
		}
	}
}

func FuzzParseRetryAfter(f *testing.F) {
	for _, s := range []string{"120", "1.5", "Wed, 06 May 2026 08:02:00 GMT", "Wednesday, 06-May-26 08:02:00 GMT", "-1", "1e9", "0x1p-2"} {
		f.Add(s, int64(1778054400))
	}
	f.Fuzz(func(t *testing.T, value string, unix int64) {
		wait, ok := ParseRetryAfter(value, time.Unix(unix, 0).UTC())
		if wait < 0 || wait > credibleRetryAfter || !ok && wait != 0 {
			t.Errorf("%q at %d: %v, %v", value, unix, wait, ok)
		}
	})
}
