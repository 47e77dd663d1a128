package policy

import "time"

// Simulate answers a scenario that ParseScenario has accepted. It is deterministic. All decisions
// come from the functions that decide in the engine as well: After for a delivery; Circuit, Ramp
// and Strike for its endpoint.
//
// It simulates one endpoint with the default concurrency and no others. It leaves out rate limits,
// slots used by other endpoints, and the milliseconds of network and store. A policy without a
// breaker is simulated by its schedule, as if the endpoint accepted all requests at once.
func Simulate(s Scenario) Report {
	run := play(s, false)
	report := run.report()
	alone := report
	if run.gated || run.disabled > 0 {
		alone = play(s, true).report()
	}
	report.BySchedule = alone.comparison()
	return *report
}

// play runs a scenario to its end.
func play(s Scenario, alone bool) *simulation {
	r := &simulation{Scenario: s, alone: alone, rules: s.Policy.BreakerRules()}
	r.gated = !alone && !r.rules.Off
	r.ramp.Allow(usualConcurrency)
	r.events = make([]simulated, int(s.count()))
	for i := range r.events {
		r.events[i].arrived = time.Duration((float64(i) + 0.5) / float64(s.Rate) * float64(time.Minute))
	}
	lanes := len(r.events)
	if s.Keys > 0 {
		lanes = min(lanes, s.Keys)
		r.stuck = make([]bool, s.Keys)
	}
	for i := range lanes {
		r.lead(i, 0)
	}
	for r.step() {
	}
	r.settle()
	return r
}
