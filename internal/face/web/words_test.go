package web

import (
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/base/say"
)

func TestTimesInWords(t *testing.T) {
	for d, want := range map[time.Duration][2]string{
		0:                              {"now", "now"},
		900 * time.Millisecond:         {"now", "now"},
		4 * time.Second:                {"in 4 s", "4 s ago"},
		4*time.Minute + 12*time.Second: {"in 4 min 12 s", "4 min ago"},
		59 * time.Minute:               {"in 59 min", "59 min ago"},
		2*time.Hour + 5*time.Minute:    {"in 2 h 5 min", "2 h ago"},
		26 * time.Hour:                 {"in 26 h", "26 h ago"},
		72 * time.Hour:                 {"in 3 days", "3 days ago"},
	} {
		if got := (moment{then.Add(d), then}).Relative(); got != want[0] {
			t.Errorf("%v ahead: %q, want %q", d, got, want[0])
		}
		if got := (moment{then.Add(-d), then}).Relative(); got != want[1] {
			t.Errorf("%v ago: %q, want %q", d, got, want[1])
		}
	}
	for at, want := range map[time.Time]string{then: "09:23:34", then.Add(20 * time.Hour): "Tue 05:23", then.Add(-240 * time.Hour): "13 Nov 09:23",
		then.AddDate(-1, 0, 0): "23 Nov 2025 09:23", then.AddDate(0, 2, 0): "23 Jan 2027 09:23"} {
		if got := (moment{at, then}).Clock(); got != want {
			t.Errorf("%v: %q, want %q", at, got, want)
		}
	}
	for d, want := range map[time.Duration]string{300 * time.Microsecond: "300 µs", 44 * time.Millisecond: "44 ms", 2500 * time.Millisecond: "2.5 s", 30 * time.Second: "30 s"} {
		if got := say.Took(d); got != want {
			t.Errorf("%v took %q, want %q", d, got, want)
		}
	}
}

func TestNumbersInWords(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1\u202f000", 1234567: "1\u202f234\u202f567", -1000: "-1\u202f000"} {
		if got := say.Count(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
	for _, c := range []struct {
		part, whole int64
		want        string
	}{{1, 2, "50"}, {999_999, 1_000_000, "99.9"}, {5, 5, "100"}, {0, 0, "–"}, {1, 3, "33.3"}} {
		if got := say.Percent(c.part, c.whole); got != c.want {
			t.Errorf("%d of %d is %q, want %q", c.part, c.whole, got, c.want)
		}
	}
}

// TestBodiesKeepTheirText: the parts of a coloured body are the indented body. Numbers keep their
// digits and keys their order.
func TestBodiesKeepTheirText(t *testing.T) {
	v := &visit{web: &web{Options: Options{Bounds: Bounds{Body: 100}}}}
	join := func(parts []span) string {
		var b strings.Builder
		for _, p := range parts {
			b.WriteString(p.Text)
		}
		return b.String()
	}
	for body, want := range map[string]string{
		`{"b":1.00,"a":12345678901234567890}`: "{\n  \"b\": 1.00,\n  \"a\": 12345678901234567890\n}",
		`"\\\"x"`:                             `"\\\"x"`,
		`not json "at all`:                    `not json "at all`,
		``:                                    ``,
	} {
		if got := join(v.readable([]byte(body))); got != want {
			t.Errorf("%s became %s", body, got)
		}
	}
	if parts := v.readable([]byte(`{"k":"s"}`)); len(parts) != 5 || parts[1] != (span{"k", `"k"`}) || parts[3] != (span{"s", `"s"`}) {
		t.Errorf("the parts are %q", parts)
	}
	long := join(v.readable([]byte(strings.Repeat("ü", 5000))))
	if !strings.HasSuffix(long, "\n… 9\u202f900 bytes more") || strings.ContainsRune(long, '\ufffd') {
		t.Errorf("a long body became %q", long)
	}
}

func TestAddressesFromOutside(t *testing.T) {
	for from, want := range map[string]string{
		"/deliveries?q=a": "/deliveries?q=a", "": "/", "//evil.example": "/", "https://evil.example/": "/", `/\evil.example`: "/", "javascript:alert(1)": "/",
		"/a\r\nSet-Cookie: x": "/", "deliveries": "/", "/%2f/x": "/", "/x#y": "/x",
	} {
		if got := local(from); got != want {
			t.Errorf("%q leads to %q, want %q", from, got, want)
		}
	}
}

func TestShellWords(t *testing.T) {
	for text, want := range map[string]string{
		"ep_1": "ep_1", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$(rm -rf /)": "'$(rm -rf /)'", "invoice.*": "'invoice.*'", "--reason": "'--reason'", "a\nb": "'a\nb'", "`x`": "'`x`'",
	} {
		if got := shellQuote(text); got != want {
			t.Errorf("%q became %s, want %s", text, got, want)
		}
	}
}
