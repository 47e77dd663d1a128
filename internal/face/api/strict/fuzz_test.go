package strict

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"

	"github.com/grapnelhq/grapnel/internal/base/canonical"
)

// FuzzMergePatch: the result is JSON, is what a naive merge of decoded documents gives, and merging
// again changes nothing.
func FuzzMergePatch(f *testing.F) {
	f.Add([]byte(`{"a":{"b":1,"c":[1]},"d":null}`), []byte(`{"a":{"b":null,"e":{"f":null}},"d":{}}`))
	f.Add([]byte(`{"a\u0000/~":1}`), []byte(`{"a\u0000/~":null,"":{"\"":2}}`))
	f.Add([]byte(`[]`), []byte(`{"a":null}`))
	f.Fuzz(func(t *testing.T, target, patch []byte) {
		if Check(target, 64) != nil || Check(patch, 64) != nil {
			return
		}
		var faults Faults
		got := Merge(gjson.ParseBytes(target), gjson.ParseBytes(patch), "/", &faults)
		if faults.Err() != nil {
			return // a name twice, or too many
		}
		want := naive(decoded(t, target), decoded(t, patch))
		if d := cmp.Diff(want, decoded(t, got)); d != "" {
			t.Fatalf("%s with %s: %s", target, patch, d)
		}
		again := Merge(gjson.ParseBytes(got), gjson.ParseBytes(patch), "/", &faults)
		if d := cmp.Diff(decoded(t, got), decoded(t, again)); d != "" {
			t.Fatalf("%s with %s twice: %s", target, patch, d)
		}
	})
}

// naive is the pseudocode of RFC 7396.
func naive(target, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	t, ok := target.(map[string]any)
	if !ok {
		t = map[string]any{}
	}
	for name, v := range p {
		if v == nil {
			delete(t, name)
		} else {
			t[name] = naive(t[name], v)
		}
	}
	return t
}

// FuzzCheckJSON: what passes is what the standard library takes, in UTF-8, and escapes are read as
// it reads them.
func FuzzCheckJSON(f *testing.F) {
	for _, s := range []string{`"\ud83d\ude00"`, `"\ud83d"`, `[1,{"a":"\\"}]`, `-0.1e+5`, "\x00", `"\u12"`, `{"a":1 "b"}`, `["]"]`, `nul`, `1 2`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		ok := Check(raw, 64) == nil
		if want := json.Valid(raw) && utf8.Valid(raw) && !canonical.Deeper(raw, 64); ok != want {
			t.Fatalf("%q: passes: %v, want %v", raw, ok, want)
		}
		if v := gjson.ParseBytes(raw); ok && v.Type == gjson.String {
			var want string
			if err := json.Unmarshal(raw, &want); err != nil {
				t.Fatal(err)
			}
			if wellFormed(v.Raw) && v.Str != want {
				t.Fatalf("%q is read as %q", raw, v.Str)
			}
			if !wellFormed(v.Raw) && !strings.Contains(want, "\uFFFD") {
				t.Fatalf("%q is called half a pair", raw)
			}
		}
	})
}
