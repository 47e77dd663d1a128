package api

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDocumentedRequests: every request that a page shows is one that a route takes, with query
// parameters that the route knows.
func TestDocumentedRequests(t *testing.T) {
	mux, byPattern := http.NewServeMux(), map[string]*route{}
	all := routes()
	for i := range all {
		rt := &all[i]
		for _, path := range rt.paths() {
			mux.HandleFunc(rt.method+" "+path, func(http.ResponseWriter, *http.Request) {})
			byPattern[rt.method+" "+path] = rt
		}
	}
	pages, err := filepath.Glob("../../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	guides, err := filepath.Glob("../../../docs/guides/*.md")
	if err != nil {
		t.Fatal(err)
	}
	pages = append(pages, guides...)
	request := regexp.MustCompile("\\b(GET|POST|PATCH|PUT|DELETE) +(/[^ `\\n|)]*)")
	seen := 0
	for _, page := range append(pages, "../../../README.md", "../../../GUARANTEES.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range request.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(found[2], "?x=1") || strings.HasPrefix(found[2], "/hooks") {
				continue // what receivers get
			}
			seen++
			at := filepath.Base(page) + ": " + found[0]
			target, err := url.Parse(strings.TrimRight(found[2], ".,;:"))
			if err != nil {
				t.Errorf("%s: %v", at, err)
				continue
			}
			_, pattern := mux.Handler(httptest.NewRequest(found[1], (&url.URL{Path: target.Path}).String(), nil))
			rt := byPattern[pattern]
			if rt == nil {
				t.Errorf("%s: there is no such route", at)
				continue
			}
			for name := range target.Query() {
				if !slices.ContainsFunc(rt.query, func(p param) bool { return p.name == name }) {
					t.Errorf("%s: there is no parameter %s", at, name)
				}
			}
		}
	}
	if seen < 60 {
		t.Errorf("only %d requests are shown", seen)
	}
}

// TestEveryCodeIsDocumented: the reference's list of problems has each code, with its status.
func TestEveryCodeIsDocumented(t *testing.T) {
	listed := map[any]any{}
	for _, p := range published31().doc["x-problems"].([]any) {
		is := p.(map[string]any)
		if listed[is["code"]] = is["status"]; is["hint"] == "" || is["title"] == "" {
			t.Errorf("%v does not say what to do", is)
		}
	}
	for _, k := range kinds {
		if listed[string(k.code)] != float64(k.status) {
			t.Errorf("the reference has %v for %s, want %d", listed[string(k.code)], k.code, k.status)
		}
	}
}
