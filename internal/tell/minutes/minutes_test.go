package minutes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/rapidtest"
	"github.com/grapnelhq/grapnel/internal/store"
)

// ended is a store in which deliveries end.
type ended struct {
	all  []end
	most int // endpoints that have a name; 0: all
	down bool
}

type end struct {
	at       time.Time
	endpoint string
	as       grapnel.Totals
}

// ends are what a delivery's end can add to each kind of count.
var ends = []grapnel.Totals{
	{Delivered: 1, Attempts: 1, FirstAttempts: 1, FirstAttemptSuccess: 1},
	{Attempts: 1, FirstAttempts: 1, Classes: grapnel.ClassCounts{1}, Retries: grapnel.ClassCounts{1}},
	{Delivered: 1, Attempts: 3, Retried: 1},
	{Failed: 1, Attempts: 2, Retried: 1, Classes: grapnel.ClassCounts{1}},
	{Dropped: 1, Tries: grapnel.Tries{1}},
	{Discarded: 1, Attempts: 1},
	{Skipped: 1, Tries: grapnel.Tries{1}},
}

func (s *ended) Totals(_ context.Context, _ store.Scope, q store.TotalsQuery) ([]grapnel.Bucket, error) {
	if s.down {
		return nil, errors.New("down")
	}
	sums := store.NewSums(&q)
	for _, e := range s.all {
		if !e.at.Before(q.From) && e.at.Before(q.To) {
			sums.Add(e.at, e.endpoint, &e.as)
		}
	}
	list := sums.List()
	if s.most > 0 {
		list = store.Busiest(list, s.most)
	}
	return list, nil
}

var noon = time.Date(2026, 1, 2, 11, 30, 20, 0, time.UTC)

func keeper(s *ended, now *time.Time, b Bounds) *Keeper {
	return New(Options{Bounds: b, Store: s, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return *now }})
}

// TestMinutesAreWhatEndedInThem: each known minute of each endpoint has what ended in it, also over
// the end of an hour, and the known ones follow each other up to the last.
func TestMinutesAreWhatEndedInThem(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		s, now := &ended{most: rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "named")}, noon
		b := Bounds{Minutes: rapid.IntRange(1, 60).Draw(t, "minutes"), Rows: rapid.SampledFrom([]int{3, 1000}).Draw(t, "rows")}
		k := keeper(s, &now, b)
		gap := time.Time{}
		for range rapid.IntRange(1, 70).Draw(t, "readings") {
			s.down = rapid.IntRange(0, 19).Draw(t, "down") == 0
			if err := k.Read(t.Context()); (err != nil) != s.down {
				t.Fatalf("read: %v", err)
			}
			if s.down {
				gap = now
			}
			next := now.Truncate(time.Minute).Add(time.Minute)
			for range rapid.IntRange(0, 4).Draw(t, "ended") {
				s.all = append(s.all, end{next.Add(-time.Duration(rapid.IntRange(1, 30).Draw(t, "before")) * time.Second),
					fmt.Sprintf("ep_%d", rapid.IntRange(1, 3).Draw(t, "endpoint")), rapid.SampledFrom(ends).Draw(t, "as")})
			}
			now = next.Add(50 * time.Millisecond)
			if rapid.IntRange(0, 29).Draw(t, "late") == 0 {
				now = now.Add(2 * time.Minute)
				gap = now
			}
		}
		s.down = false
		if err := k.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"ep_1", "ep_2", "ep_3"} {
			from, to, list := k.Of(id)
			if !to.Equal(now.Truncate(time.Minute)) || from.Before(gap.Truncate(time.Minute)) || from.Before(noon) && from != to {
				t.Fatalf("%s is known from %s to %s; the gap was at %s", id, from, to, gap)
			}
			// The first reading is too late in its minute to begin the next one.
			most := slices.MaxFunc([]time.Time{noon.Truncate(time.Minute).Add(time.Minute), to.Add(-time.Duration(b.Minutes) * time.Minute)},
				time.Time.Compare)
			if all := gap.IsZero() && s.most == 0 && b.Rows == 1000; all && !from.Equal(most) {
				t.Fatalf("%s is known from %s to %s, want from %s", id, from, to, most)
			}
			counted := map[time.Time]grapnel.Totals{}
			for _, b := range list {
				counted[b.At] = b.Totals
			}
			for at := from; at.Before(to); at = at.Add(time.Minute) {
				var want grapnel.Totals
				for _, e := range s.all {
					if e.endpoint == id && e.at.Truncate(time.Minute).Equal(at) {
						want.Add(&e.as)
					}
				}
				if counted[at] != want {
					t.Fatalf("%s at %s: counted %+v, ended %+v", id, at, counted[at], want)
				}
				delete(counted, at)
			}
			if len(counted) > 0 {
				t.Fatalf("%s has minutes outside of what is known: %v", id, counted)
			}
		}
	})
}

// TestMemoryIsBounded: beyond the limits the oldest minutes are forgotten.
func TestMemoryIsBounded(t *testing.T) {
	s, now := &ended{}, noon.Truncate(time.Minute)
	k := keeper(s, &now, Bounds{Minutes: 60, Rows: 10})
	for range 30 {
		if err := k.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i := range 4 {
			s.all = append(s.all, end{now, fmt.Sprint("ep_", i), ends[0]})
		}
		now = now.Add(time.Minute)
	}
	if err := k.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	if from, to, list := k.Of("ep_1"); to.Sub(from) != 2*time.Minute || len(list) != 2 {
		t.Errorf("known from %s to %s: %v", from, to, list)
	}
}
