package ingress

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/grapnelhq/grapnel"
)

// TestDeletedSourcesAreForgotten: memory follows the sources that exist, also if no request comes
// for a deleted one. Those that exist keep their counters.
func TestDeletedSourcesAreForgotten(t *testing.T) {
	w := newWorld(t)
	use := func(id string) {
		w.receiver.Take(httptest.NewRecorder(), request(http.MethodPost, "/in/"+id, `{}`, "Content-Encoding", "gzip"), id)
	}
	create := func(n int) string { return w.source(open, func(s *grapnel.Source) { s.ID = fmt.Sprint("src_", n) }) }
	const stay = 50
	for n := range stay {
		use(create(n))
	}
	for n := range 1000 {
		id := create(stay + n)
		use(id)
		delete(w.sources, id)
	}
	held := 0
	w.receiver.sources.Range(func(any, any) bool { held++; return true })
	if held > 3*stay {
		t.Errorf("%d sources are in memory, %d exist", held, stay)
	}
	for n := range stay {
		if told := w.receiver.Refusals(fmt.Sprint("src_", n)); told.LastHour != 1 {
			t.Errorf("source %d: %+v", n, told)
		}
	}
}

// TestTenantThatIsDeleted: its sources take nothing, whether or not a request could be verified, and
// tell the provider so.
func TestTenantThatIsDeleted(t *testing.T) {
	w := newWorld(t)
	w.source(open, func(s *grapnel.Source) { s.OnUnverified = grapnel.Quarantine })
	if a := w.post(`{}`); a.status != http.StatusAccepted {
		t.Fatalf("before: answered %d %s", a.status, a.body)
	}
	w.ends = grapnel.Errorf(grapnel.CodeTenantEnds, "Tenant acme is being deleted.")
	if a := w.post(`{"n":2}`); a.status != http.StatusConflict || a.Detail != "Tenant acme is being deleted." || a.header.Get("Retry-After") != "" {
		t.Errorf("answered %d %s %v", a.status, a.body, a.header)
	}
	if len(w.events) != 1 || len(w.asides) > 0 {
		t.Errorf("%d events, %d set aside", len(w.events), len(w.asides))
	}
}
