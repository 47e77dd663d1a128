package api

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnelhq/grapnel/internal/face/api/openapi"
	"github.com/grapnelhq/grapnel/policy"
)

var update = flag.Bool("update", false, "write golden files instead of comparing with them")

// golden compares with a file, or writes it.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, got, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s is not what it was; if that is meant, run the test with -update and review the change: %s", name, d)
	}
}

func TestDocumentIsTheGoldenOne(t *testing.T) {
	w := newWorld(t)
	r := w.ask("", "GET", "/openapi.json", "")
	if r.StatusCode != 200 || r.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("answered %d %v", r.StatusCode, r.Header)
	}
	golden(t, "openapi.golden.json", r.body)
}

// The clients for TypeScript and Python have types that are written from the document. Their own
// tests compare every byte; this one needs no other language, so it fails in the same change.
func TestClientsAreWrittenFromTheGoldenDocument(t *testing.T) {
	document, err := os.ReadFile("openapi.golden.json")
	if err != nil {
		t.Fatal(err)
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(document))
	for _, name := range []string{"typescript/src/client/schema.ts", "python/src/grapnel/client/types.py"} {
		text, err := os.ReadFile("../../../sdk/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if head, _, _ := strings.Cut(string(text), "\n"); !strings.Contains(head, sum) {
			t.Errorf("sdk/%s was written from another document: run make sdk, and review the change", name)
		}
	}
}

// TestNullsAndExamplesFollowTheirSchemas: values that may be null have null among the values
// allowed, and an example of a parameter has the parameter's type. Linters look at both.
func TestNullsAndExamplesFollowTheirSchemas(t *testing.T) {
	enums, shown := 0, 0
	var walk func(at string, v any)
	walk = func(at string, v any) {
		switch is := v.(type) {
		case []any:
			for i, one := range is {
				walk(fmt.Sprintf("%s/%d", at, i), one)
			}
		case map[string]any:
			values, listed := is["enum"].([]any)
			types, several := is["type"].([]any)
			if listed && several {
				if enums++; slices.Contains(types, any("null")) != slices.Contains(values, nil) {
					t.Errorf("%s: of %v the values are %v", at, types, values)
				}
			}
			schema, _ := is["schema"].(map[string]any)
			if example, there := is["example"]; there && is["in"] != nil {
				_, number := example.(float64)
				if shown++; number != (schema["type"] == "integer" || schema["type"] == "number") {
					t.Errorf("%s: %v is no %v", at, example, schema["type"])
				}
			}
			for name, one := range is {
				if name != "example" && name != "examples" {
					walk(at+"/"+name, one)
				}
			}
		}
	}
	walk("", published31().doc)
	if enums == 0 || shown == 0 {
		t.Errorf("%d values that may be null, and %d examples", enums, shown)
	}
}

func TestDocumentHoldsTogether(t *testing.T) {
	s := published31()
	if s.doc["openapi"] != "3.1.0" {
		t.Errorf("it is OpenAPI %v", s.doc["openapi"])
	}
	raw := string(openapi.Encode(openapi.Document(describeAPI(routes(), &ample))))
	for _, m := range regexp.MustCompile(`"\$ref": "([^"]+)"`).FindAllStringSubmatch(raw, -1) {
		if s.at(s.doc, strings.Split(strings.TrimPrefix(m[1], "#/"), "/")...) == nil {
			t.Errorf("%s leads nowhere", m[1])
		}
	}
	for name := range s.at(s.doc, "components", "schemas").(map[string]any) {
		if !regexp.MustCompile(`^[a-zA-Z0-9._-]+$`).MatchString(name) {
			t.Errorf("a schema cannot be called %q", name)
		}
	}
	if servers, _ := s.doc["servers"].([]any); len(servers) == 0 {
		t.Error("it names no server")
	}
	names := map[string]bool{}
	for _, rt := range routes() {
		op, ok := s.at(s.doc, "paths", rt.path, strings.ToLower(rt.method)).(map[string]any)
		if !ok || op["operationId"] != rt.name || op["summary"] == "" || names[rt.name] {
			t.Errorf("%s %s is documented as %v", rt.method, rt.path, op)
		}
		names[rt.name] = true
		security, said := op["security"].([]any)
		if !said || (rt.scope != "") != (len(security) > 0) {
			t.Errorf("%s: needs the scope %q, and security is %v", rt.name, rt.scope, op["security"])
		}
	}
	for path, item := range s.doc["paths"].(map[string]any) {
		for method, op := range item.(map[string]any) {
			if id, _ := op.(map[string]any)["operationId"].(string); !names[id] {
				t.Errorf("%s %s is documented and does not exist", method, path)
			}
		}
	}
}

// The schema of policies is written by hand; this holds it against the package that reads them.
func TestPolicySchemaIsWhatPoliciesAre(t *testing.T) {
	s := published31()
	schema := s.at(s.doc, "components", "schemas", "Policy")
	for _, p := range policy.Presets() {
		raw, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var v any
		if err := json.Unmarshal(raw, &v); err != nil {
			t.Fatal(err)
		}
		for _, wrong := range s.check(schema, v, "") {
			t.Errorf("%s: %s", p.Name, wrong)
		}
	}
	for name := range s.at(schema, "properties").(map[string]any) {
		if _, err := policy.Parse([]byte(`{"` + name + `":null}`)); err != nil {
			t.Errorf("%s is documented, and policies do not have it: %v", name, err)
		}
	}
	for name := range s.at(s.doc, "components", "schemas", "NewScenario", "properties").(map[string]any) {
		if name == "outage" {
			continue // the only one that has to be there
		}
		if _, err := policy.ParseScenario([]byte(`{"outage":{"duration":"1h"},"`+name+`":null}`), nil); err != nil {
			t.Errorf("%s is documented, and scenarios do not have it: %v", name, err)
		}
	}
}

func TestStatusPageNeedsNothingFromElsewhere(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"/status"} {
		r := w.ask("", "GET", path, "")
		page := string(r.body)
		if r.StatusCode != 200 || r.Header.Get("Content-Type") != "text/html; charset=utf-8" {
			t.Fatalf("%s: answered %d %v", path, r.StatusCode, r.Header)
		}
		csp := r.Header.Get("Content-Security-Policy")
		if !strings.HasPrefix(csp, "default-src 'none'; ") || strings.Contains(csp, "unsafe") || strings.Contains(csp, "http") {
			t.Errorf("%s: the policy is %q", path, csp)
		}
		for _, m := range regexp.MustCompile(`(?s)<style>(.*?)</style>`).FindAllStringSubmatch(page, -1) {
			sum := sha256.Sum256([]byte(m[1]))
			if !strings.Contains(csp, "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'") {
				t.Errorf("%s: the policy %q does not allow the page's own style", path, csp)
			}
		}
		for _, bad := range []string{"<script", "http://", "//cdn", "<img", "<link", "style=", "javascript:"} {
			if strings.Contains(strings.ReplaceAll(page, "http://www.w3.org", ""), bad) {
				t.Errorf("%s: the page has %s", path, bad)
			}
		}
	}
}
