package policy

import "time"

// Simulate answers a scenario that ParseScenario has accepted. It is deterministic and asks After for every decision, so it
// shows what the engine would do by schedule. What the engine does beyond the schedule is left out: breaker, holds of a
// throttled endpoint, limits of rate and concurrency.
func Simulate(s Scenario) Report {
	run := simulation{Scenario: s, start: time.Unix(0, 0).UTC()}
	lanes := max(s.Keys, 1)
	free := make([]time.Time, lanes) // when the lane's event before was over
	blocked := make([]bool, lanes)   // a dead letter blocks the lane
	events := make([]simulated, int(s.count()))
	for i := range events {
		e := &events[i]
		e.arrived = run.arrival(i)
		lane := i % lanes
		if blocked[lane] {
			e.end = blockedEvent
			continue
		}
		from := e.arrived
		if s.Keys > 0 && free[lane].After(from) {
			from = free[lane]
		}
		run.deliver(e, from, mix(s.Seed, uint64(i)))
		free[lane] = e.over
		blocked[lane] = s.Keys > 0 && e.end == exhaustedEvent && s.Policy.Then == Block
	}
	return run.report(events)
}

type simulation struct {
	Scenario
	start    time.Time
	attempts []time.Time
}

// simulated is what became of one event.
type simulated struct {
	arrived, over time.Time
	attempts      int
	end           ending
	affected      bool
}

type ending int

const (
	deliveredEvent ending = iota
	failedEvent           // a decision ended it
	exhaustedEvent        // its attempts or its age
	blockedEvent          // never attempted
)

// arrival spaces the events evenly, the first half a gap from the start.
func (r *simulation) arrival(i int) time.Time {
	return r.start.Add(time.Duration((float64(i) + 0.5) / float64(r.Rate) * float64(time.Minute)))
}

func (r *simulation) deliver(e *simulated, from time.Time, seed uint64) {
	pr := Progress{Anchor: from, Seed: seed}
	at := r.Policy.First(pr).At
	pr.Anchor = at
	for {
		r.attempts = append(r.attempts, at)
		pr.Attempts++
		e.attempts++
		o, took := r.attempt(at, unit(^seed, uint64(pr.Attempts)))
		e.over = at.Add(took)
		step := r.Policy.After(pr, o, e.over)
		switch {
		case step.Decision == Deliver:
			e.end = deliveredEvent
		case step.Exhausted:
			e.end = exhaustedEvent
		case step.Next.IsZero():
			e.end = failedEvent
		default:
			at = step.Next
			continue
		}
		e.affected = e.attempts > 1 || r.out(e.arrived) || at.After(e.arrived.Add(r.Policy.firstWait()))
		return
	}
}

// out says whether the outage is on.
func (r *simulation) out(at time.Time) bool {
	since := at.Sub(r.start) - r.Outage.After.Std()
	return since >= 0 && since < r.Outage.Duration.Std()
}

// possible is when an event could have been delivered at the earliest.
func (r *simulation) possible(arrived time.Time) time.Time {
	if r.Outage.Kind == OutageDown && r.out(arrived) {
		return r.outageEnd()
	}
	return arrived.Add(r.Policy.firstWait())
}

func (r *simulation) outageEnd() time.Time {
	return r.start.Add(r.Outage.After.Std() + r.Outage.Duration.Std())
}

// attempt says what an attempt at that time comes to and how long it takes. luck is in [0, 1).
func (r *simulation) attempt(at time.Time, luck float64) (Outcome, time.Duration) {
	fine := Outcome{Status: 200, Class: ClassNone}
	if !r.out(at) {
		return fine, 0
	}
	switch r.Outage.Kind {
	case OutageFlaky:
		if luck < r.Outage.ErrorRate {
			return Outcome{Status: 500, Class: ClassStatus5xx}, 0
		}
		return fine, 0
	case OutageSlow:
		if r.Outage.Latency > r.Policy.Timeout {
			return Outcome{Class: ClassTimeout}, r.Policy.Timeout.Std()
		}
		return fine, r.Outage.Latency.Std()
	default:
		return Outcome{Class: ClassConnect}, 0
	}
}

// firstWait is the longest that a healthy event waits for its first attempt.
func (p *Policy) firstWait() time.Duration {
	return p.First(Progress{}).Latest.Sub(time.Time{})
}
