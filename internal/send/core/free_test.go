package core

import (
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
)

// TestReceiversFaultsAreNotOurs: an attempt is free only if nothing but this node held it back. The
// promise of freshness counts free attempts alone.
func TestReceiversFaultsAreNotOurs(t *testing.T) {
	fine := policy.Outcome{Status: 200, Class: policy.ClassNone}
	for _, c := range []struct {
		name  string
		plays func(*shop)
		free  int
		all   int
	}{
		{"healthy", func(s *shop) { s.endpoint("a", "t", time.Millisecond, 32); s.pass(); s.arrive("a", 5) }, 5, 5},
		{"slow, one at a time", func(s *shop) { s.endpoint("a", "t", 5*time.Second, 1); s.pass(); s.arrive("a", 4) }, 1, 4},
		{"attempted before", func(s *shop) { s.endpoint("a", "t", time.Millisecond, 32); s.pass(); s.again("a", 4) }, 0, 4},
		{"a replay", func(s *shop) { s.endpoint("a", "t", time.Millisecond, 32); s.pass(); s.replay("a", 4) }, 0, 4},
		{"behind its key", func(s *shop) {
			s.endpoint("a", "t", time.Millisecond, 32)
			s.pass()
			heads := s.made("a", 1, 0, grapnel.TriggerSchedule)
			s.pass()
			heads[0].Anchor = s.now // it became the head now
			s.step(Arrived{Heads: heads})
		}, 0, 1},
		{"the circuit is open", func(s *shop) {
			s.endpoint("a", "t", time.Millisecond, 1)
			s.pass()
			s.outcome = func(Attempt) policy.Outcome { return policy.Outcome{Status: 500, Class: policy.ClassStatus5xx} }
			s.arrive("a", 30)
			s.run(time.Minute)
			s.outcome = func(Attempt) policy.Outcome { return fine }
			s.seen = nil
			s.arrive("a", 3)
		}, 0, 3},
		// The node has one slot and an endpoint of another tenant waits for it: that is the node's.
		{"the node has no slot", func(s *shop) {
			s.endpoint("a", "t", 3*time.Second, 32)
			s.endpoint("b", "u", time.Millisecond, 32)
			s.pass()
			s.arrive("a", 1)
			s.arrive("b", 1)
		}, 2, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			slots := 64
			if c.name == "the node has no slot" {
				slots = 1
			}
			s := newShop(Options{Slots: slots})
			c.plays(s)
			s.run(10 * time.Minute)
			free := 0
			for _, is := range s.seen[:min(len(s.seen), c.all)] {
				if is {
					free++
				}
			}
			if free != c.free || len(s.seen) < c.all {
				t.Errorf("%d of %d attempts are free, want %d of %d", free, len(s.seen), c.free, c.all)
			}
		})
	}
}

// pass lets a second pass, so that later deliveries are younger than the endpoint.
func (s *shop) pass() { s.run(time.Second) }
