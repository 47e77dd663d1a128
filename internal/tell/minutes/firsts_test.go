package minutes

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/grapnelhq/grapnel/internal/base/rapidtest"
	"github.com/grapnelhq/grapnel/internal/send/core"
)

// reads reads at the end of each minute up to a time, and returns the last count of first attempts.
func reads(t rapid.TB, s *ended, now *time.Time, until time.Time, b Bounds) (got map[string]core.Firsts) {
	k := keeper(s, now, b)
	k.o.Firsts = func(failed map[string]core.Firsts) { got = failed }
	for ; !now.After(until); *now = now.Add(time.Minute) {
		all := s.all
		for i := range all { // later ones have not happened yet
			if all[i].at.After(*now) {
				s.all = all[:i]
				break
			}
		}
		err := k.Read(context.Background())
		if s.all = all; err != nil {
			t.Fatal(err)
		}
	}
	return got
}

// TestFirstAttemptsOfTheWindow: with all of its minutes known a window has exactly the first
// attempts that were made in it, whatever the minute of the hour, and only endpoints where one
// failed.
func TestFirstAttemptsOfTheWindow(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		s, now := &ended{}, noon.Truncate(time.Hour)
		until := now.Add(2*time.Hour + time.Duration(rapid.IntRange(0, 70).Draw(t, "minutes"))*time.Minute)
		window := rapid.SampledFrom([]time.Duration{time.Hour, 5 * time.Minute}).Draw(t, "window")
		want := map[string]core.Firsts{}
		for at := now.Add(30 * time.Second); at.Before(until); at = at.Add(time.Duration(rapid.IntRange(1, 12).Draw(t, "pause")) * time.Minute) {
			e := end{at, fmt.Sprintf("ep_%d", rapid.IntRange(1, 3).Draw(t, "endpoint")), rapid.SampledFrom(ends).Draw(t, "as")}
			s.all = append(s.all, e)
			if f := want[e.endpoint]; !at.Before(until.Add(-window)) {
				f.Made, f.Failed = f.Made+int(e.as.FirstAttempts), f.Failed+int(e.as.FirstAttempts-e.as.FirstAttemptSuccess)
				want[e.endpoint] = f
			}
		}
		got := reads(t, s, &now, until, Bounds{Window: window})
		for id, f := range want {
			if f.Failed == 0 {
				f = core.Firsts{}
			}
			if got[id] != f {
				t.Fatalf("%s: %+v, want %+v", id, got[id], f)
			}
			delete(got, id)
		}
		if len(got) > 0 {
			t.Fatalf("others: %+v", got)
		}
	})
}

// TestFirstAttemptsAfterARestart: the first reading counts from the totals of two hours. What was
// made in the hour before, of which no minute is known, counts for the part of it that is inside.
func TestFirstAttemptsAfterARestart(t *testing.T) {
	hour := noon.Truncate(time.Hour)
	s := &ended{}
	for i := range 60 {
		s.all = append(s.all, end{hour.Add(time.Duration(i) * time.Minute), "ep_1", ends[i%2]}, end{hour, "ep_2", ends[0]})
	}
	for i := range 10 {
		s.all = append(s.all, end{hour.Add(time.Hour + time.Duration(2*i+1)*30*time.Second), "ep_1", ends[0]})
	}
	for minute, want := range map[int][2]int{60: {60, 30}, 75: {55, 23}, 90: {40, 15}, 119: {11, 1}, 120: {}} {
		for _, again := range []int{0, 3} { // readings that follow
			now := hour.Add(time.Duration(minute-again)*time.Minute + 20*time.Second)
			got := reads(t, s, &now, now.Add(time.Duration(again)*time.Minute), Bounds{})
			if f := got["ep_1"]; f.Made != want[0] || f.Failed != want[1] || len(got) > 1 {
				t.Errorf("after %d minutes, the last %d of them known: %+v, want %+v", minute, again, got, want)
			}
		}
	}
}
