package policy

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/grapnelhq/grapnel/internal/base/rapidtest"
)

var dawn = time.Date(2026, 5, 6, 8, 0, 0, 0, time.UTC)

// success and setback are attempts that began and ended at these times.
func success(started, ended time.Time) Sighting {
	return Sighting{Outcome: fine, Decision: Deliver, Started: started, Ended: ended}
}

func setback(class Class, started, ended time.Time) Sighting {
	return Sighting{Outcome: Outcome{Class: class}, Decision: Retry, Started: started, Ended: ended}
}

func ramp(most int) *Ramp {
	r := &Ramp{}
	r.Allow(most)
	return r
}

// released is the number of attempts that a ramp allows until then, with a backlog of any size.
func released(r *Ramp, from, until time.Time) (n int) {
	for now := from; n < 1_000_000; n++ {
		if at := r.Next(now); at.After(now) {
			now = at
		}
		if !now.Before(until) {
			break
		}
		r.Start(now)
	}
	return n
}

func TestItStartsAtTheMost(t *testing.T) {
	r := ramp(32)
	if r.Limit() != 32 || r.Recovering() || r.Next(dawn).After(dawn) {
		t.Errorf("%+v", r)
	}
	if n := released(r, dawn, dawn.Add(time.Second)); n != 1_000_000 {
		t.Errorf("without a recovery the pace is bound to %d", n)
	}
	r.Allow(8)
	if r.Limit() != 8 {
		t.Errorf("allowed 8, it is %d", r.Limit())
	}
	if r.Allow(64); r.Limit() != 64 {
		t.Errorf("what was at the most goes on at the most, and not at %d", r.Limit())
	}
	r.Observe(setback(ClassTimeout, dawn, dawn))
	if r.Allow(128); r.Limit() != 32 {
		t.Errorf("what was halved is not given back for nothing: %d", r.Limit())
	}
}

func TestMoreIsEarnedDuringARecovery(t *testing.T) {
	r := ramp(1)
	r.Begin(dawn)
	if r.Allow(32); r.Limit() != 1 {
		t.Errorf("allowed more while it recovers, it takes %d at once", r.Limit())
	}
}

func TestOneSetbackHalvesOnce(t *testing.T) {
	for _, s := range []Sighting{
		setback(ClassTimeout, dawn, dawn), setback(ClassConnect, dawn, dawn),
		{Outcome: Outcome{Status: 429, Class: ClassStatus429}, Decision: Throttle, Started: dawn, Ended: dawn},
	} {
		r := ramp(32)
		s.Ended = dawn.Add(10 * time.Second)
		for range 32 { // all attempts in flight fail in the same way
			r.Observe(s)
			s.Ended = s.Ended.Add(time.Millisecond)
		}
		if r.Limit() != 16 {
			t.Errorf("%+v: 32 in one flight make it %d", s.Outcome, r.Limit())
		}
		s.Started = dawn.Add(time.Minute)
		s.Ended = s.Started.Add(time.Second)
		if r.Observe(s); r.Limit() != 8 {
			t.Errorf("%+v: the next flight makes it %d", s.Outcome, r.Limit())
		}
		for range 10 {
			s.Started, s.Ended = s.Started.Add(time.Minute), s.Ended.Add(time.Minute)
			r.Observe(s)
		}
		if r.Limit() != 1 {
			t.Errorf("it goes down to %d", r.Limit())
		}
	}
	for _, s := range []Sighting{
		setback(ClassDNS, dawn, dawn), {Outcome: Outcome{Status: 500, Class: ClassStatus5xx}, Decision: Retry},
		{Outcome: Outcome{Status: 422, Class: ClassStatus4xx}, Decision: Fail},
	} {
		r := ramp(32)
		if r.Observe(s); r.Limit() != 32 {
			t.Errorf("%+v is taken for too much", s.Outcome)
		}
	}
}

func TestARecoveryDoublesUntilTheFirstSetback(t *testing.T) {
	r := ramp(32)
	r.Begin(dawn)
	now := dawn
	for _, want := range []int{1, 2, 4, 8, 16, 32, 32} {
		if r.Limit() != want {
			t.Fatalf("%d at once, want %d", r.Limit(), want)
		}
		for range r.Limit() { // one success per request in flight
			now = now.Add(time.Millisecond)
			r.Observe(success(now, now))
		}
	}
	now = now.Add(time.Second)
	r.Observe(setback(ClassTimeout, now, now))
	for _, want := range []int{16, 17, 18, 19} { // from then on one more per full round
		if r.Limit() != want {
			t.Fatalf("%d at once, want %d", r.Limit(), want)
		}
		for range r.Limit() {
			r.Observe(success(now, now))
		}
	}
}

func TestASetbackBeforeTheRecoverySaysNothing(t *testing.T) {
	r := ramp(32)
	r.Begin(dawn)
	r.Observe(success(dawn, dawn))
	if r.Observe(setback(ClassTimeout, dawn.Add(-time.Second), dawn.Add(time.Second))); r.Limit() != 2 {
		t.Errorf("what began during the outage makes it %d", r.Limit())
	}
}

// TestThePaceDoublesEverySecond: at a rate of 20 that doubles every second, 20(2^t-1)/ln2 are
// released after t seconds.
func TestThePaceDoublesEverySecond(t *testing.T) {
	for seconds := 1.0; seconds < 9.5; seconds += 0.5 {
		r := ramp(32)
		r.Begin(dawn)
		got := released(r, dawn, dawn.Add(time.Duration(seconds*float64(time.Second))))
		near(t, "released", float64(got), 20*(math.Exp2(seconds)-1)/math.Ln2, 0.1)
	}
	r := ramp(32)
	r.Begin(dawn)
	released(r, dawn, dawn.Add(12*time.Second))
	if r.Recovering() {
		t.Error("it is still paced when the pace has no meaning any more")
	}
}

func TestAfterASetbackThePaceGrowsEvenly(t *testing.T) {
	r := ramp(32)
	r.Begin(dawn)
	now := dawn.Add(4 * time.Second)
	released(r, dawn, now) // the rate is 320 per second by now
	r.Observe(setback(ClassTimeout, now, now))
	n := released(r, now, now.Add(time.Second))
	near(t, "released in the second after a setback at 320/s", float64(n), 160+10, 0.1)
	n = released(r, now.Add(time.Second), now.Add(5*time.Second))
	near(t, "released in the next four seconds", float64(n), 4*180+20*4*4/2, 0.1)

	for range 20 {
		now = now.Add(time.Minute)
		r.Observe(setback(ClassTimeout, now, now))
		now = now.Add(time.Millisecond)
		r.Observe(setback(ClassTimeout, now, now))
	}
	for range 20 { // without a pause the rate falls, but not to zero
		now = now.Add(time.Microsecond)
		r.Observe(setback(ClassTimeout, now, now))
	}
	if n := released(r, now, now.Add(2*time.Second)); n < 2 || n > 60 {
		t.Errorf("after many setbacks %d are let go in two seconds", n)
	}
}

func TestWhatWasNotUsedIsNotSavedUp(t *testing.T) {
	r := ramp(32)
	r.Begin(dawn)
	now := dawn.Add(3 * time.Second) // the rate is 160 per second
	burst := 0
	for !r.Next(now).After(now) {
		r.Start(now)
		burst++
	}
	if burst > 0.1*160+2 {
		t.Errorf("after a rest of three seconds %d go at once", burst)
	}
}

func TestARecoveryCanEnd(t *testing.T) {
	r := ramp(32)
	r.Begin(dawn)
	r.End()
	if r.Recovering() || r.Next(dawn).After(dawn) || r.Limit() != 1 {
		t.Errorf("%+v", r) // the limit must still grow
	}
}

// TestAnyRamp: in any order of outcomes and with any clock the ramp stays within the allowed limit,
// always allows an attempt, and never asks for a pause of more than a second.
func TestAnyRamp(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		r, most := &Ramp{}, 0
		allow := func() {
			most = rapid.IntRange(1, 256).Draw(t, "most")
			r.Allow(most)
		}
		allow()
		now := dawn
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(int64(-time.Minute), int64(time.Minute)).Draw(t, "pass")))
			started := now.Add(-time.Duration(rapid.Int64Range(0, int64(10*time.Second)).Draw(t, "took")))
			before := r.Limit()
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				allow()
				before = most
			case 1:
				r.Begin(now)
			case 2:
				r.Observe(setback(rapid.SampledFrom(Classes()).Draw(t, "class"), started, now))
			case 3, 4:
				r.Observe(success(started, now))
				before++
			case 5:
				if !r.Next(now).After(now) {
					r.Start(now)
				}
			}
			if r.Limit() < 1 || r.Limit() > most || r.Limit() > max(before, 1) {
				t.Fatalf("%d at once, before it was %d, %d are allowed", r.Limit(), before, most)
			}
			if wait := r.Next(now).Sub(now); wait > time.Second {
				t.Fatalf("the next waits %v", wait)
			}
		}
	})
}

// TestDrainTime compares the estimate with a recovery step by step, at an endpoint that accepts a
// fixed number per second.
func TestDrainTime(t *testing.T) {
	step := func(waiting int, perSecond float64) time.Duration {
		r := ramp(32)
		r.Begin(dawn)
		now, free := dawn, dawn
		for range waiting {
			for _, at := range []time.Time{r.Next(now), free} {
				if at.After(now) {
					now = at
				}
			}
			r.Start(now)
			if perSecond > 0 {
				free = now.Add(time.Duration(float64(time.Second) / perSecond))
			}
		}
		return now.Sub(dawn)
	}
	for _, perSecond := range []float64{0, 2, 20, 21, 50, 333, 5000} {
		for _, waiting := range []int{1, 10, 100, 1000, 10_000, 25_000} {
			want, got := step(waiting, perSecond), DrainTime(waiting, perSecond)
			// One more or less depends on the instant at which counting begins.
			slack := time.Second / time.Duration(min(max(perSecond, 1), 20)) * 2
			if diff := (got - want).Abs(); diff > want/10+slack {
				t.Errorf("%d at %v/s: %v estimated, %v step by step", waiting, perSecond, got, want)
			}
		}
	}
	for _, waiting := range []int{0, 1, math.MaxInt32} {
		for _, perSecond := range []float64{0, 1e-9, 1, 1e9} {
			if d := DrainTime(waiting, perSecond); d < 0 || waiting == 0 && d != 0 {
				t.Errorf("%d at %v/s take %v", waiting, perSecond, d)
			}
		}
	}
	rapidtest.Check(t, func(t *rapid.T) {
		n, rate := rapid.IntRange(0, 1e6).Draw(t, "waiting"), rapid.Float64Range(0.1, 1e5).Draw(t, "rate")
		if DrainTime(n+1, rate) < DrainTime(n, rate) || DrainTime(n, rate) < DrainTime(n, rate+1) ||
			DrainTime(n, rate) < DrainTime(n, 0)-time.Microsecond && rate < 20_000 {
			t.Fatal("more to do, or less that is taken, takes less time")
		}
	})
}

// TestRefusalsEarn: an endpoint that refuses everything after an outage gets as many requests as
// one that never failed. A refusal concerns the content and must not delay the rest; a 429 concerns
// the amount.
func TestRefusalsEarn(t *testing.T) {
	for status, want := range map[int]int{422: 8, 404: 8, 429: 1} {
		r := ramp(8)
		r.Begin(dawn)
		refusal := Sighting{Outcome: Outcome{Status: status, Class: ClassStatus4xx}, Decision: Retry, Started: dawn, Ended: dawn}
		if status == 429 {
			refusal.Outcome.Class = ClassStatus429
		}
		for range 20 {
			r.Observe(refusal)
		}
		if r.Limit() != want {
			t.Errorf("after twenty times %d it gets %d at once, not %d", status, r.Limit(), want)
		}
	}
}
