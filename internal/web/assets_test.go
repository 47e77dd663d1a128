package web

import (
	"net/http"
	"strings"
	"testing"
)

// TestAssets: the script stays small, nothing is loaded from elsewhere, and a file is kept by
// browsers under the address that pages give and under no other.
func TestAssets(t *testing.T) {
	s := newSite(t, nil)
	for name, text := range s.web.assets.files {
		if strings.HasSuffix(name, ".js") && len(text) > 10<<10 {
			t.Errorf("%s has %d bytes", name, len(text))
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
	if w := s.ask("GET", "/assets/app.html", nil); w.Code != http.StatusNotFound {
		t.Errorf("a file that does not exist: answered %d", w.Code)
	}
}
