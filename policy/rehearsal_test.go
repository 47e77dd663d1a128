package policy

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/grapnelhq/grapnel/internal/base/rapidtest"
)

// The effect of the breaker on a simulated outage. Schedules alone are in simulate_test.go.

func TestWhatWaitedIsDrainedSoonAfterTheReturn(t *testing.T) {
	for _, p := range Presets() {
		if p.Reach().Nominal < 6*time.Hour {
			continue
		}
		r := Simulate(scenario(t, fmt.Sprintf(`{"policy":%q,"outage":{"duration":"6h"},"rate":"4/min"}`, p.Name)))
		if r.DeadLetters+r.Discarded > 0 || r.Delivered != 1440 || r.Affected != 1440 || r.AttemptsPerEvent >= 1.2 || r.Opened != 1 {
			t.Errorf("%s: %+v", p.Name, r)
		}
		// The pause is 12.5 s in the first minutes, a thirtieth of the outage until that is five minutes,
		// then five minutes.
		if most := p.BreakerRules().most(6 * time.Hour); r.NoticedAfter <= 0 || r.NoticedAfter.Std() > most {
			t.Errorf("%s: noticed after %v, the longest wait between probes is %v", p.Name, r.NoticedAfter, most)
		}
		if r.Probes < 150 || r.Probes > 180 {
			t.Errorf("%s: %d probes in six hours", p.Name, r.Probes)
		}
		near(t, p.Name+" let go within", (r.DrainedAfter - r.NoticedAfter).Std().Seconds(), DrainTime(1440, 0).Seconds(), 0.1)
		if r.ExtraWait.Max > r.DrainedAfter || r.ExtraWait.P50 < r.NoticedAfter-sec || r.BySchedule.ExtraWait.P50 < 5*r.ExtraWait.P50 {
			t.Errorf("%s: waits %+v, by schedule alone %+v", p.Name, r.ExtraWait, r.BySchedule.ExtraWait)
		}
	}
}

// TestProbesKeepToSchedules: probes are due deliveries. If all pending deliveries of an endpoint
// are behind one event, no probe is possible between that event's attempts.
func TestProbesKeepToSchedules(t *testing.T) {
	const lone = `{"policy":"paylera","outage":{"duration":"6h"},"rate":"4/min","keys":%d}`
	one := Simulate(scenario(t, fmt.Sprintf(lone, 1)))
	if one.Probes == 0 || one.DeadLetters > 0 || one.Attempts != one.BySchedule.Attempts {
		t.Errorf("one key: %+v", one)
	}
	near(t, "one key is noticed by its schedule", one.NoticedAfter.Std().Hours(), one.BySchedule.DrainedAfter.Std().Hours(), 0.01)
	many := Simulate(scenario(t, fmt.Sprintf(lone, 100)))
	if many.NoticedAfter > 6*mins || many.DeadLetters > 0 {
		t.Errorf("a hundred keys: %+v", many)
	}
}

func TestWhatIsTooOldIsGivenUpWhileItIsOpen(t *testing.T) {
	const policy = `{"policy":{"schedule":{"delays":["0s","10m","20m"],"tail":"repeat"},"max_age":"1h","on_exhausted":%q},"outage":{"duration":"2h"},"rate":"1/min"}`
	r := Simulate(scenario(t, fmt.Sprintf(policy, DeadLetter)))
	// Most events of the first hour expire before the endpoint recovers. The hour of an event that was
	// a probe counts from that probe.
	if r.DeadLetters < 40 || r.DeadLetters > 64 || r.Discarded > 0 || r.Opened != 1 || r.NoticedAfter > 6*mins {
		t.Errorf("%+v", r)
	}
	if d := Simulate(scenario(t, fmt.Sprintf(policy, Discard))); d.Discarded != r.DeadLetters || d.DeadLetters > 0 {
		t.Errorf("discarding: %+v", d)
	}
	keyed := scenario(t, fmt.Sprintf(policy, DeadLetter))
	keyed.Keys = 10
	if k := Simulate(keyed); k.Delivered+k.DeadLetters != k.Events || k.DeadLetters < 10 || k.DeadLetters > 30 {
		t.Errorf("with ten keys, of which each head has its hour: %+v", k)
	}
}

func TestAnEndpointIsDisabled(t *testing.T) {
	const policy = `{"policy":{"disable":{"after":"1h","pending":%q}%s},"outage":{"duration":"3h"},"rate":"1/min","duration":"4h"}`
	for _, breaker := range []string{"", `,"breaker":false`} {
		hold := Simulate(scenario(t, fmt.Sprintf(policy, PendingHold, breaker)))
		if hold.DisabledAfter < hour || hold.DisabledAfter > hour+6*mins || hold.Delivered > 0 || hold.Held != hold.Events {
			t.Errorf("held: %+v", hold)
		}
		if hold.BySchedule.DeadLetters > 0 || hold.BySchedule.Attempts <= hold.Attempts {
			t.Errorf("by schedule alone nothing is disabled: %+v", hold.BySchedule)
		}
		drop := Simulate(scenario(t, fmt.Sprintf(policy, PendingDrop, breaker)))
		if drop.DisabledAfter != hold.DisabledAfter || drop.Dropped != drop.Events || drop.Held > 0 || drop.Series[points-1].Backlog > 0 {
			t.Errorf("dropped: %+v", drop)
		}
	}
	flaky := Simulate(
		scenario(
			t,
			`{"policy":{"disable":{"consecutive":4,"of":"status_5xx"},"breaker":{"failures":100}},"outage":{"kind":"flaky","error_rate":1,"duration":"1h"}}`,
		),
	)
	if flaky.DisabledAfter.Std() != 52500*time.Millisecond || flaky.Held != flaky.Events {
		t.Errorf("disabled by the fourth event, at 52.5 s: %+v", flaky)
	}
}

func TestWhatBlocksAKey(t *testing.T) {
	const policy = `{"policy":{"schedule":{"delays":["0s"]},"then":"block",%s},"outage":{"duration":"1m"},"rate":"1/min","duration":"10m","keys":2}`
	for what, stuck := range map[string]int{
		`"on_exhausted":"dead_letter"`:  4, // the others of its key
		`"classify":{"connect":"fail"}`: 4,
		`"on_exhausted":"discard"`:      0, // they need not wait
	} {
		if r := Simulate(scenario(t, fmt.Sprintf(policy, what))); r.Blocked != stuck || r.Delivered != 9-stuck {
			t.Errorf("%s: %+v", what, r)
		}
	}
}

func TestAThrottledEndpointIsSpared(t *testing.T) {
	const policy = `{"policy":{"schedule":{"delays":["0s","10m"],"tail":"repeat"},"max_attempts":100,"jitter":0,"classify":{"connect":"throttle"}},"outage":{"duration":"30m"},"rate":"10/min"}`
	r := Simulate(scenario(t, policy))
	// No answer names a pause, so each refusal pauses the endpoint for a minute. The deliveries due by
	// then begin together, half as many each time.
	if r.Opened > 0 || r.Attempts > 300+31+32 || r.BySchedule.Attempts < 3*300/2 || r.Delivered != 300 {
		t.Errorf("%+v", r)
	}
}

// TestSlowAnswersHoldConcurrency: an endpoint's concurrency is limited as usual, so slow answers
// make deliveries queue.
func TestSlowAnswersHoldConcurrency(t *testing.T) {
	r := Simulate(scenario(t, `{"outage":{"kind":"slow","latency":"10s","duration":"10m"},"rate":"4/s"}`))
	if r.Opened > 0 || r.AttemptsPerEvent != 1 || r.PeakBacklog < 400 || r.BySchedule.ExtraWait.Max != 10*sec {
		t.Errorf("40 at once are needed and 32 allowed: %+v", r)
	}
	hanging := Simulate(scenario(t, `{"policy":"paylera","outage":{"kind":"slow","latency":"12s","duration":"1h"}}`))
	if hanging.AttemptsPerEvent > 2 || hanging.DeadLetters > 0 || hanging.NoticedAfter > 3*mins ||
		hanging.DrainedAfter > hanging.NoticedAfter+10*sec {
		t.Errorf("slower than the timeout: %+v", hanging)
	}
}

func TestAFlakyEndpointIsNotGivenUp(t *testing.T) {
	r := Simulate(scenario(t, `{"policy":"svix","outage":{"kind":"flaky","error_rate":0.3,"duration":"24h"},"rate":"4/min"}`))
	near(t, "attempts per event", r.AttemptsPerEvent, 1/0.7, 0.05)
	if r.Opened == 0 || r.DeadLetters > 2 || r.ExtraWait.P50 > 0 || r.ExtraWait.Max > r.BySchedule.ExtraWait.Max {
		t.Errorf("%+v", r)
	}
}

// TestSurvivesWhateverArrives: no event is lost in a complete outage of that length, for any number
// of keys, policy, breaker and jitter.
func TestSurvivesWhateverArrives(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		s := Scenario{
			Policy: drawPolicy().Draw(t, "policy"), Rate: Rate(rapid.Float64Range(0.5, 10).Draw(t, "rate")), Duration: 4 * hour,
			Keys: rapid.IntRange(0, 20).Draw(t, "keys"), Seed: rapid.Uint64().Draw(t, "seed"), Outage: Outage{Kind: OutageDown, Duration: 1},
		}
		s.Policy.Disable = Disable{Of: ClassStatus4xx, Pending: PendingHold}
		if s.Policy.Breaker == nil {
			b := DefaultBreaker()
			b.Probe = Duration(rapid.Int64Range(int64(10*time.Millisecond), int64(10*time.Minute)).Draw(t, "probe"))
			b.ProbeMax = b.Probe + Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "probe_max"))
			s.Policy.Breaker = &b
		}
		survives := (&simulation{Scenario: s, gated: !s.Policy.Breaker.Off, rules: *s.Policy.Breaker}).survives()
		s.Outage.Duration = survives
		// Pauses of zero would be attempts without end.
		if s.check().orNil() != nil {
			t.Skip("too many attempts")
		}
		if r := Simulate(s); r.DeadLetters+r.Discarded > 0 || r.Survives != survives {
			t.Fatalf("an outage of %v, which it survives, loses %d; it says it survives %v", survives, r.DeadLetters+r.Discarded, r.Survives)
		}
	})
}

// TestAnAgeIsSurvivedButForAProbe: a delivery that was never attempted expires at its age, counted
// from when it became the head of its key. The last probe of the outage can be some time before the
// outage's end.
func TestAnAgeIsSurvivedButForAProbe(t *testing.T) {
	for _, c := range []struct {
		first    string // the pause before the first attempt
		arrive   string
		survives Duration
	}{{"0s", "11m", hour - 2*mins - 6*sec}, {"10m", "1m", 50*mins - 2*mins - 6*sec}} {
		s := scenario(t, fmt.Sprintf(`{"policy":{"schedule":{"delays":[%q,"1m"],"tail":"repeat"},"max_age":"1h","jitter":0},
			"outage":{"after":"10m","duration":"1h"},"rate":"2/s","duration":%q}`, c.first, c.arrive))
		lost := func(outage Duration) int {
			s.Outage.Duration = outage
			r := Simulate(s)
			if r.Survives != c.survives {
				t.Errorf("first after %s: survives %v, want %v", c.first, r.Survives, c.survives)
			}
			return r.DeadLetters
		}
		if n := lost(c.survives); n > 0 {
			t.Errorf("first after %s: %d are lost in an outage of %v", c.first, n, c.survives)
		}
		longer := c.survives
		for longer < c.survives+3*mins && lost(longer) == 0 {
			longer += 10 * sec
		}
		if longer >= c.survives+3*mins {
			t.Errorf("first after %s: nothing is lost in outages from %v to %v", c.first, c.survives, longer)
		}
	}
}

// TestSurvivesNoLonger: a single event has its attempts at the times of its schedule, with a
// breaker and without.
func TestSurvivesNoLonger(t *testing.T) {
	for _, p := range Presets() {
		p.Jitter = Jitter{}
		for _, off := range []bool{true, false} {
			s := Scenario{Policy: p, Rate: 1, Duration: mins, Seed: 1, Outage: Outage{Kind: OutageDown}}
			s.Policy.Disable.After = 0
			s.Policy.Breaker = &Breaker{Off: true}
			if !off {
				s.Policy.Breaker = nil
			}
			first := 30 * time.Second // the event's arrival
			s.Outage.Duration = Duration(p.Reach().Nominal + first)
			if r := Simulate(s); r.Delivered != 1 {
				t.Errorf("%s, breaker off %v: lost in an outage of its reach: %+v", p.Name, off, r)
			}
			s.Outage.Duration += sec
			if r := Simulate(s); r.Delivered != 0 || r.Attempts != p.Reach().Attempts {
				t.Errorf("%s, breaker off %v: one second more: %+v", p.Name, off, r)
			}
		}
	}
}

func BenchmarkSimulate(b *testing.B) {
	for _, raw := range []string{
		`{"policy":"sent","outage":{"duration":"72h"},"rate":"16/min"}`,
		`{"policy":"paylera","outage":{"duration":"24h"},"rate":"69/min","keys":1000}`,
		`{"policy":"parseo","outage":{"kind":"flaky","error_rate":0.5,"duration":"1h"},"rate":"1600/min"}`,
	} {
		s, err := ParseScenario([]byte(raw), nil)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(s.Policy.Name, func(b *testing.B) {
			for b.Loop() {
				Simulate(s)
			}
		})
	}
}
