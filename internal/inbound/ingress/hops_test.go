package ingress

import (
	"strconv"
	"testing"

	"github.com/grapnelhq/grapnel"
	debts "github.com/grapnelhq/grapnel/internal/base/allowance"
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

// TestLoopsAreBoundedInWidth: a loop in which each event becomes five at every turn, by a source
// without deduplication, ends after FarBurst of its events; 5^8 would be 390,000. Requests that
// passed few servers, and other tenants, are not affected, and time allows more.
func TestLoopsAreBoundedInWidth(t *testing.T) {
	w := newWorld(t)
	w.receiver.o.Bounds.FarBurst = 50
	w.receiver.far = debts.New(50*w.receiver.o.Bounds.FarPause, mostFar)
	w.source(grapnel.Verify{Scheme: "none"}, func(s *grapnel.Source) { s.Dedupe.By = []grapnel.DedupeBy{} })
	sent := 0
	for turn := []int{0}; len(turn) > 0; {
		var next []int
		for _, hops := range turn {
			sent++
			if a := w.post(`{}`, "Grapnel-Hops", strconv.Itoa(hops)); a.status == 202 {
				for range 5 {
					next = append(next, hops+1)
				}
			} else if a.status != 422 || w.refused[len(w.refused)-1].Code != CodeLoop {
				t.Fatalf("%d hops: %d %s", hops, a.status, a.body)
			}
		}
		turn = next
	}
	// of one event, five and twenty-five, and then of as many as the tenant may have from far
	if want := 1 + 5 + 25 + 50; len(w.events) != want || sent != 1+5*want {
		t.Errorf("%d events of %d requests, want %d", len(w.events), sent, want)
	}
	for hops, status := range map[string]int{"2": 202, "": 202, "3": 422} {
		if a := w.post(`{}`, "Grapnel-Hops", hops); a.status != status {
			t.Errorf("then %q hops: %d %s", hops, a.status, a.body)
		}
	}
	w.now = w.now.Add(w.receiver.o.Bounds.FarPause)
	for _, status := range []int{202, 422} {
		if a := w.post(`{}`, "Grapnel-Hops", "3"); a.status != status {
			t.Errorf("later: %d %s, want %d", a.status, a.body, status)
		}
	}
}
