package ingress

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnelhq/grapnel"
)

// A source reports its refusals with the reason of the last one: for every reason, for the last
// hour, and through changes of the source.
func TestRefusalsAreTold(t *testing.T) {
	w := newWorld(t)
	key := grapnel.Verify{Scheme: "api_key", Secrets: secrets("right888")}
	paused := func(s *grapnel.Source) { s.Paused = true }
	w.source(key)
	begin := w.now
	send := func(n int, headers ...string) {
		for range n {
			w.receiver.Take(httptest.NewRecorder(), request(http.MethodPost, "/in/src_1", `{}`, headers...), "src_1")
		}
	}
	told := func(when string, want Refusals) {
		t.Helper()
		if d := cmp.Diff(want, w.receiver.Refusals("src_1")); d != "" {
			t.Errorf("%s: %s", when, d)
		}
	}
	told("before the first request", Refusals{})
	send(1, "X-Api-Key", "right888")
	told("after one that is taken", Refusals{})
	send(2)
	first := Refusals{LastAt: begin, LastStatus: 401, LastReason: "The request cannot be verified: header X-Api-Key is missing.", LastHour: 2,
		Unverified: 2}
	told("after two", first)
	w.now = begin.Add(30 * time.Minute)
	w.source(key, paused)
	send(1, "X-Api-Key", "right888")
	second := Refusals{LastAt: w.now, LastStatus: 503, LastReason: "The source is paused.", LastHour: 3, Unverified: 2}
	told("when paused", second)
	w.now, second.LastHour, second.Unverified = begin.Add(time.Hour+time.Minute), 1, 0
	told("when the first are an hour ago", second)
	w.now = begin.Add(-time.Hour)
	told("when the clock is set back", second)
	w.now, second.LastHour = begin.Add(1000*time.Hour), 0
	told("long after", second)
	if got := w.receiver.Refusals("src_2"); got != (Refusals{}) {
		t.Errorf("of another source: %v", got)
	}
}

// TestRefusalsOfAClockThatWasAhead count for an hour once it is right, as later ones do.
func TestRefusalsOfAClockThatWasAhead(t *testing.T) {
	var f refusals
	now := time.Date(2026, 11, 23, 9, 23, 34, 0, time.UTC)
	for _, at := range []time.Time{now.Add(24 * time.Hour), now.Add(24*time.Hour + 5*time.Minute), now} {
		f.add(at, &Refusal{Status: http.StatusUnauthorized})
	}
	for after, want := range map[time.Duration]int{0: 3, 59 * time.Minute: 3, 61 * time.Minute: 0} {
		seen := refusals{minutes: f.minutes, unverified: f.unverified, minute: f.minute}
		if got := seen.told(now.Add(after)); got.LastHour != want || got.Unverified != want {
			t.Errorf("after %v: %d in the last hour, %d of them unverified, not %d", after, got.LastHour, got.Unverified, want)
		}
	}
}
