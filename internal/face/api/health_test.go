package api

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
	"github.com/grapnelhq/grapnel/wire"
)

// counting is a history that says how much waits, and counts how often it is asked.
type counting struct {
	History
	waiting, asked, limit int
}

func (h *counting) Waiting(_ context.Context, _ string, limit int) (int, error) {
	h.asked, h.limit = h.asked+1, limit
	return min(h.waiting, limit), nil
}

func drain(held int, perSecond float64) string {
	return policy.DrainTime(held, perSecond).Round(100 * time.Millisecond).String()
}

// Each state has its reason, the number of held deliveries, and how long they will take.
func TestHealthOfAnEndpoint(t *testing.T) {
	history := &counting{waiting: 412}
	w := newWorld(t, func(o *Options) { history.History = o.History; o.History = history })
	id := w.endpoint(admin, "")
	since, probe := w.clock.Add(-8*time.Minute), w.clock.Add(12*time.Second)
	for _, c := range []struct {
		name   string
		health grapnel.Health
		want   map[string]any
	}{
		{"unknown", grapnel.Health{}, map[string]any{"state": "unknown", "reason": nil, "held": 0.0, "drain_estimate": nil}},
		{"healthy", grapnel.Health{State: grapnel.HealthHealthy, Since: since, InFlight: 2, Waiting: 3, NextAttemptAt: probe, PerSecond: 10},
			map[string]any{"state": "healthy", "reason": nil, "since": since.Format(wire.TimeLayout), "in_flight": 2.0, "waiting": 3.0, "held": 0.0,
				"next_attempt_at": probe.Format(wire.TimeLayout), "drain_estimate": nil}},
		{"with strikes", grapnel.Health{State: grapnel.HealthFailing, Strikes: 50, FailingSince: since},
			map[string]any{"strikes": 50.0, "failing_since": since.Format(wire.TimeLayout),
				"reason": "no attempt has succeeded since 2026-01-02T02:56:05Z; consecutive failures that count towards disabling it: 50"}},
		{"failing", grapnel.Health{State: grapnel.HealthFailing, FailingSince: since}, map[string]any{"strikes": 0.0,
			"reason": "no attempt has succeeded since 2026-01-02T02:56:05Z"}},
		{"open", grapnel.Health{State: grapnel.HealthOpen, Reason: "the endpoint has failed since then; only probes are sent",
			Since: since, NextProbeAt: probe, NextAttemptAt: probe, PerSecond: 20},
			map[string]any{"state": "open", "reason": "the endpoint has failed since then; only probes are sent; the next probe is not before 2026-01-02T03:04:17Z",
				"since": since.Format(wire.TimeLayout), "held": 412.0, "held_more": false,
				"next_probe_at": probe.Format(wire.TimeLayout), "drain_estimate": drain(412, 20)}},
		{"open, it never took anything", grapnel.Health{State: grapnel.HealthOpen, Reason: "r"},
			map[string]any{"held": 412.0, "drain_estimate": nil}},
		{"recovering", grapnel.Health{State: grapnel.HealthRecovering, Reason: "r", PerSecond: 1000},
			map[string]any{"state": "recovering", "reason": "r", "held": 412.0, "drain_estimate": drain(412, 1000)}},
		{"throttled", grapnel.Health{State: grapnel.HealthThrottled, Reason: "r", PerSecond: 20},
			map[string]any{"state": "throttled", "held": 412.0, "drain_estimate": drain(412, 20)}},
		{"paused", grapnel.Health{State: grapnel.HealthPaused, Reason: "r", PerSecond: 20},
			map[string]any{"state": "paused", "held": 412.0, "drain_estimate": drain(412, 20)}},
		{"disabled", grapnel.Health{State: grapnel.HealthDisabled, Reason: "r", PerSecond: 20},
			map[string]any{"state": "disabled", "held": 412.0, "drain_estimate": nil}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.engine.health[id] = c.health
			for _, got := range []any{w.must(200, "GET", "/v1/endpoints/"+id, ""), w.must(200, "GET", "/v1/endpoints", "")["data"].([]any)[0]} {
				health := got.(map[string]any)["health"].(map[string]any)
				for field, want := range c.want {
					if d := cmp.Diff(want, health[field]); d != "" {
						t.Errorf("%s: %s", field, d)
					}
				}
			}
		})
	}
}

// A list asks the engine once for all its endpoints, and the store only about those that are not
// well.
func TestHealthInListsIsCheap(t *testing.T) {
	history := &counting{waiting: 7}
	w := newWorld(t, func(o *Options) { history.History = o.History; o.History = history })
	var ids []string
	for range 40 {
		ids = append(ids, w.endpoint(admin, ""))
	}
	w.engine.health[ids[3]] = grapnel.Health{State: grapnel.HealthOpen, Reason: "r"}
	before := w.engine.asked.Load()
	list := w.must(200, "GET", "/v1/endpoints?limit=500", "")["data"].([]any)
	for _, one := range list {
		ep := one.(map[string]any)
		want := map[bool]string{false: "healthy 0", true: "open 7"}[ep["id"] == ids[3]]
		if h := ep["health"].(map[string]any); fmt.Sprint(h["state"], " ", h["held"]) != want {
			t.Errorf("%s is shown as %v, want %s", ep["id"], h, want)
		}
	}
	if n := w.engine.asked.Load() - before; n != 1 || history.asked != 1 || history.limit != store.MaxWaiting+1 {
		t.Errorf("the engine was asked %d times, the store %d times, up to %d", n, history.asked, history.limit)
	}
	// The same for deliveries.
	for range 2 {
		w.must(202, "POST", "/v1/events", `{"type":"a","data":1}`)
	}
	before = w.engine.asked.Load()
	if list := w.must(200, "GET", "/v1/deliveries?limit=500", "")["data"].([]any); len(list) != 80 {
		t.Fatalf("there are %d deliveries", len(list))
	}
	if n := w.engine.asked.Load() - before; n != 1 {
		t.Errorf("the engine was asked %d times", n)
	}
}

func TestHeldIsCountedSoFar(t *testing.T) {
	history := &counting{}
	w := newWorld(t, func(o *Options) { history.History = o.History; o.History = history })
	id := w.endpoint(admin, "")
	w.engine.health[id] = grapnel.Health{State: grapnel.HealthOpen, Reason: "r", PerSecond: 1000}
	type shown struct {
		held float64
		more bool
	}
	for waiting, want := range map[int][2]shown{
		0: {{0, false}, {0, false}}, 10_000: {{10_000, false}, {10_000, false}}, 10_001: {{10_001, false}, {10_000, true}},
		1_000_000: {{1_000_000, false}, {10_000, true}}, 5_000_000: {{1_000_000, true}, {10_000, true}},
	} {
		history.waiting = waiting
		for i, got := range []any{w.must(200, "GET", "/v1/endpoints/"+id, ""), w.must(200, "GET", "/v1/endpoints", "")["data"].([]any)[0]} {
			h := got.(map[string]any)["health"].(map[string]any)
			if h["held"] != want[i].held || h["held_more"] != want[i].more || h["drain_estimate"] != drain(int(want[i].held), 1000) {
				t.Errorf("%d wait: shown as %v, want %+v", waiting, h, want[i])
			}
		}
	}
}
