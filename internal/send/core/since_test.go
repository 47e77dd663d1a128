package core

import (
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// TestHealthIsSinceItsLastChange: the health that people see says since when, also after a restart.
func TestHealthIsSinceItsLastChange(t *testing.T) {
	w := newWard(t, func(ep *grapnel.Endpoint) {
		ep.CreatedAt, ep.UpdatedAt, ep.Policy.Breaker = start, start, &policy.Breaker{Off: true}
	})
	stored := store.Standing{Endpoint: "ep"}
	outcome := func(status int) {
		t.Helper()
		w.now = w.now.Add(time.Minute)
		if ch := w.end(w.arrive(1)[0], status); ch.Standing != nil {
			stored = *ch.Standing
		}
	}
	is := func(when string, state grapnel.HealthState, since time.Time) {
		t.Helper()
		for _, restarted := range []bool{false, true} {
			if restarted {
				w.core = New(Options{})
				cfg := w.cfg
				w.step(Configured{Endpoint: &cfg, Standing: stored})
				w.step(Loaded{Endpoint: "ep", Limit: 256})
			}
			if h := w.core.Health(w.now, "ep"); h.State != state || !h.Since.Equal(since) {
				t.Errorf("%s (restarted: %v): %s since %s, want %s since %s", when, restarted, h.State, h.Since, state, since)
			}
		}
	}
	is("new", grapnel.HealthHealthy, start)
	outcome(200)
	is("a success", grapnel.HealthHealthy, start)
	outcome(200)
	outcome(500)
	first := w.now
	outcome(500)
	outcome(500)
	is("three failures", grapnel.HealthFailing, first)
	outcome(500)
	is("a fourth", grapnel.HealthFailing, first)
	outcome(200)
	back := w.now
	is("a success after them", grapnel.HealthHealthy, back)
	outcome(200)
	outcome(500)
	outcome(200)
	is("later", grapnel.HealthHealthy, back)
	outcome(429)
	held := w.now
	is("a pause that it asked for", grapnel.HealthThrottled, held)
	until := w.core.Health(w.now, "ep").NextAttemptAt
	w.now = until.Add(time.Minute)
	is("after the pause", grapnel.HealthHealthy, until)
}
