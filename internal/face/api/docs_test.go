package api

import (
	"fmt"
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

// TestEveryCodeIsDocumented: the table of errors has each code, with its status.
func TestEveryCodeIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range kinds {
		row := regexp.MustCompile(fmt.Sprintf("(?m)^\\| %d \\| [^|]*`%s`", k.status, k.code))
		if !row.Match(page) {
			t.Errorf("api.md does not name %d %s", k.status, k.code)
		}
	}
}
