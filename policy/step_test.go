package policy

import (
	"testing"
	"time"
)

func inline(t *testing.T, raw string) Policy {
	t.Helper()
	p, err := Parse([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestSincePreviousCountsFromTheEndOfTheAttempt(t *testing.T) {
	p := inline(t, `{"schedule":{"mode":"since_previous","delays":["0s","1m","5m"]},"jitter":0}`)
	ended := epoch.Add(10 * time.Second)
	step := p.After(Progress{Attempts: 1, Anchor: epoch}, Outcome{Class: ClassTimeout}, ended)
	if want := ended.Add(time.Minute); step.Next != want || step.Latest != want {
		t.Errorf("next at %v to %v, want %v", step.Next, step.Latest, want)
	}
}

func TestSinceFirstCountsFromTheStartOfTheFirstAttempt(t *testing.T) {
	p := inline(t, `{"schedule":{"mode":"since_first","delays":["0s","1m","5m"]},"jitter":0}`)
	pr := Progress{Attempts: 1, Anchor: epoch}
	if step := p.After(pr, Outcome{Class: ClassTimeout}, epoch.Add(10*time.Second)); step.Next != epoch.Add(time.Minute) {
		t.Errorf("next at %v, want a minute after the first attempt began", step.Next)
	}
	slow := epoch.Add(90 * time.Second)
	if step := p.After(pr, Outcome{Class: ClassTimeout}, slow); step.Next != slow {
		t.Errorf("next at %v, want at once when the attempt ended at %v", step.Next, slow)
	}
}

func TestRepeatedTailOfOffsetsMakesNoBurstAfterAPause(t *testing.T) {
	p := inline(t, `{"schedule":{"mode":"since_first","delays":["0s","1m","11m"],"tail":"repeat"},"jitter":0,"max_attempts":100}`)
	late := epoch.Add(72 * time.Hour)
	step := p.After(Progress{Attempts: 3, Anchor: epoch}, Outcome{Class: ClassConnect}, late)
	if want := late.Add(10 * time.Minute); step.Next != want {
		t.Errorf("next at %v, want %v: the last gap after the attempt before", step.Next, want)
	}
}

func TestMaxAgeIncludesItsEnd(t *testing.T) {
	p := inline(t, `{"schedule":{"delays":["0s","1h"],"tail":"repeat"},"jitter":0,"max_age":"3h"}`)
	pr := Progress{Attempts: 3, Anchor: epoch}
	if step := p.After(pr, Outcome{Class: ClassConnect}, epoch.Add(2*time.Hour)); step.Exhausted || step.Next != epoch.Add(3*time.Hour) {
		t.Errorf("an attempt exactly at the age: %+v", step)
	}
	step := p.After(pr, Outcome{Class: ClassConnect}, epoch.Add(2*time.Hour+time.Microsecond))
	if !step.Exhausted || !step.Expired || !step.Next.IsZero() {
		t.Errorf("an attempt past the age: %+v", step)
	}
}

func TestWhatUsedUpTheAttemptsIsNamedBeforeTheAge(t *testing.T) {
	p := inline(t, `{"schedule":{"delays":["0s","1h"],"tail":"repeat"},"max_age":"90m","max_attempts":2,"jitter":0}`)
	step := p.After(Progress{Attempts: 2, Anchor: epoch}, Outcome{Class: ClassConnect}, epoch.Add(time.Hour))
	if !step.Exhausted || step.Expired {
		t.Errorf("%+v", step)
	}
}

func TestJitterIsCutAtTheAge(t *testing.T) {
	p := inline(t, `{"schedule":{"delays":["0s","1h"]},"jitter":1,"max_age":"1h"}`)
	for seed := range uint64(50) {
		step := p.After(Progress{Attempts: 1, Anchor: epoch, Seed: seed}, Outcome{Class: ClassConnect}, epoch)
		if step.Exhausted || step.Next != epoch.Add(time.Hour) || step.Latest != step.Next {
			t.Fatalf("seed %d: %+v", seed, step)
		}
	}
}

func TestJitterIsTheSameForTheSameSeedAndSpreads(t *testing.T) {
	p := inline(t, `{"schedule":{"delays":["0s","1h","1h"]},"jitter":0.1}`)
	seen := map[time.Time]bool{}
	for seed := range uint64(200) {
		pr := Progress{Attempts: 1, Anchor: epoch, Seed: seed}
		a, b := p.After(pr, Outcome{Class: ClassConnect}, epoch), p.After(pr, Outcome{Class: ClassConnect}, epoch)
		if a != b {
			t.Fatalf("seed %d: %+v, then %+v", seed, a, b)
		}
		seen[a.Next] = true
		pr.Attempts = 2
		if c := p.After(pr, Outcome{Class: ClassConnect}, epoch); c.Next == a.Next {
			t.Errorf("seed %d: attempts 2 and 3 got the same jitter", seed)
		}
	}
	if len(seen) < 195 {
		t.Errorf("200 seeds gave only %d times", len(seen))
	}
	if lower, upper := spread(seen); lower > 10*time.Second || upper < 350*time.Second {
		t.Errorf("six minutes of jitter were used from %v to %v only", lower, upper)
	}
}

func spread(seen map[time.Time]bool) (lower, upper time.Duration) {
	lower = 1 << 62
	for at := range seen {
		extra := at.Sub(epoch.Add(time.Hour))
		lower, upper = min(lower, extra), max(upper, extra)
	}
	return lower, upper
}

func TestWaitOfZeroGetsNoJitter(t *testing.T) {
	p := inline(t, `{"schedule":{"delays":["0s","0s"]},"jitter":{"add":"5s"}}`)
	if first := p.First(Progress{Anchor: epoch, Seed: 7}); first.At != epoch || first.Latest != epoch {
		t.Errorf("the first attempt at %v to %v", first.At, first.Latest)
	}
	if step := p.After(Progress{Attempts: 1, Anchor: epoch, Seed: 7}, Outcome{Class: ClassConnect}, epoch); step.Next != epoch {
		t.Errorf("the second attempt at %v", step.Next)
	}
}

func TestFirstDelayIsWaitedFor(t *testing.T) {
	p := inline(t, `{"schedule":{"delays":["30s","1m"]},"jitter":0}`)
	if first := p.First(Progress{Anchor: epoch}); first.At != epoch.Add(30*time.Second) || first.Number != 1 {
		t.Errorf("%+v", first)
	}
}

func TestOurOwnFaultUsesUpNothing(t *testing.T) {
	p := inline(t, `{"schedule":{"delays":["0s"]},"max_attempts":1,"max_age":"1s","classify":{"5xx":"fail"}}`)
	ended := epoch.Add(time.Hour)
	step := p.After(Progress{Attempts: 5, Anchor: epoch}, Outcome{Class: ClassInternal, Status: 500}, ended)
	if step.Decision != Retry || step.Exhausted || step.Next != ended.Add(InternalPause) {
		t.Errorf("%+v", step)
	}
}

func TestBlockedAddressIsRetriedBySchedule(t *testing.T) {
	p := inline(t, `{"schedule":{"delays":["0s","1m"]},"jitter":0}`)
	step := p.After(Progress{Attempts: 1, Anchor: epoch}, Outcome{Class: ClassBlocked}, epoch)
	if step.Decision != Retry || step.Next != epoch.Add(time.Minute) {
		t.Errorf("%+v", step)
	}
}

// TestFaultsBesideTheEndpointAreRetriedBySchedule: a proxy and a token server use up attempts, so
// that a delivery ends some day; no policy takes them for an answer of the endpoint.
func TestFaultsBesideTheEndpointAreRetriedBySchedule(t *testing.T) {
	p := inline(t, `{"schedule":{"delays":["0s","1m"]},"jitter":0,"classify":{"4xx":"fail"}}`)
	for _, o := range []Outcome{{Class: ClassProxy}, {Class: ClassToken}, {Status: 401, Class: ClassToken}} {
		if step := p.After(Progress{Attempts: 1, Anchor: epoch}, o, epoch); step.Decision != Retry || step.Next != epoch.Add(time.Minute) {
			t.Errorf("%+v: %+v", o, step)
		}
		if step := p.After(Progress{Attempts: 2, Anchor: epoch}, o, epoch); !step.Exhausted {
			t.Errorf("%+v: the schedule has no end: %+v", o, step)
		}
	}
	if _, err := Parse([]byte(`{"classify":{"proxy":"disable"}}`)); err == nil {
		t.Error("a policy may classify proxy")
	}
}

func TestThrottleHoldsTheEndpoint(t *testing.T) {
	p := inline(t, `{"schedule":{"delays":["0s","10s","2h"]},"jitter":0}`)
	asked := func(status int, wait time.Duration) Outcome {
		return Outcome{Status: status, RetryAfter: wait, HasRetryAfter: true}
	}
	for _, c := range []struct {
		name       string
		attempts   int
		outcome    Outcome
		hold, next time.Duration
	}{
		{"429 that asks", 1, asked(429, time.Minute), time.Minute, time.Minute},
		{"429 that asks for less than the schedule", 1, asked(429, time.Second), time.Second, 10 * time.Second},
		{"503 that asks", 1, asked(503, 3*time.Hour), 3 * time.Hour, 3 * time.Hour},
		{"429 that asks for days", 1, asked(429, 48*time.Hour), 24 * time.Hour, 24 * time.Hour},
		{"429 that asks for nonsense", 1, asked(429, 8*24*time.Hour), 10 * time.Second, 10 * time.Second},
		{"429 without a wish", 1, Outcome{Status: 429}, 10 * time.Second, 10 * time.Second},
		{"429 without a wish, late in the schedule", 2, Outcome{Status: 429}, time.Minute, 2 * time.Hour},
	} {
		step := p.After(Progress{Attempts: c.attempts, Anchor: epoch}, c.outcome, epoch)
		if step.Decision != Throttle || step.Hold != epoch.Add(c.hold) || step.Next != epoch.Add(c.next) {
			t.Errorf("%s: %+v", c.name, step)
		}
	}
	last := p.After(Progress{Attempts: 3, Anchor: epoch}, Outcome{Status: 429}, epoch)
	if !last.Exhausted || last.Hold != epoch.Add(time.Minute) {
		t.Errorf("a 429 to the last attempt still spares the endpoint: %+v", last)
	}
}

func TestRetryAfterDoesNotReachBeyondTheAge(t *testing.T) {
	p := inline(t, `{"schedule":{"delays":["0s","1m"],"tail":"repeat"},"jitter":0,"max_age":"1h"}`)
	o := Outcome{Status: 429, RetryAfter: 5 * time.Hour, HasRetryAfter: true}
	step := p.After(Progress{Attempts: 1, Anchor: epoch}, o, epoch)
	if step.Exhausted || step.Next != epoch.Add(time.Hour) || step.Hold != epoch.Add(5*time.Hour) {
		t.Errorf("the last chance is the end of the age: %+v", step)
	}
	step = p.After(Progress{Attempts: 2, Anchor: epoch}, o, epoch.Add(time.Hour))
	if !step.Exhausted || !step.Expired {
		t.Errorf("after the last chance: %+v", step)
	}
}

func TestRetryAfterCanBeIgnored(t *testing.T) {
	p := inline(t, `{"schedule":{"delays":["0s","10s"]},"jitter":0,"retry_after":"ignore"}`)
	pr := Progress{Attempts: 1, Anchor: epoch}
	step := p.After(pr, Outcome{Status: 503, RetryAfter: time.Hour, HasRetryAfter: true}, epoch)
	if step.Decision != Retry || step.Next != epoch.Add(10*time.Second) {
		t.Errorf("%+v", step)
	}
}

func TestDelayThatAConsumerAsksFor(t *testing.T) {
	p := inline(t, `{"schedule":{"delays":["0s","1m","1h"]},"jitter":1,"max_age":"48h"}`)
	nack := func(delay time.Duration) Outcome { return Outcome{Status: 503, Delay: delay, HasDelay: true} }
	for _, c := range []struct {
		name       string
		ended      time.Duration // after the anchor
		asked, due time.Duration // after the end
	}{
		{"sooner than the schedule", 0, 5 * time.Second, 5 * time.Second},
		{"at once", 0, 0, 0},
		{"later than the schedule", 0, 3 * time.Hour, 3 * time.Hour},
		{"longer than anybody may ask for", 0, 30 * time.Hour, MaxRetryAfter},
		{"to beyond the age", 46 * time.Hour, 3 * time.Hour, 2 * time.Hour},
	} {
		ended := epoch.Add(c.ended)
		step := p.After(Progress{Attempts: 1, Anchor: epoch, Seed: 7}, nack(c.asked), ended)
		if want := ended.Add(c.due); step.Decision != Retry || step.Exhausted || step.Next != want || step.Latest != want {
			t.Errorf("%s: %+v, want a retry at %v, which jitter does not move", c.name, step, want)
		}
	}
}

func TestDelayThatAConsumerAsksForGivesNoMoreAttempts(t *testing.T) {
	p := inline(t, `{"schedule":{"delays":["0s","1m","1h"]},"jitter":0,"max_age":"2h","classify":{"4xx":"fail"}}`)
	asked := func(o Outcome) Outcome {
		o.Delay, o.HasDelay = time.Second, true
		return o
	}
	for _, c := range []struct {
		name     string
		attempts int
		ended    time.Duration
		outcome  Outcome
		decision Decision
		expired  bool
	}{
		{"the schedule is used up", 3, time.Hour, Outcome{Status: 503}, Retry, false},
		{"the schedule's next attempt would be too late", 2, 90 * time.Minute, Outcome{Status: 503}, Retry, true},
		{"it is delivered", 1, 0, Outcome{Status: 200}, Deliver, false},
		{"it is permanent", 1, 0, Outcome{Status: 400}, Fail, false},
	} {
		step := p.After(Progress{Attempts: c.attempts, Anchor: epoch}, asked(c.outcome), epoch.Add(c.ended))
		if !step.Next.IsZero() || step.Decision != c.decision || step.Exhausted != (c.decision == Retry) || step.Expired != c.expired {
			t.Errorf("%s: %+v", c.name, step)
		}
	}
}

func TestZeroPolicyLosesNothingAndDoesNotPanic(t *testing.T) {
	var p Policy
	if first := p.First(Progress{Anchor: epoch}); first.At != epoch {
		t.Errorf("%+v", first)
	}
	step := p.After(Progress{Attempts: 1, Anchor: epoch}, Outcome{Class: ClassTimeout}, epoch)
	if step.Decision != Retry || !step.Exhausted {
		t.Errorf("%+v", step)
	}
}
