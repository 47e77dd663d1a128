package core

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/base/rapidtest"
	"github.com/grapnelhq/grapnel/internal/store"
)

// TestDegradedIsAPartOfTheFirstAttempts: an endpoint is degraded once at least 5 percent of its first
// attempts in the last hour failed, of 10 or more, and 3 or more of them; until a number is a tenth
// below its limit. A restart changes neither that nor since when.
func TestDegradedIsAPartOfTheFirstAttempts(t *testing.T) {
	rapidtest.Check(t, func(r *rapid.T) {
		limits := bounds.Fill(Degraded{})
		if rapid.Bool().Draw(r, "tiny") {
			limits = bounds.Tiny[Degraded](rapid.Uint64Range(1, 9).Draw(r, "seed"))
		}
		w := newWard(t, func(ep *grapnel.Endpoint) { ep.CreatedAt, ep.UpdatedAt = start, start })
		stored := store.Standing{Endpoint: "ep"}
		begin := func() {
			cfg := w.cfg
			w.core = New(Options{Bounds: Bounds{Degraded: limits}})
			w.step(Configured{Endpoint: &cfg, Standing: stored})
			w.step(Loaded{Endpoint: "ep", Limit: 256})
		}
		begin()
		degraded, since := false, start
		for range rapid.IntRange(1, 20).Draw(r, "minutes") {
			w.now = w.now.Add(time.Minute)
			if rapid.IntRange(0, 4).Draw(r, "restarted") == 0 {
				begin()
			} else {
				f := Firsts{Made: rapid.IntRange(0, 60).Draw(r, "made")}
				f.Failed = rapid.IntRange(0, min(f.Made, 6)).Draw(r, "failed")
				in := Counted{map[string]Firsts{"elsewhere": {9, 9}}}
				if f.Failed > 0 {
					in.Failed["ep"] = f
				} else {
					f.Made = 0 // such endpoints are not in the input
				}
				w.step(in)
				if w.core.judged["elsewhere"] {
					r.Fatal("an endpoint of another node is remembered")
				}
				for _, rec := range of[Record](w.out) {
					stored = *rec.Change.Standing
					w.step(Recorded{Changes: []Change{*rec.Change}, Results: []store.Changed{{Applied: true}}})
				}
				of := func(slack float64) bool {
					part := 1 - slack/100
					return float64(f.Made) >= part*float64(limits.Firsts) && float64(f.Failed) >= part*float64(limits.Failed) &&
						float64(100*f.Failed) >= part*float64(limits.Percent*f.Made)-1e-9
				}
				if was := degraded; of(0) || degraded && !of(float64(limits.Slack)) {
					if degraded = of(0); was != degraded {
						since = w.now
					}
				}
			}
			want := grapnel.HealthHealthy
			if degraded {
				want = grapnel.HealthDegraded
			}
			if h := w.core.Health(w.now, "ep"); h.State != want || !h.Since.Equal(since) {
				r.Fatalf("%s since %s, want %s since %s (%d of %d failed)", h.State, h.Since, want, since, h.FirstFailed, h.FirstAttempts)
			}
		}
	})
}

// TestDegradedIsTheLeastOfTheTroubles: an endpoint that is degraded and failing is failing, and
// degraded again after a success, since that.
func TestDegradedIsTheLeastOfTheTroubles(t *testing.T) {
	w := newWard(t, func(ep *grapnel.Endpoint) { ep.CreatedAt, ep.UpdatedAt = start, start })
	counted := func(f Firsts) {
		w.now = w.now.Add(time.Minute)
		w.step(Counted{map[string]Firsts{"ep": f}})
		for _, r := range of[Record](w.out) {
			w.step(Recorded{Changes: []Change{*r.Change}, Results: []store.Changed{{Applied: true}}})
		}
	}
	is := func(state grapnel.HealthState, since time.Time, reason string) {
		t.Helper()
		if h := w.core.Health(w.now, "ep"); h.State != state || !h.Since.Equal(since) || h.Reason != reason {
			t.Errorf("%s since %s, %q; want %s since %s, %q", h.State, h.Since, h.Reason, state, since, reason)
		}
	}
	outcome := func(status int) {
		w.now = w.now.Add(time.Second)
		w.end(w.arrive(1)[0], status)
	}
	outcome(200)
	counted(Firsts{51, 7})
	began, text := w.now, "7 of 51 first attempts failed in the last hour"
	is(grapnel.HealthDegraded, began, text)
	if n := w.core.States(w.now)[grapnel.HealthDegraded]; n != 1 {
		t.Errorf("%d endpoints are counted as degraded", n)
	}
	outcome(422)
	first := w.now
	outcome(422)
	outcome(422)
	is(grapnel.HealthFailing, first, "")
	outcome(200)
	is(grapnel.HealthDegraded, w.now, text)
	w.reconfigure(func(ep *grapnel.Endpoint) { ep.Status = grapnel.EndpointPaused })
	if h := w.core.Health(w.now, "ep"); h.State != grapnel.HealthPaused {
		t.Errorf("a paused endpoint is %s", h.State)
	}
	if !slices.Contains(grapnel.HealthStates(), grapnel.HealthDegraded) {
		t.Error("metrics do not count degraded endpoints")
	}
}
