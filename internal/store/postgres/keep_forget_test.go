package postgres

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// lanesOf counts the rows of lanes.
func lanesOf(t *testing.T, s *Store) (n int) {
	t.Helper()
	if err := s.pool.QueryRow(t.Context(), "SELECT count(*) FROM lane WHERE key <> ''").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestLanesGoWithTheirLastDelivery: of many keys and ids that were used once no row is left,
// whether a day is cleared whole or row by row. A lane stays in which something waits, or whose
// last delivery stays.
func TestLanesGoWithTheirLastDelivery(t *testing.T) {
	t.Parallel()
	for name, extra := range map[string]time.Duration{"row by row": 0, "a whole day": aDay} {
		t.Run(name, func(t *testing.T) {
			s := open(t, blank(t), Options{CallersClock: true, Bounds: Bounds{SweepPage: 7}})
			defer func() { _ = s.Close() }()
			s.days.worth = 0
			day := s.days.known.Load().current
			now := midnight(day).Add(time.Hour)
			const many = 50
			b := store.Batch{Config: version(t, s)}
			for i := range many {
				b.Events = append(b.Events, incomingTo(fmt.Sprint("e", i), fmt.Sprint("k", i), "ep_1"))
			}
			b.Events = append(b.Events, incomingTo("waits", "waits", "ep_1"), incomingTo("late", "late", "ep_1"))
			for i := range b.Events {
				b.Events[i].Event.AcceptedAt = now
			}
			done, err := s.Append(t.Context(), b)
			if err != nil {
				t.Fatal(err)
			}
			finish := func(h store.Head, when time.Time) {
				t.Helper()
				c := deliver(h)
				c.At = when
				if done, err := s.Record(t.Context(), []store.Change{c}); err != nil || !done[0].Applied {
					t.Fatal(done, err)
				}
			}
			for i, h := range done.Heads {
				switch b.Events[i].Event.ID {
				case "waits":
				case "late":
					finish(h, now.Add(20*aDay))
				default:
					finish(h, now)
				}
			}
			cross(t, s)
			keep := store.Keep{Now: now.Add(31 * aDay), For: 30 * aDay, Slack: extra}
			if n, err := s.Purge(t.Context(), keep, 1000); n != many || err != nil {
				t.Fatal(n, err)
			}
			if n := lanesOf(t, s); n != 2 {
				t.Errorf("%d lanes are left, not the two with a delivery", n)
			}
			var names int
			if err := s.pool.QueryRow(t.Context(), "SELECT count(*) FROM event_name").Scan(&names); err != nil || names != 2 {
				t.Errorf("%d names are left (%v), not those of the two events", names, err)
			}
			for key, want := range map[string]int64{"k0": 2, "new": 2, "waits": 2, "late": 2} {
				publish(t, s, incomingTo("then "+key, key, "ep_1"))
				_, list, err := s.Event(t.Context(), store.Everyone(), "", "then "+key)
				if err != nil || list[0].Position != want {
					t.Errorf("the next of %s: %+v, %v, want position %d", key, list, err, want)
				}
			}
		})
	}
}

// TestPositionsRiseDuringPurges: publishers use keys again that are just being forgotten. No
// position of a key is at or below one before.
func TestPositionsRiseDuringPurges(t *testing.T) {
	t.Parallel()
	all := nodes(t, 2)
	keep := store.Keep{Now: at(1000), For: 10 * time.Second}
	config := version(t, all[0])
	over := make(chan struct{})
	var publishing, purging sync.WaitGroup
	for _, s := range all {
		purging.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				if _, err := s.Purge(context.Background(), keep, 1000); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for n := range 4 {
		publishing.Go(func() {
			last := make(map[string]int64)
			for i := range 150 {
				key := fmt.Sprint("k", n, "-", i%2)
				in := incomingTo(fmt.Sprint("e", n, "-", i), key, "ep_1")
				done, err := all[(n+i)%2].Append(context.Background(), store.Batch{Config: config, Events: []store.Incoming{in}})
				if err != nil || len(done.Heads) != 1 {
					t.Error(done, err)
					return
				}
				if h := done.Heads[0]; h.Position <= last[key] {
					t.Errorf("%s: position %d after %d", key, h.Position, last[key])
				}
				last[key] = done.Heads[0].Position
				if _, err := all[i%2].Record(context.Background(), []store.Change{deliver(done.Heads[0])}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	publishing.Wait()
	close(over)
	purging.Wait()
	if _, err := all[0].Purge(t.Context(), keep, 1000); err != nil {
		t.Fatal(err)
	}
	if n := lanesOf(t, all[0]); n != 0 {
		t.Errorf("%d lanes are left", n)
	}
	if counts, err := all[0].Counts(t.Context(), store.Everyone()); err != nil || counts["ep_1"][grapnel.Pending] != 0 {
		t.Error(counts, err)
	}
}
