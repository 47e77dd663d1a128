package policy_test

import (
	"fmt"
	"time"

	"github.com/grapnelhq/grapnel/policy"
)

// A delivery fails, and the policy returns the time of the next attempt. The receiver's Retry-After
// lengthens the pause.
func ExamplePolicy_After() {
	p, _ := policy.Preset("paylera")
	start := time.Date(2026, 5, 6, 8, 0, 0, 0, time.UTC)
	progress := policy.Progress{Attempts: 2, Anchor: start}
	ended := start.Add(16 * time.Second)

	step := p.After(progress, policy.Outcome{Class: policy.ClassTimeout}, ended)
	fmt.Println(step.Decision, step.Next.Format(time.TimeOnly))

	step = p.After(progress, policy.Outcome{Status: 429, RetryAfter: 5 * time.Minute, HasRetryAfter: true}, ended)
	fmt.Println(step.Decision, step.Next.Format(time.TimeOnly))

	step = p.After(progress, policy.Outcome{Status: 410}, ended)
	fmt.Println(step.Decision, step.Next.IsZero())
	// Output:
	// retry 08:01:16
	// throttle 08:05:16
	// retry false
}

// All faults of a policy are reported at once.
func ExampleParse() {
	_, err := policy.Parse([]byte(`{"timeout":"10", "schedule":{"delays":["0s","-5s"]}, "retries":3}`))
	fmt.Println(err)
	// Output:
	// policy: /timeout: is not a duration such as "90s", "1h30m" or "30d"; /retries: is not a field here; the fields are name, preset, shape, timeout, schedule, jitter, max_attempts, max_age, success, classify, limits, retry_after, on_exhausted, then, disable, breaker; /schedule/delays/1: must be from 0s to 720h
}

// The effect of an outage of six hours.
func ExampleSimulate() {
	scenario, err := policy.ParseScenario([]byte(`{"policy":"parseo", "outage":{"kind":"down","duration":"6h"}, "rate":"4/min"}`), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	r := policy.Simulate(scenario)
	fmt.Printf("%d events, %d lost, %.1f attempts each, %d probes\n", r.Affected, r.DeadLetters+r.Discarded, r.AttemptsPerEvent, r.Probes)
	fmt.Printf("its return is noticed after %v, all are delivered after %v\n",
		r.NoticedAfter.Std().Round(time.Second), r.DrainedAfter.Std().Round(time.Second))
	fmt.Printf("by schedule alone: %.1f attempts each, half within %v, all within %v\n", r.BySchedule.AttemptsPerEvent,
		r.BySchedule.ExtraWait.P50.Std().Round(time.Minute), r.BySchedule.DrainedAfter.Std().Round(time.Minute))
	fmt.Println("survives", r.Survives)
	// Output:
	// 1440 events, 0 lost, 1.1 attempts each, 166 probes
	// its return is noticed after 2m41s, all are delivered after 2m47s
	// by schedule alone: 7.5 attempts each, half within 3h0m0s, all within 6h0m0s
	// survives 32h35m36s
}

// A document is compared with itself.
func ExampleLint() {
	findings := policy.Lint(policy.Claims{Schedule: policy.ScheduleClaims{
		Table: []policy.Duration{0, policy.Duration(10 * time.Minute), policy.Duration(time.Hour)},
		Mode:  policy.SincePrevious, Tail: policy.TailStop, Attempts: 5, Window: policy.Duration(time.Hour), Jitter: "none",
	}})
	for _, f := range findings {
		fmt.Printf("%s: %s\n", f.Code, f.Detail)
	}
	// Output:
	// attempts-differ: 5 in words, 3 in the table
	// window-differs: 1h in words, 1h10m in the table; 2 of its 3 attempts are within 1h
	// since-first-fits: as offsets its last attempt is at 1h, the window is 1h
}
