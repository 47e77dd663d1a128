package grapnel_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel"
)

func TestMatchType(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"invoice.paid", "invoice.paid", true},
		{"invoice.paid", "invoice.paid.late", false},
		{"invoice.paid", "invoice", false},
		{"invoice.*", "invoice.paid", true},
		{"invoice.*", "invoice.line.added", true},
		{"invoice.*", "invoice", false},
		{"invoice.*", "invoices.paid", false},
		{"*", "a", true},
		{"*", "a.b.c", true},
		{"*.paid", "invoice.paid", true},
		{"*.paid", "a.b.paid", true},
		{"*.paid", "paid", false},
		{"a.*.z", "a.b.z", true},
		{"a.*.z", "a.b.c.z", true},
		{"a.*.z", "a.z", false},
		{"a.*.b.*", "a.x.b.y", true},
		{"a.*.b.*", "a.b.b.b", true},
		{"a.*.b.*", "a.x.b", false},
		{"*.*", "a", false},
		{"*.*", "a.b.c", true},
	} {
		if got := grapnel.MatchType(c.pattern, c.name); got != c.want {
			t.Errorf("%q matches %q: %v", c.pattern, c.name, got)
		}
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]bool{
		"invoice.paid": true, "a": true, "a-b.c_d.E9": true, strings.Repeat("a", 64): true,
		"": false, ".": false, "a.": false, ".a": false, "a..b": false, "a b": false, "ä": false, "a.*": false, "*": false,
		strings.Repeat("a", 65): false, strings.Repeat("a.", 64) + "b": false,
	} {
		if grapnel.ValidType(name) != want {
			t.Errorf("type %q: valid is %v", name, !want)
		}
	}
	for pattern, want := range map[string]bool{"*": true, "a.*": true, "*.b": true, "a*": false, "a.**": false, "": false} {
		if grapnel.ValidPattern(pattern) != want {
			t.Errorf("pattern %q: valid is %v", pattern, !want)
		}
	}
}

// FuzzMatchType: without a star a pattern matches only itself, a single star matches everything,
// and a hostile pattern ends.
func FuzzMatchType(f *testing.F) {
	f.Add("a.*", "a.b")
	f.Add("*.*.*.*", "a.a.a.a.a.a")
	f.Add("a.*.b.*.c", "a.b.b.c.b.c.c")
	f.Add(strings.Repeat("*.", 32)+"b", strings.Repeat("a.", 62)+"a")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if !grapnel.ValidPattern(pattern) || !grapnel.ValidType(name) {
			return
		}
		got := grapnel.MatchType(pattern, name)
		regex := strings.NewReplacer(".", `\.`, "*", `[^.]+(\.[^.]+)*`).Replace(pattern)
		if want := regexp.MustCompile("^" + regex + "$").MatchString(name); got != want {
			t.Errorf("%q matches %q: %v", pattern, name, got)
		}
		if !strings.Contains(pattern, "*") && got != (pattern == name) || pattern == "*" && !got {
			t.Errorf("%q matches %q: %v", pattern, name, got)
		}
	})
}
