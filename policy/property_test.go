package policy

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/grapnelhq/grapnel/internal/base/rapidtest"
)

// Random policies of every kind, in the forms that users could write.

func drawDelays(t *rapid.T, rising bool) []Duration {
	delays := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Duration {
		return Duration(rapid.Int64Range(0, int64(48*time.Hour/time.Millisecond)).Draw(t, "ms")) * Duration(time.Millisecond)
	}), 1, 12).Draw(t, "delays")
	for i := 1; rising && i < len(delays); i++ {
		delays[i] = min(delays[i-1]+delays[i]%(6*hour), Duration(MaxDelay))
	}
	return delays
}

func drawSchedule(t *rapid.T) Schedule {
	mode := rapid.SampledFrom([]Mode{SincePrevious, SinceFirst, Exponential}).Draw(t, "mode")
	if mode == Exponential {
		base := Duration(rapid.Int64Range(1, 120_000).Draw(t, "base")) * Duration(time.Millisecond)
		return Schedule{
			Mode: mode, Base: base, Factor: rapid.Float64Range(1, 8).Draw(t, "factor"),
			Max: base + Duration(rapid.Int64Range(0, int64(24*time.Hour)).Draw(t, "max")),
		}
	}
	return Schedule{
		Mode:   mode,
		Delays: drawDelays(t, mode == SinceFirst),
		Tail:   rapid.SampledFrom([]Tail{TailStop, TailRepeat}).Draw(t, "tail"),
	}
}

func drawPolicy() *rapid.Generator[Policy] {
	return rapid.Custom(func(t *rapid.T) Policy {
		p := standard()
		p.Name = rapid.StringMatching(`[a-z][a-z0-9-]{0,20}`).Draw(t, "name")
		p.Schedule = drawSchedule(t)
		switch rapid.IntRange(0, 2).Draw(t, "jitter kind") {
		case 0:
			p.Jitter = Jitter{Fraction: rapid.Float64Range(0, 1).Draw(t, "fraction")}
		case 1:
			p.Jitter = Jitter{Add: Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "add"))}
		}
		p.MaxAttempts = rapid.IntRange(0, 30).Draw(t, "max_attempts")
		p.MaxAge = Duration(rapid.Int64Range(0, int64(96*time.Hour)).Draw(t, "max_age"))
		if p.MaxAttempts == 0 && p.Schedule.endless() {
			p.MaxAttempts = 30
		}
		p.RetryAfter = rapid.SampledFrom([]RetryAfterRule{RetryAfterExtend, RetryAfterIgnore}).Draw(t, "retry_after")
		p.Then = rapid.SampledFrom([]Then{Advance, Block}).Draw(t, "then")
		p.Disable.Consecutive = rapid.IntRange(0, 200).Draw(t, "consecutive")
		if rapid.Bool().Draw(t, "off") {
			p.Breaker = &Breaker{Off: true}
		}
		if err := p.Validate(); err != nil {
			t.Skip("a repeated wait of zero, or the like")
		}
		return p
	})
}

func drawOutcome() *rapid.Generator[Outcome] {
	return rapid.Custom(func(t *rapid.T) Outcome {
		o := rapid.SampledFrom([]Outcome{
			{Class: ClassConnect}, {Class: ClassTimeout}, {Class: ClassDNS}, {Class: ClassBlocked},
			{Status: 500, Class: ClassStatus5xx}, {Status: 503, Class: ClassStatus5xx}, {Status: 429, Class: ClassStatus429},
			{Status: 301, Class: ClassRedirect}, {Status: 404, Class: ClassStatus4xx},
		}).Draw(t, "outcome")
		if rapid.Bool().Draw(t, "asks") {
			o.HasRetryAfter = true
			o.RetryAfter = time.Duration(rapid.Int64Range(-int64(time.Hour), int64(9*24*time.Hour)).Draw(t, "retry after"))
		}
		return o
	})
}

var epoch = time.Date(2026, 5, 6, 8, 0, 0, 0, time.UTC)

// TestNextAttemptIsNeverEarlyAndWithinItsJitter follows a delivery through random outcomes and
// durations.
func TestNextAttemptIsNeverEarlyAndWithinItsJitter(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		p := drawPolicy().Draw(t, "policy")
		pr := Progress{Anchor: epoch, Seed: rapid.Uint64().Draw(t, "seed")}
		at := p.First(pr).At
		pr.Anchor = at
		for {
			ended := at.Add(time.Duration(rapid.Int64Range(0, int64(p.Timeout)).Draw(t, "took")))
			pr.Attempts++
			o := drawOutcome().Draw(t, "outcome")
			step := p.After(pr, o, ended)
			if step.Exhausted {
				checkExhausted(t, &p, pr, ended, step)
				return
			}
			base, wait, _ := p.Schedule.next(pr.Attempts+1, pr.Anchor, ended)
			end := pr.Anchor.Add(p.MaxAge.Std())
			upper := base.Add(p.Jitter.most(wait))
			if asked := ended.Add(p.wish(o)); upper.Before(asked) {
				upper = asked
			}
			switch {
			case step.Next.Before(base) || step.Next.Before(ended):
				t.Fatalf("early: %v, the schedule says %v, the attempt before ended %v", step.Next, base, ended)
			case step.Next.After(upper):
				t.Fatalf("late: %v after %v", step.Next, upper)
			case step.Latest.Before(step.Next):
				t.Fatalf("the latest time %v is before the time %v", step.Latest, step.Next)
			case p.MaxAge > 0 && step.Latest.After(end):
				t.Fatalf("%v is beyond the age, which ends at %v", step.Latest, end)
			case p.asked(o) && step.Next.Before(earlierIf(p.MaxAge > 0, ended.Add(p.wish(o)), end)):
				t.Fatalf("%v is before the receiver's wish of %v", step.Next, o.RetryAfter)
			case step.Decision == Throttle && step.Hold.Before(ended):
				t.Fatalf("held until %v, before the attempt ended at %v", step.Hold, ended)
			}
			at = step.Next
		}
	})
}

func earlierIf(bounded bool, a, b time.Time) time.Time {
	if bounded {
		return earlier(a, b)
	}
	return a
}

func checkExhausted(t *rapid.T, p *Policy, pr Progress, ended time.Time, step Step) {
	n := pr.Attempts + 1
	at, _, ok := p.Schedule.next(n, pr.Anchor, ended)
	used := !ok || p.MaxAttempts > 0 && n > p.MaxAttempts
	old := p.MaxAge > 0 && at.After(pr.Anchor.Add(p.MaxAge.Std()))
	if !used && !old {
		t.Fatalf("exhausted after %d attempts although attempt %d at %v was allowed", pr.Attempts, n, at)
	}
	if step.Expired == used {
		t.Fatalf("expired = %v, attempts used up = %v", step.Expired, used)
	}
	if !step.Next.IsZero() {
		t.Fatalf("exhausted and yet a next attempt at %v", step.Next)
	}
}

func TestRetryAfterOnlyLengthens(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		p := drawPolicy().Draw(t, "policy")
		pr := Progress{Anchor: epoch, Attempts: rapid.IntRange(1, 15).Draw(t, "attempts"), Seed: rapid.Uint64().Draw(t, "seed")}
		ended := epoch.Add(time.Duration(rapid.Int64Range(0, int64(48*time.Hour)).Draw(t, "ended")))
		asking := drawOutcome().Draw(t, "outcome")
		silent := asking
		silent.HasRetryAfter, silent.RetryAfter = false, 0
		with, without := p.After(pr, asking, ended), p.After(pr, silent, ended)
		if with.Exhausted != without.Exhausted {
			t.Fatalf("a Retry-After changed whether the delivery is exhausted: %+v, %+v", with, without)
		}
		if with.Next.Before(without.Next) {
			t.Fatalf("a Retry-After of %v moved the attempt from %v to %v", asking.RetryAfter, without.Next, with.Next)
		}
	})
}

func TestPlanAgreesWithStepping(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		p := drawPolicy().Draw(t, "policy")
		pr := Progress{Anchor: epoch, Seed: rapid.Uint64().Draw(t, "seed")}
		whole := p.Plan(pr, time.Time{}, 100)
		if len(whole) == 0 || whole[0] != p.First(pr) {
			t.Fatalf("the plan starts with %v, First says %v", whole, p.First(pr))
		}
		pr.Anchor = whole[0].At
		for i, planned := range whole {
			if planned.Number != i+1 {
				t.Fatalf("number %d at place %d", planned.Number, i)
			}
			rest := p.Plan(pr, planned.At, 100)
			if len(rest) != len(whole)-i {
				t.Fatalf("%d attempts are left after %d, not %d", len(rest), i, len(whole)-i)
			}
			for j := range rest {
				if rest[j].At != whole[i+j].At {
					t.Fatalf("from attempt %d the plan says %v, the whole plan says %v", i+1, rest[j], whole[i+j])
				}
			}
			pr.Attempts++
			step := p.After(pr, Outcome{Class: ClassReset}, planned.At)
			if last := i == len(whole)-1; step.Exhausted != last {
				t.Fatalf("exhausted after attempt %d of %d: %v", i+1, len(whole), step.Exhausted)
			}
			if !step.Exhausted && (step.Next != whole[i+1].At || step.Latest != whole[i+1].Latest) {
				t.Fatalf("the step says %v to %v, the plan %v", step.Next, step.Latest, whole[i+1])
			}
		}
	})
}

func TestReachBoundsEveryWalk(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		p := drawPolicy().Draw(t, "policy")
		longest := p.Reach().Longest
		pr := Progress{Anchor: epoch, Attempts: 1, Seed: rapid.Uint64().Draw(t, "seed")}
		for at := epoch; ; pr.Attempts++ {
			ended := at.Add(time.Duration(rapid.Int64Range(0, int64(p.Timeout)).Draw(t, "took")))
			step := p.After(pr, Outcome{Class: ClassTimeout}, ended)
			if step.Exhausted {
				return
			}
			if at = step.Next; at.Sub(epoch) > longest {
				t.Fatalf("attempt %d at %v, the longest reach is %v", pr.Attempts+1, at.Sub(epoch), longest)
			}
		}
	})
}

func TestJSONRoundTrip(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		p := drawPolicy().Draw(t, "policy")
		raw, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		back, err := Parse(raw)
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		if !reflect.DeepEqual(p, back) {
			t.Fatalf("%s\n%+v\n%+v", raw, p, back)
		}
	})
}

func TestDecisionDoesNotDependOnMapOrder(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		p := standard()
		keys := []string{"404", "400-409", "403-406", "404-407", "4xx", "5xx", "500-503", "timeout", "reset"}
		p.Classify = rapid.MapOfN(rapid.SampledFrom(keys), rapid.SampledFrom([]Decision{Retry, Fail, Throttle, DisableEndpoint}), 0, 9).
			Draw(t, "rules")
		o := Outcome{Status: rapid.IntRange(400, 505).Draw(t, "status")}
		want := p.Decide(o)
		for range 5 {
			again := map[string]Decision{}
			for k, v := range p.Classify {
				again[k] = v
			}
			p.Classify = again
			if got := p.Decide(o); got != want {
				t.Fatalf("%v, then %v", want, got)
			}
		}
	})
}
