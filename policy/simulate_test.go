package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/grapnelhq/grapnel/internal/base/rapidtest"
)

func scenario(t *testing.T, raw string) Scenario {
	t.Helper()
	s, err := ParseScenario([]byte(raw), nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// bySchedule removes the breaker from a scenario.
func bySchedule(s Scenario) Scenario {
	s.Policy.Breaker = &Breaker{Off: true}
	return s
}

// TestSimulatedPresets compares schedules alone with figures that another program computed, with 10
// % of jitter to both sides: 4,000 events spread over an outage in which connections are refused.
func TestSimulatedPresets(t *testing.T) {
	hours := func(h float64) time.Duration { return time.Duration(h * float64(time.Hour)) }
	for _, c := range []struct {
		outage   int // hours
		policy   string
		lost     float64 // share of the events
		p50, p95 time.Duration
		attempts float64
	}{
		{6, "parseo", 0, hours(3), hours(5.8), 7.5},
		{6, "paylera", 0, hours(3), hours(5.7), 6.5},
		{6, "sent", 0, 30 * time.Minute, 57 * time.Minute, 8.3},
		{6, "webhookify", 0, hours(4.9), hours(7.8), 5.5},
		{6, "svix", 0, hours(2.1), hours(4.7), 5.5},
		{72, "parseo", 0.55, hours(7.5), hours(22), 8.8},
		{72, "paylera", 0.38, hours(7.2), hours(22), 8.6},
		{72, "webhookify", 0.52, hours(7.4), hours(22), 6.8},
		{72, "svix", 0.62, hours(3.6), hours(9.3), 7.6},
		{72, "sent", 0.67, 31 * time.Minute, 58 * time.Minute, 24.4},
		{72, "standard", 0.001, hours(8), hours(20.6), 8.5},
	} {
		s := scenario(t, fmt.Sprintf(`{"policy":%q,"outage":{"duration":"%dh"},"rate":{"per_minute":%v}}`,
			c.policy, c.outage, 4000/60.0/float64(c.outage)))
		r := Simulate(bySchedule(s))
		lost := float64(r.DeadLetters+r.Discarded) / float64(r.Events)
		if r.Affected != r.Events || math.Abs(lost-c.lost) > 0.03 {
			t.Errorf("%s, %d h: %d of %d events affected, %.3f lost, want %.3f", c.policy, c.outage, r.Affected, r.Events, lost, c.lost)
		}
		near(t, c.policy+" p50", r.ExtraWait.P50.Std().Hours(), c.p50.Hours(), 0.12)
		near(t, c.policy+" p95", r.ExtraWait.P95.Std().Hours(), c.p95.Hours(), 0.08)
		near(t, c.policy+" attempts per event", r.AttemptsPerEvent, c.attempts, 0.03)
		p, _ := Preset(c.policy)
		if r.Survives.Std() != p.Reach().Nominal {
			t.Errorf("%s survives %v, its reach is %v", c.policy, r.Survives, p.Reach().Nominal)
		}
		if with := Simulate(s); with.BySchedule != r.BySchedule || r.BySchedule != r.comparison() {
			t.Errorf("%s by schedule: %+v without a breaker, %+v beside one", c.policy, r.BySchedule, with.BySchedule)
		}
		if discards := c.policy == "sent"; discards && r.DeadLetters > 0 || !discards && r.Discarded > 0 {
			t.Errorf("%s: %d dead letters, %d discarded", c.policy, r.DeadLetters, r.Discarded)
		}
	}
}

func near(t *testing.T, what string, got, want, part float64) {
	t.Helper()
	if math.Abs(got-want) > part*want {
		t.Errorf("%s is %.3f, want %.3f", what, got, want)
	}
}

func TestSurvivesExactlyItsReach(t *testing.T) {
	const policy = `"policy":{"schedule":{"delays":["0s","1h","2h"]},"jitter":0,"breaker":false},"rate":"1/min"`
	if r := Simulate(scenario(t, `{`+policy+`,"outage":{"duration":"3h"}}`)); r.DeadLetters != 0 || r.Survives != 3*hour {
		t.Errorf("%d dead letters in an outage as long as the reach %v", r.DeadLetters, r.Survives)
	}
	if r := Simulate(scenario(t, `{`+policy+`,"outage":{"duration":"3h10m"}}`)); r.DeadLetters != 10 {
		t.Errorf("%d dead letters, want those of the first ten minutes", r.DeadLetters)
	}
	r := Simulate(scenario(t, `{"policy":{"classify":{"connect":"fail"}},"outage":{"duration":"10m"},"rate":"1/min","duration":"20m"}`))
	if r.Survives != 0 || r.DeadLetters != 10 || r.Delivered != 10 || r.Attempts != 20 {
		t.Errorf("a policy that gives up at once: %+v", r)
	}
}

func TestEventsOfAKeyWaitForEachOther(t *testing.T) {
	// One event a minute at 0:30, 1:30 …; the endpoint is down for the first two minutes; retries
	// every ten minutes.
	const rest = `,"policy":{"schedule":{"delays":["0s","10m"],"tail":"repeat"},"jitter":0,"breaker":false},"outage":{"duration":"2m"},"rate":"1/min","duration":"20m"}`
	free := Simulate(scenario(t, `{"keys":0`+rest))
	if free.Affected != 2 || free.ExtraWait.Max.Std() != 9*time.Minute+30*time.Second || free.PeakBacklog != 2 {
		t.Errorf("without keys: %+v", free)
	}
	one := Simulate(scenario(t, `{"keys":1`+rest))
	// The head is delivered at 10:30, and with it all events that arrived before.
	if one.Affected != 10 || one.PeakBacklog != 10 || one.Attempts != 21 || one.DrainedAfter.Std() != 8*time.Minute+30*time.Second {
		t.Errorf(
			"with one key: affected %d, peak %d, attempts %d, drained after %v",
			one.Affected,
			one.PeakBacklog,
			one.Attempts,
			one.DrainedAfter,
		)
	}
	two := Simulate(scenario(t, `{"keys":2`+rest))
	if two.Attempts != 22 || two.Delivered != 20 {
		t.Errorf("with two keys: %+v", two)
	}
}

func TestABlockedKeyWaitsForAPerson(t *testing.T) {
	r := Simulate(
		scenario(
			t,
			`{"policy":{"schedule":{"delays":["0s"]},"then":"block"},"outage":{"duration":"1m"},"rate":"1/min","duration":"10m","keys":2}`,
		),
	)
	if r.DeadLetters != 1 || r.Blocked != 4 || r.Delivered != 5 || r.Series[points-1].Backlog != 4 {
		t.Errorf("%+v", r)
	}
	r = Simulate(
		scenario(t, `{"policy":{"schedule":{"delays":["0s"]},"then":"block"},"outage":{"duration":"1m"},"rate":"1/min","duration":"10m"}`),
	)
	if r.DeadLetters != 1 || r.Blocked != 0 {
		t.Errorf("without keys nothing waits: %+v", r)
	}
}

func TestFlakyEndpoint(t *testing.T) {
	r := Simulate(bySchedule(scenario(t, `{"policy":"svix","outage":{"kind":"flaky","error_rate":0.3,"duration":"24h"},"rate":"4/min"}`)))
	// Each attempt fails with a probability of 0.3, so an event takes 1/0.7 of them.
	near(t, "attempts per event", r.AttemptsPerEvent, 1/0.7, 0.03)
	if r.DeadLetters > 2 || r.ExtraWait.P50 != 0 {
		t.Errorf("%+v", r)
	}
}

func TestSlowEndpoint(t *testing.T) {
	slow := Simulate(scenario(t, `{"policy":"paylera","outage":{"kind":"slow","latency":"9s","duration":"1h"}}`))
	if slow.AttemptsPerEvent != 1 || slow.ExtraWait.Max.Std() != 9*time.Second {
		t.Errorf("slower but within the timeout: %+v", slow)
	}
	hanging := Simulate(bySchedule(scenario(t, `{"policy":"paylera","outage":{"kind":"slow","latency":"12s","duration":"1h"}}`)))
	if hanging.AttemptsPerEvent < 4 || hanging.DeadLetters != 0 {
		t.Errorf("slower than the timeout: %+v", hanging)
	}
}

func TestSimulationAddsUp(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		s := Scenario{
			Policy: drawPolicy().Draw(t, "policy"), Rate: Rate(rapid.Float64Range(0.1, 10).Draw(t, "rate")),
			Duration: Duration(rapid.Int64Range(int64(time.Hour), int64(4*time.Hour)).Draw(t, "duration")),
			Keys:     rapid.IntRange(0, 5).Draw(t, "keys"), Seed: rapid.Uint64().Draw(t, "seed"),
			Outage: Outage{
				Kind: rapid.SampledFrom([]OutageKind{OutageDown, OutageFlaky, OutageSlow}).Draw(t, "kind"),
				After: Duration(
					rapid.Int64Range(0, int64(time.Hour)).Draw(t, "after"),
				),
				Duration:  Duration(rapid.Int64Range(1e6, int64(90*time.Hour)).Draw(t, "outage")),
				ErrorRate: 0.5,
				Latency:   12 * sec,
			},
		}
		if err := s.check().orNil(); err != nil {
			t.Fatal(err)
		}
		r := Simulate(s)
		arrived, attempts, highest := 0, 0, 0
		for _, p := range r.Series {
			arrived, attempts, highest = arrived+p.Arrived, attempts+p.Attempts, max(highest, p.Backlog)
		}
		switch {
		case r.Delivered+r.DeadLetters+r.Discarded+r.Dropped+r.Blocked+r.Held != r.Events || r.Events != int(s.count()):
			t.Fatalf("events went missing: %+v", r)
		case arrived != r.Events || attempts != r.Attempts:
			t.Fatalf("the series has %d arrivals and %d attempts, the report %d and %d", arrived, attempts, r.Events, r.Attempts)
		case r.Series[points-1].Backlog != r.Blocked+r.Held || highest > r.PeakBacklog:
			t.Fatalf("the backlog ends at %d with %d blocked; peak %d, highest %d", r.Series[points-1].Backlog, r.Blocked, r.PeakBacklog, highest)
		case r.ExtraWait.P50 > r.ExtraWait.P95 || r.ExtraWait.P95 > r.ExtraWait.Max:
			t.Fatalf("%+v", r.ExtraWait)
		case (r.Held+r.Dropped > 0) && r.DisabledAfter == 0 || r.Probes > r.Attempts || r.Probes > 0 && r.Opened == 0:
			t.Fatalf("%+v", r)
		case !reflect.DeepEqual(r, Simulate(s)):
			t.Fatal("the same scenario gave another report")
		}
	})
}

func TestScenarioDefaults(t *testing.T) {
	s := scenario(t, `{"outage":{"after":"10m","duration":"6h"}}`)
	if s.Policy.Name != "default" || s.Rate != 4 || s.Duration != 6*hour+10*mins || s.Seed != 1 || s.Outage.Kind != OutageDown ||
		s.Keys != 0 {
		t.Errorf("%+v", s)
	}
	for raw, want := range map[string]Rate{
		`"4/min"`: 4, `"10/s"`: 600, `"120/h"`: 2, `"0.5/m"`: 0.5, `{"per_minute":4}`: 4, `{"per_second":1}`: 60, `{"per_hour":60}`: 1,
	} {
		if got := scenario(t, `{"outage":{"duration":"1h"},"rate":`+raw+`}`).Rate; math.Abs(float64(got-want)) > 1e-9 {
			t.Errorf("%s is %v per minute, want %v", raw, got, want)
		}
	}
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if back := scenario(t, string(raw)); !reflect.DeepEqual(back, s) {
		t.Errorf("%s comes back as %+v", raw, back)
	}
}

func TestScenarioNamesPoliciesOfItsOwn(t *testing.T) {
	named := func(name string) (Policy, bool) {
		p := standard()
		p.Name = name
		return p, name == "mine"
	}
	s, err := ParseScenario([]byte(`{"policy":"mine","outage":{"duration":"1h"}}`), named)
	if err != nil || s.Policy.Name != "mine" {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err = ParseScenario([]byte(`{"policy":"sent","outage":{"duration":"1h"}}`), named); err == nil {
		t.Error("a preset was found by a lookup that does not know it")
	}
}

func TestParseScenarioReportsEveryWrongField(t *testing.T) {
	for raw, want := range map[string][]string{
		`{}`:                                 {"/outage/duration"},
		`[]`:                                 {""},
		`{"outage":{}}`:                      {"/outage/duration"},
		`{"outage":"long"}`:                  {"/outage"},
		`{"outage":{"duration":"1h"},"x":1}`: {"/x"},
		`{"outage":{"duration":"-1h","kind":"up","error_rate":2,"after":"x"}}`: {"/outage/after"},
		`{"outage":{"duration":"-1h","kind":"up","error_rate":2}}`: {"/duration", "/outage/duration",
			"/outage/error_rate", "/outage/kind"},
		`{"outage":{"duration":"1h","kind":"flaky"}}`:                                           {"/outage/error_rate"},
		`{"outage":{"duration":"1h","kind":"slow"}}`:                                            {"/outage/latency"},
		`{"outage":{"duration":"1h","latency":5}}`:                                              {"/outage/latency"},
		`{"outage":{"duration":"1h"},"policy":"nope"}`:                                          {"/policy"},
		`{"outage":{"duration":"1h"},"policy":7}`:                                               {"/policy"},
		`{"outage":{"duration":"1h"},"policy":{"timeout":"0s","schedule":{"delays":["0s",1]}}}`: {"/policy/schedule/delays/1", "/policy/timeout"},
		`{"outage":{"duration":"1h"},"rate":"fast"}`:                                            {"/rate"},
		`{"outage":{"duration":"1h"},"rate":"4/day"}`:                                           {"/rate"},
		`{"outage":{"duration":"1h"},"rate":4}`:                                                 {"/rate"},
		`{"outage":{"duration":"1h"},"rate":"-4/min"}`:                                          {"/rate"},
		`{"outage":{"duration":"1h"},"rate":"NaN/min"}`:                                         {"/rate"},
		`{"outage":{"duration":"1h"},"rate":{"per_minute":"x"}}`:                                {"/rate/per_minute"},
		`{"outage":{"duration":"1h"},"rate":"1000/s"}`:                                          {"/rate"},
		`{"outage":{"duration":"1s"},"rate":"1/h"}`:                                             {"/rate"},
		`{"outage":{"duration":"1h"},"rate":"20/s","policy":"sent"}`:                            {"/rate"},
		`{"outage":{"duration":"1h"},"keys":-1}`:                                                {"/keys"},
		`{"outage":{"duration":"1h"},"seed":-1}`:                                                {"/seed"},
		`{"outage":{"duration":"1h"},"duration":"never"}`:                                       {"/duration"},
	} {
		_, err := ParseScenario([]byte(raw), nil)
		var errs Errors
		if !errors.As(err, &errs) {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		var got []string
		for _, e := range errs {
			got = append(got, e.Pointer)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s\nreports %q, want %q: %v", raw, got, want, err)
		}
	}
}

func FuzzParseScenario(f *testing.F) {
	f.Add([]byte(`{"policy":"sent","outage":{"kind":"flaky","error_rate":0.3,"duration":"6h"},"rate":"4/min","keys":3,"seed":7}`))
	f.Add([]byte(`{"policy":{"timeout":"1s"},"outage":{"kind":"slow","latency":"2s","duration":"1m"},"rate":{"per_hour":600}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := ParseScenario(raw, nil)
		if err != nil || s.count() > 1000 {
			return
		}
		if r := Simulate(s); r.Delivered+r.DeadLetters+r.Discarded+r.Dropped+r.Blocked+r.Held != r.Events {
			t.Fatalf("%s: %+v", raw, r)
		}
	})
}
