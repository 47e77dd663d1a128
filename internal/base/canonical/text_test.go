package canonical

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"
)

// TestCanonicalText: the text and its hash are those of every kit.
func TestCanonicalText(t *testing.T) {
	raw, err := os.ReadFile("../../../sdk/conformance/canonical.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []struct {
			Name  string
			Given struct {
				Body       string
				BodyBase64 string `json:"body_base64"`
				Ignore     []string
			}
			Want struct {
				Canonical, SHA256 string
				Error             bool
			}
		}
	}
	if err := json.Unmarshal(raw, &file); err != nil || len(file.Cases) < 80 {
		t.Fatalf("%d cases: %v", len(file.Cases), err)
	}
	for _, c := range file.Cases {
		body := []byte(c.Given.Body)
		if c.Given.BodyBase64 != "" {
			if body, err = base64.StdEncoding.DecodeString(c.Given.BodyBase64); err != nil {
				t.Fatal(err)
			}
		}
		var text []byte
		ignored, err := ParseIgnored(c.Given.Ignore)
		if err == nil {
			text, err = ignored.Text(body)
		}
		sum := sha256.Sum256(text)
		switch {
		case c.Want.Error:
			if err == nil {
				t.Errorf("%s: %q has no canonical form, got %q", c.Name, body, text)
			}
		case err != nil || string(text) != c.Want.Canonical || hex.EncodeToString(sum[:]) != c.Want.SHA256:
			t.Errorf("%s: %q, %v; want %q", c.Name, text, err, c.Want.Canonical)
		}
	}
}

func TestValuesOfADocument(t *testing.T) {
	document := []byte("\n{ \"a\" : [ {\"b\":\"x\\u0041\"} , -1.50 ,true ] , \"\\u0061b\":{\"c\":{}}, \"a\":5,\"]\":\"}\\\"\",\"n\":null,\"\":7 } ")
	for path, want := range map[string]string{
		"a": `[ {"b":"x\u0041"} , -1.50 ,true ]`, "a.0.b": `"x\u0041"`, "a.1": "-1.50", "a.2": "true", "a.3": "", "a.x": "", "a.0": `{"b":"x\u0041"}`,
		"ab.c": "{}", "ab.c.d": "", "]": `"}\""`, "n": "null", "n.x": "", "": "7", "b": "", "a.01": "",
	} {
		got := Get(document, path)
		if string(got.Raw) != want || got.Exists() != (want != "") {
			t.Errorf("%q is %q, want %q", path, got.Raw, want)
		}
		if want != "" && string(document[got.At:got.At+len(want)]) != want {
			t.Errorf("%q is at %d", path, got.At)
		}
	}
	for path, want := range map[string]string{"a.0.b": "xA", "a.1": "-1.50", "a.2": "", "n": "", "a": "", "]": `}"`, "nothing": ""} {
		if got := Get(document, path).Scalar(); got != want {
			t.Errorf("%q names %q, want %q", path, got, want)
		}
	}
	var names string
	for name := range Get(document, "a.0").Members() {
		names += name
	}
	if names != "b" || Get([]byte(" 5 "), "a").Exists() || Get([]byte(`[]`), "0").Exists() || Get([]byte(`{}`), "").Exists() {
		t.Error("members or empty values are wrong")
	}
}
