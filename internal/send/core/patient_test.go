package core

import (
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// TestPatientOutcomes: an outcome may wait for others only if nothing waits for it: no delivery of
// its key, no retry, no operational event, no late delivery's slot.
func TestPatientOutcomes(t *testing.T) {
	failing, fine := policy.Outcome{Status: 500, Class: policy.ClassStatus5xx}, policy.Outcome{Status: 200, Class: policy.ClassNone}
	for _, c := range []struct {
		name string
		with func(*shop) // beside the attempt
		head store.Head
		out  policy.Outcome
		want bool
	}{
		{"delivered", nil, store.Head{}, fine, true},
		{"delivered after a failure", nil, store.Head{Attempts: 3}, fine, true},
		{"with a key", nil, store.Head{Lane: "a", Position: 1}, fine, false},
		{"failed", nil, store.Head{}, failing, false},
		{"given up", nil, store.Head{Attempts: 1000}, failing, false},
		{"beside late ones", func(s *shop) { s.late("old", 100, time.Minute) }, store.Head{}, fine, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newShop(Options{Slots: 512, PerHost: 512})
			s.endpoint("old", "a", 5*time.Millisecond, 32)
			s.endpoint("new", "b", time.Millisecond, 32)
			s.arrive("old", 1)
			s.arrive("new", 1)
			s.run(time.Second)
			if c.with != nil {
				c.with(s)
			}
			s.next++
			h := c.head
			h.Delivery, h.Event, h.Endpoint, h.Due, h.Anchor, h.CreatedAt = s.next, s.next, "new", s.now, s.now, s.now
			h.Trigger = grapnel.TriggerSchedule
			s.step(Arrived{Heads: []store.Head{h}})
			var got []Change
			for _, e := range s.core.Step(s.now, &Finished{Endpoint: "new", Delivery: h.Delivery, Outcome: c.out,
				Attempt: grapnel.Attempt{StartedAt: s.now}}) {
				if r, is := e.(Record); is {
					got = append(got, *r.Change)
				}
			}
			if len(got) != 1 || got[0].Patient != c.want {
				t.Fatalf("%d changes, want one; patient should be %t: %+v", len(got), c.want, got)
			}
			before := s.core.late.now
			s.now = s.now.Add(time.Hour)
			s.step(Recorded{Changes: got, Results: []store.Changed{{Applied: true, Status: got[0].Status}}})
			if learned := s.core.late.now != before; learned == c.want {
				t.Errorf("that the limit of late deliveries learned of its commit is %t", learned)
			}
		})
	}
}
