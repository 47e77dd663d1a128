package web

import (
	"bytes"
	"compress/gzip"
	"html"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"
	"testing"
)

// TestAssets: the script stays small, nothing is loaded from elsewhere, and a file is kept by
// browsers under the address that pages give and under no other.
func TestAssets(t *testing.T) {
	s := newSite(t, nil)
	var zipped bytes.Buffer
	for name, text := range s.web.assets.files {
		z := gzip.NewWriter(&zipped)
		if _, err := z.Write(text); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		rest := strings.ReplaceAll(string(text), `xmlns="http://www.w3.org/2000/svg"`, "")
		for _, bad := range []string{"http:", "https:", "@import", "eval(", "new Function", "document.write"} {
			if strings.Contains(rest, bad) {
				t.Errorf("%s contains %s", name, bad)
			}
		}
		w := s.ask("GET", "/assets/"+name+"?"+s.web.assets.marks[name], nil)
		if w.Code != http.StatusOK || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") || w.Header().Get("Content-Type") == "" {
			t.Errorf("%s: answered %d %v", name, w.Code, w.Header())
		}
		if w := s.ask("GET", "/assets/"+name+"?old", nil); w.Code != http.StatusOK || w.Header().Get("Cache-Control") != "no-cache" {
			t.Errorf("%s, at an old address: answered %d %v", name, w.Code, w.Header())
		}
	}
	if zipped.Len() > 50<<10 {
		t.Errorf("all files have %d bytes, each compressed", zipped.Len())
	}
	if w := s.ask("GET", "/assets/app.html", nil); w.Code != http.StatusNotFound {
		t.Errorf("a file that does not exist: answered %d", w.Code)
	}
}

// loads are the attributes by which a page loads something or sends a form.
var loads = regexp.MustCompile(`(?i)\s(?:src|srcset|href|xlink:href|action|formaction|poster|data|ping|background|manifest|cite)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>"']+))`)

// TestNoOutsideHost: no page names another host in what a browser loads, follows or sends, whatever
// the data are; links lead to paths of this server.
func TestNoOutsideHost(t *testing.T) {
	s := newSite(t, nil)
	seen := 0
	check := func(target, body string) {
		for _, found := range loads.FindAllStringSubmatch(body, -1) {
			to := html.UnescapeString(found[1] + found[2] + found[3])
			u, err := url.Parse(to)
			if err != nil || u.Scheme != "" || u.Host != "" || strings.HasPrefix(to, "//") || strings.HasPrefix(to, `\`) {
				t.Errorf("%s leads to %s", target, to)
			}
			seen++
		}
		for _, bad := range []string{"<base", "<iframe", "<object", "<embed", "@import", "url("} {
			if strings.Contains(body, bad) {
				t.Errorf("%s contains %s", target, bad)
			}
		}
	}
	check("/login", s.ask("GET", "/login", nil).Body.String())
	s.signIn()
	for _, target := range targets() {
		check(target, s.ask("GET", target, nil).Body.String())
	}
	if seen < 10*len(targets()) {
		t.Errorf("only %d addresses were seen", seen)
	}
	for name, text := range s.web.assets.files {
		for _, bad := range []string{"url(", "//www", "fetch(\"http", "importScripts", "WebSocket", "sendBeacon"} {
			if strings.Contains(strings.ReplaceAll(string(text), `"http://www.w3.org/2000/svg"`, ""), bad) {
				t.Errorf("%s contains %s", name, bad)
			}
		}
	}
}

// TestAssetsAreSmall: all that a page loads besides itself is below 50 KB as a browser gets it from
// a proxy that compresses.
func TestAssetsAreSmall(t *testing.T) {
	s := newSite(t, nil)
	var small bytes.Buffer
	z := gzip.NewWriter(&small)
	for _, text := range s.web.assets.files {
		if _, err := z.Write(text); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil || small.Len() > 50<<10 {
		t.Errorf("assets have %d bytes compressed, %v", small.Len(), err)
	}
}

// TestTemplatesHaveNamesOfTheirOwn: all templates are one set, in which the later of two with the
// same name replaces the other without a word.
func TestTemplatesHaveNamesOfTheirOwn(t *testing.T) {
	files, err := fs.Glob(templateFiles, "templates/*.html")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	in := map[string]string{}
	for _, file := range files {
		text, err := templateFiles.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		names := []string{path.Base(file)}
		for _, found := range regexp.MustCompile(`\{\{-? *(?:define|block) "([^"]+)"`).FindAllSubmatch(text, -1) {
			names = append(names, string(found[1]))
		}
		for _, name := range names {
			if other := in[name]; other != "" {
				t.Errorf("%s and %s both define %q", other, file, name)
			}
			in[name] = file
		}
	}
	for _, parsed := range templates().Templates() {
		if in[parsed.Name()] == "" {
			t.Errorf("the set has %q, which was not found in the files", parsed.Name())
		}
	}
}
