package canonical

import "testing"

// FuzzPath parses arbitrary texts as a path, and looks for them in arbitrary documents.
func FuzzPath(f *testing.F) {
	for _, text := range []string{"$.a[*].b", `$["x"][0]`, "$[", `$["\`, "a.0", `{"a":[1]}`} {
		f.Add(text, []byte(text))
	}
	f.Fuzz(func(t *testing.T, path string, document []byte) {
		if steps, err := parsePath(path); err == nil && len(steps) == 0 {
			t.Fatalf("%q is a path without parts", path)
		}
		if !new(Ignored).Read(document).JSON {
			return
		}
		if v := Get(document, path); v.Exists() && string(document[v.At:v.At+len(v.Raw)]) != string(v.Raw) {
			t.Fatalf("%q of %s is %s at %d", path, document, v.Raw, v.At)
		}
		text, err := new(Ignored).Text(document)
		if err != nil || new(Ignored).Read(text) != new(Ignored).Read(document) {
			t.Fatalf("%s becomes %s (%v)", document, text, err)
		}
	})
}
