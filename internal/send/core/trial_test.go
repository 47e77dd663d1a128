package core

import (
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// TestATestIsAttemptedOnce: whatever a test is answered, it has one attempt, its failure is no dead
// letter and no operational event, and the endpoint's health, circuit and status stay as they were.
func TestATestIsAttemptedOnce(t *testing.T) {
	for _, answer := range []policy.Outcome{{Status: 503, Class: policy.ClassStatus5xx}, {Status: 410, Class: policy.ClassStatus4xx},
		{Status: 429, Class: policy.ClassStatus429, RetryAfter: time.Hour}, {Class: policy.ClassTimeout},
		{Status: 500, Class: policy.ClassStatus5xx, Wish: policy.WishDisable}, {Status: 500, Class: policy.ClassStatus5xx, Wish: policy.WishStop}} {
		s := newShop(Options{})
		s.endpoint("ep", "acme", time.Millisecond, 1)
		s.arrive("ep", 1) // a success, so the endpoint is healthy
		s.run(time.Second)
		before := s.core.Health(s.now, "ep")
		var ends []store.Change
		s.outcome = func(Attempt) policy.Outcome { return answer }
		s.recorded = func(c store.Change) store.Changed {
			ends = append(ends, c)
			return store.Changed{Applied: true, Status: c.Status}
		}
		const tests = 20 // enough to open a circuit
		s.heads("ep", tests, 0, grapnel.TriggerTest)
		s.run(200 * time.Hour)
		if s.got["ep"] != 1+tests || len(ends) != tests {
			t.Errorf("%v: %d attempts and %d changes of %d tests", answer, s.got["ep"]-1, len(ends), tests)
		}
		for _, c := range ends {
			if c.Status != grapnel.Discarded || c.Attempt.Decision != policy.Fail || !c.Attempt.NextAttemptAt.IsZero() || c.Standing != nil {
				t.Errorf("%v: a test ends as %s, decision %s, standing %v", answer, c.Status, c.Attempt.Decision, c.Standing)
			}
		}
		if after := s.core.Health(s.now, "ep"); after != before {
			t.Errorf("%v: health was %+v and is %+v", answer, before, after)
		}
	}
}

// TestATestDisablesNothing: a success with webhook-delivery: disable disables, unless it answers a
// test.
func TestATestDisablesNothing(t *testing.T) {
	for trigger, want := range map[grapnel.Trigger]grapnel.HealthState{grapnel.TriggerTest: grapnel.HealthHealthy,
		grapnel.TriggerSchedule: grapnel.HealthDisabled} {
		s := newShop(Options{})
		s.endpoint("ep", "acme", time.Millisecond, 1)
		s.outcome = func(Attempt) policy.Outcome {
			return policy.Outcome{Status: 200, Class: policy.ClassNone, Wish: policy.WishDisable}
		}
		s.heads("ep", 1, 0, trigger)
		s.run(time.Minute)
		if got := s.core.Health(s.now, "ep").State; got != want || s.got["ep"] != 1 {
			t.Errorf("after %d attempts by %s the endpoint is %s", s.got["ep"], trigger, got)
		}
	}
}
