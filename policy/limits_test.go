package policy

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/grapnelhq/grapnel/internal/base/rapidtest"
)

// answered makes the attempts of a delivery that is answered with these statuses in turn, the last
// one from then on, and returns their times in seconds. Jitter is at its most.
func answered(p *Policy, took time.Duration, statuses ...int) (seconds []int, last Step) {
	start := time.Date(2026, 5, 6, 8, 0, 0, 0, time.UTC)
	pr, at := Progress{Anchor: start}, start
	for {
		status := statuses[min(pr.Attempts, len(statuses)-1)]
		pr.Attempts++
		seconds = append(seconds, int(at.Sub(start)/time.Second))
		o := Outcome{Status: status, Class: ClassOf(status)}
		step := p.After(pr, o, at.Add(took))
		if step.Next.IsZero() {
			return seconds, step
		}
		at = step.Latest
	}
}

// TestDefaultLimitsUnfitEvents: answers that say that the event is unfit end after three attempts
// within ten minutes; all others go on for days, as under standard.
func TestDefaultLimitsUnfitEvents(t *testing.T) {
	p, _ := Preset(DefaultPreset)
	standard, _ := Preset("standard")
	for _, status := range []int{400, 413, 415, 422} {
		bare := p
		bare.Jitter = Jitter{}
		if got, step := answered(&bare, 0, status); !slices.Equal(got, []int{0, 5, 305}) || !step.Exhausted || !step.Limited || step.Expired {
			t.Errorf("%d: attempts at %v, then %+v", status, got, step)
		}
		// with the most jitter and attempts of nearly the timeout they are within ten minutes, too
		if got, _ := answered(&p, p.Timeout.Std(), status); len(got) != 3 || got[2]+int(p.Timeout.Std()/time.Second) > 600 {
			t.Errorf("%d: at their slowest the attempts are at %v", status, got)
		}
		if got, step := answered(&standard, 0, status); len(got) != 10 || step.Limited {
			t.Errorf("%d: standard makes %d attempts", status, len(got))
		}
	}
	for _, status := range []int{401, 403, 404, 405, 408, 409, 425, 429, 500, 503} {
		if got, step := answered(&p, 0, status); len(got) != 10 || got[9] < 272105 || step.Limited {
			t.Errorf("%d: attempts at %v", status, got)
		}
	}
	for status, want := range map[int]Decision{410: DisableEndpoint, 429: Throttle, 422: Retry} {
		if got := p.Decide(Outcome{Status: status, Class: ClassOf(status)}); got != want {
			t.Errorf("%d is decided %q", status, got)
		}
	}
	if is := p.Changes(standard); !slices.Equal(is, []string{"limits"}) {
		t.Errorf("default differs from standard in %v", is)
	}
}

// TestAllAttemptsCountForALimit, whatever they were answered: a 422 after two 503s ends at the
// third attempt, and after five at once, since the next attempt would be hours away. An answer that
// no limit covers goes on.
func TestAllAttemptsCountForALimit(t *testing.T) {
	p, _ := Preset(DefaultPreset)
	p.Jitter = Jitter{}
	for _, c := range []struct {
		answers  []int
		attempts int
	}{
		{[]int{422}, 3},
		{[]int{503, 422}, 3},
		{[]int{503, 503, 422}, 3},
		{[]int{503, 503, 503, 503, 503, 422}, 6},
		{[]int{422, 422, 503}, 10},
		{[]int{422, 503, 422}, 3},
		{[]int{422, 503, 503, 404, 413}, 5},
	} {
		if got, step := answered(&p, 0, c.answers...); len(got) != c.attempts || !step.Exhausted || step.Limited != (c.attempts < 10) {
			t.Errorf("%v: attempts at %v, then %+v", c.answers, got, step)
		}
	}
}

// TestALimitOnlyNarrows: with any limits an attempt is made at the time at which it would be made
// without, or not at all, or at the end of the limit's time.
func TestALimitOnlyNarrows(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		p := rapid.SampledFrom(Presets()).Draw(t, "preset")
		p.Limits = nil
		limited := p
		for range rapid.IntRange(1, 3).Draw(t, "limits") {
			limited.Limits = append(limited.Limits, Limit{
				Codes:    []string{rapid.SampledFrom([]string{"4xx", "422", "400-409", "timeout"}).Draw(t, "code")},
				Attempts: rapid.IntRange(1, 12).Draw(t, "attempts"), Within: Duration(rapid.Int64Range(0, int64(90*time.Hour)).Draw(t, "within")),
			})
		}
		o := rapid.SampledFrom(append(answers(), wide()...)).Draw(t, "outcome")
		pr := Progress{Attempts: rapid.IntRange(1, 12).Draw(t, "attempts"), Anchor: dawn, Seed: rapid.Uint64().Draw(t, "seed")}
		ended := dawn.Add(time.Duration(rapid.Int64Range(0, int64(100*time.Hour)).Draw(t, "ended")))
		free, is := p.After(pr, o, ended), limited.After(pr, o, ended)
		if is.Decision != free.Decision || is.Next.After(free.Next) || free.Next.IsZero() && is.Limited {
			t.Errorf("%+v became %+v", free, is)
		}
		if !is.Next.IsZero() && is.Next.Before(free.Next) {
			narrow, _ := limited.under(o)
			if !is.Next.Equal(dawn.Add(narrow.MaxAge.Std())) {
				t.Errorf("the next attempt is at %v, not %v", is.Next, free.Next)
			}
		}
	})
}

// TestThePlanFollowsTheLastAnswer: planned attempts are those that are made if each is answered as
// the last one was.
func TestThePlanFollowsTheLastAnswer(t *testing.T) {
	p, _ := Preset(DefaultPreset)
	pr := Progress{Attempts: 1, Anchor: dawn, Seed: 7}
	for last, want := range map[Outcome]int{invalid: 2, {Status: 404, Class: ClassStatus4xx}: 9, {Class: ClassTimeout}: 9, {}: 9} {
		pr.Last = last
		next := p.After(pr, last, dawn).Next
		if plan := p.Plan(pr, next, 100); len(plan) != want || !plan[0].At.Equal(next) {
			t.Errorf("after %+v %d attempts are planned", last, len(plan))
		}
	}
}

// TestSimulateAnOutageOfUnfitAnswers: events that get a 422 for an hour are dead letters after
// three attempts under default, and wait under standard.
func TestSimulateAnOutageOfUnfitAnswers(t *testing.T) {
	for name, attempts := range map[string]float64{DefaultPreset: 3, "standard": 0} {
		s, err := ParseScenario([]byte(`{"policy":"`+name+`","outage":{"kind":"status","status":422,"duration":"1h"},"rate":"1/min"}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		r := Simulate(s)
		if lost := r.DeadLetters > 50; lost != (attempts > 0) || lost && r.AttemptsPerEvent > attempts {
			t.Errorf("%s: of %d events %d are dead letters, with %g attempts each", name, r.Events, r.DeadLetters, r.AttemptsPerEvent)
		}
	}
	for _, outage := range []string{`{"kind":"status"}`, `{"kind":"status","status":200}`, `{"kind":"status","status":600}`} {
		outage = strings.TrimSuffix(outage, "}") + `,"duration":"1h"}`
		if _, err := ParseScenario([]byte(`{"outage":`+outage+`}`), nil); err == nil || !strings.Contains(err.Error(), "/outage/status") {
			t.Errorf("%s: %v", outage, err)
		}
	}
}

func TestLimitsAreRead(t *testing.T) {
	for doc, want := range map[string]string{
		`[]`:   "[]",
		`null`: `[{"codes":["400","413","415","422"],"attempts":3,"within":"10m"}]`,
		`[{"codes":["4xx","timeout"],"attempts":5,"within":"1h"}]`: `[{"codes":["4xx","timeout"],"attempts":5,"within":"1h"}]`,
		`[{"codes":["422"],"attempts":2}]`:                         `[{"codes":["422"],"attempts":2}]`,
		`[{"codes":["422"],"attempts":2,"within":null}]`:           "/limits/0/within: is null",
		`{}`:                                "/limits: ",
		`[{"attempts":2}]`:                  "/limits/0/codes: is required",
		`[{"codes":["422"]}]`:               "/limits/0/attempts: is required",
		`[{"codes":["nope"],"attempts":2}]`: "/limits/0/codes/0: is neither",
		`[{"codes":["422"],"attempts":0}]`:  "/limits/0/attempts: must be from 1",
		`[{"codes":["422"],"attempts":2,"within":"0s"}]`: "/limits/0/within: must be longer",
		`[{"codes":["422"],"attempts":1,"tries":2}]`:     "/limits/0/tries: is not a field",
		`[{"codes":[],"attempts":2}]`:                    "/limits/0/codes: must name",
		`[{"codes":["422"],"attempts":1e9}]`:             "/limits/0/attempts: must be from 1",
	} {
		p, err := Parse([]byte(`{"limits":` + doc + `}`))
		if err != nil {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", doc, err, want)
			}
			continue
		}
		raw, _ := json.Marshal(p)
		if !strings.Contains(string(raw), `"limits":`+want) {
			t.Errorf("%s: written as %s, want %s", doc, raw, want)
		}
	}
}
