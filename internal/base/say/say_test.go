package say

import (
	"testing"
	"time"
)

// TestAPartIsNeverNoneOrAll: one of many is not 0 %, and all but one not 100 %.
func TestAPartIsNeverNoneOrAll(t *testing.T) {
	for want, c := range map[string][2]int64{"0": {0, 5000}, "0.1": {1, 5000}, "12.5": {1, 8}, "99.9": {4999, 5000}, "100": {8, 8}, "–": {}} {
		if got := Percent(c[0], c[1]); got != want {
			t.Errorf("%d of %d are %s %%, want %s", c[0], c[1], got, want)
		}
	}
}

func TestForms(t *testing.T) {
	for _, c := range [][2]string{
		{Count(-1234567), "-1\u202f234\u202f567"}, {Capped(10_000, true), "10\u202f000+"}, {Capped(999, false), "999"},
		{AtLeast(2, true, "key is", "keys are"), "At least 2 keys are"}, {AtLeast(1, false, "key is", "keys are"), "1 key is"},
		{Many(1, "delivery", "deliveries"), "1 delivery"}, {Many(0, "delivery", "deliveries"), "0 deliveries"},
		{Times(0), "0 times"}, {Times(1), "once"}, {Times(2), "twice"}, {Times(8), "8 times"},
		{Bytes(1), "1 byte"}, {Bytes(512), "512 bytes"}, {Bytes(1024), "1 KiB"}, {Bytes(1536), "1.5 KiB"}, {Bytes(3 << 19), "1.5 MiB"}, {Bytes(20 << 30), "20 GiB"}, {Bytes(2048 << 40), "2048 TiB"},
		{List(nil), ""}, {List([]string{"a"}), "a"}, {List([]string{"a", "b", "c"}), "a, b and c"},
		{Took(0), "0 ms"}, {Took(12 * time.Microsecond), "12 µs"}, {Took(12 * time.Millisecond), "12 ms"},
		{Took(1500 * time.Millisecond), "1.5 s"}, {Spoken(90 * time.Second), "1 min 30 s"}, {Spoken(5 * time.Minute), "5 min"},
		{Spoken(95 * time.Minute), "1 h 35 min"}, {Spoken(24 * time.Hour), "24 h"}, {Spoken(72 * time.Hour), "3 days"},
		{Roughly(95 * time.Minute), "1 h"}, {Cut("aäöü", 7), "aäöü"}, {Cut("aäöü", 5), "aäö…"}, {Cut("aäöü", 4), "aä…"}, {Cut("ü", 0), "…"},
	} {
		if c[0] != c[1] {
			t.Errorf("%q, want %q", c[0], c[1])
		}
	}
}
