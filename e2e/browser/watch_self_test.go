//go:build linux

package browser

import (
	"net/http"
	"strings"
	"testing"
)

// TestTheWatchNotices: a watch that has never found anything proves nothing. This page does
// everything that it must notice.
func TestTheWatchNotices(t *testing.T) {
	t.Parallel()
	address := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Security-Policy", "style-src 'none'")
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(`<p style="color:red">x<script>` + canary + `("ran"); console.error("an error"); alert("a dialog");
			fetch("http://127.0.0.2:9/"); fetch("/missing"); setTimeout(() => { undefined.x; });</script>`))
	})
	p := openTab(t, address)
	p.visit("/")
	want := map[string]bool{"an injected script ran: ran": false, "console.error: an error": false, "a dialog opened": false, "another host: http://127.0.0.2": false,
		"status of 404": false, "a script failed": false, "Content-Security-Policy was violated": false}
	if !eventually(p.ctx, patience, func() bool {
		missing := false
		for _, fault := range p.take() {
			for text := range want {
				want[text] = want[text] || strings.Contains(fault, text)
			}
		}
		for _, found := range want {
			missing = missing || !found
		}
		return !missing
	}) {
		t.Errorf("noticed: %v", want)
	}
	p.allow(".")
}
