package api

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel"
)

// TestQueriesOfURLsAreHidden: like values of headers, from read keys, viewers, operators and
// portals that only read, on every route that they may read; callers who may change an endpoint see
// them.
func TestQueriesOfURLsAreHidden(t *testing.T) {
	w := newWorld(t)
	w.queues()
	mine := w.settle(acmeAdmin, "mine")
	at := "/v1/endpoints/" + mine.endpoint
	const url = "https://a.example/hook?token=query-canary&plain-canary&x="
	w.as(acmeAdmin, 200, "PATCH", at, fmt.Sprintf(`{"url":%q,"description":""}`, url))
	w.as(acmeAdmin, 202, "POST", "/v1/events", `{"type":"mine.made","data":{}}`)
	w.attempt(w.newest(t), 1, 503, w.clock)
	read := scoped(grapnel.ScopeRead) + "_acme"
	readers := []string{read, w.person(grapnel.RoleViewer), w.person(grapnel.RoleOperator),
		w.pass([]grapnel.Scope{grapnel.ScopeRead, grapnel.ScopePayloadRead, grapnel.ScopeReplay})}
	seen := 0
	for _, rt := range routes() {
		for _, path := range rt.paths() {
			if !slices.Contains([]grapnel.Scope{grapnel.ScopeRead, grapnel.ScopeReplay}, rt.scope) || strings.HasPrefix(path, "/metrics") {
				continue
			}
			for _, reader := range readers {
				r := w.ask(reader, rt.method, fill(path, mine.ids()), bodies()[rt.name])
				if body := string(r.body); strings.Contains(body, "query-canary") || strings.Contains(body, "plain-canary") {
					t.Errorf("%s %s shows the query: %s", rt.method, path, r.body)
				}
				if strings.Contains(string(r.body), "a.example/hook") {
					seen++
				}
			}
		}
	}
	if seen < 2*len(readers) {
		t.Errorf("the URL is shown %d times", seen)
	}
	const hidden = "https://a.example/hook?token=[redacted]&[redacted]&x=[redacted]"
	for key, want := range map[string]string{read: hidden, readers[1]: hidden, acmeAdmin: url, w.person(grapnel.RoleDeveloper): url,
		w.pass([]grapnel.Scope{grapnel.ScopeRead, grapnel.ScopeEndpointsWrite}): url} {
		if got := w.as(key, 200, "GET", at, "")["url"]; got != want {
			t.Errorf("%.20s sees %v", key, got)
		}
	}
}
