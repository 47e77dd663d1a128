package ingress

import (
	"strconv"
	"testing"

	"github.com/grapnelhq/grapnel"
)

// TestLoopsAreRefused: an event counts the servers it has passed, and a request that has passed too
// many creates none.
func TestLoopsAreRefused(t *testing.T) {
	w := newWorld(t)
	w.source(grapnel.Verify{Scheme: "none"})
	for n, header := range []string{"", "1", "8", "none", "-1", "9", "1000"} {
		a := w.post(`{"n":`+strconv.Itoa(n)+`}`, "Grapnel-Hops", header)
		hops, _ := strconv.Atoi(header)
		if hops > 8 {
			if a.status != 422 || w.refused[len(w.refused)-1].Code != CodeLoop {
				t.Errorf("%q hops: %d %s", header, a.status, a.body)
			}
			continue
		}
		if a.status != 202 {
			t.Fatalf("%q hops: %d %s", header, a.status, a.body)
		}
		if ev := w.events[len(w.events)-1]; ev.Hops() != max(hops, 0) {
			t.Errorf("after %q hops the event knows of %d", header, ev.Hops())
		}
	}
	if len(w.events) != 5 {
		t.Errorf("%d events", len(w.events))
	}
}
