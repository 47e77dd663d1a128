package ownership

import (
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/store"
)

// one is an Ownership with one shard.
type one struct{ store.Ownership }

func (one) ShardOf(string) int { return 0 }

// TestALeaseEndsByBothClocks: a machine that was suspended sends nothing although its monotonic
// clock stopped, and a wall clock that is set back prolongs no lease.
func TestALeaseEndsByBothClocks(t *testing.T) {
	wall, steady := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), time.Hour
	s := &Shards{
		env:     Env{Now: func() time.Time { return wall }},
		cluster: Options{Ownership: one{}, Lease: 15 * time.Second, Steady: func() time.Duration { return steady }},
	}
	s.held = map[int]*holding{0: {epoch: 3, until: s.now().add(14 * time.Second), alive: t.Context()}}
	still := s.Still("ep", 3)
	for _, c := range []struct {
		name         string
		wall, steady time.Duration
		sends        bool
	}{
		{"no time has passed", 0, 0, true},
		{"both show 13 s", 13 * time.Second, 13 * time.Second, true},
		{"suspended for a minute", time.Minute, 0, false},
		{"wall clock set back, the lease over", -time.Hour, 14 * time.Second, false},
		{"wall clock set back, the lease not over", -time.Hour, 13 * time.Second, true},
		{"wall clock set forward", time.Hour, time.Second, false},
	} {
		w, st := wall, steady
		wall, steady = wall.Add(c.wall), steady+c.steady
		if ctx, _ := s.Sending(t.Context(), "ep"); (ctx != nil) != c.sends || still() != c.sends {
			t.Errorf("%s: sends %v", c.name, ctx != nil)
		}
		wall, steady = w, st
	}
}
