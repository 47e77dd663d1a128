package policy

import (
	"math"
	"slices"
	"time"
)

// Report is what Simulate found. Durations are counted from the first event.
type Report struct {
	Policy      string `json:"policy"`
	Events      int    `json:"events"`
	Delivered   int    `json:"delivered"`
	DeadLetters int    `json:"dead_letters"`
	Discarded   int    `json:"discarded"`
	Blocked     int    `json:"blocked"` // wait behind a dead letter of their key, for a person
	Attempts    int    `json:"attempts"`

	// Affected are the events that arrived during the outage or waited because of it. The next two are about them.
	Affected         int     `json:"affected"`
	AttemptsPerEvent float64 `json:"attempts_per_event"`
	ExtraWait        Wait    `json:"extra_wait"` // of those that were delivered

	PeakBacklog  int      `json:"peak_backlog"`
	DrainedAfter Duration `json:"drained_after"` // from the end of the outage until the last affected event was over
	RecoveryPeak int      `json:"recovery_peak"` // most attempts within one minute after the outage
	Survives     Duration `json:"survives"`      // the longest complete outage in which no event is lost
	Series       []Point  `json:"series"`
}

// Wait is how long events waited beyond what the outage made inevitable: while an endpoint is down nothing can be delivered, so
// there the wait counts from its return, else from the event's arrival.
type Wait struct {
	P50 Duration `json:"p50"`
	P95 Duration `json:"p95"`
	Max Duration `json:"max"`
}

// Point is one of the equal parts that the simulated time is cut into.
type Point struct {
	At       Duration `json:"at"` // its end
	Healthy  bool     `json:"healthy"`
	Arrived  int      `json:"arrived"`  // within it
	Attempts int      `json:"attempts"` // within it
	Backlog  int      `json:"backlog"`  // at its end
}

// points is how many parts a series has.
const points = 60

func (r *simulation) report(events []simulated) Report {
	rep := Report{Policy: r.Policy.Name, Events: len(events), Attempts: len(r.attempts), Survives: r.survives()}
	var waits []time.Duration
	tries := 0
	for i := range events {
		e := &events[i]
		switch {
		case e.end == deliveredEvent:
			rep.Delivered++
		case e.end == blockedEvent:
			rep.Blocked++
			continue
		case e.end == exhaustedEvent && r.Policy.OnExhausted == Discard:
			rep.Discarded++
		default:
			rep.DeadLetters++
		}
		if !e.affected {
			continue
		}
		rep.Affected++
		tries += e.attempts
		rep.DrainedAfter = max(rep.DrainedAfter, Duration(e.over.Sub(r.outageEnd())))
		if e.end == deliveredEvent {
			waits = append(waits, max(e.over.Sub(r.possible(e.arrived)), 0))
		}
	}
	if rep.Affected > 0 {
		rep.AttemptsPerEvent = math.Round(100*float64(tries)/float64(rep.Affected)) / 100
	}
	rep.ExtraWait = percentiles(waits)
	rep.RecoveryPeak = busiest(r.attempts, r.outageEnd())
	rep.Series, rep.PeakBacklog = r.series(events)
	return rep
}

// survives is the policy's reach, unless it gives up at the first refused connection.
func (r *simulation) survives() Duration {
	if d := r.Policy.Decide(Outcome{Class: ClassConnect}); d != Retry && d != Throttle {
		return 0
	}
	return Duration(r.Policy.Reach().Nominal)
}

func percentiles(waits []time.Duration) Wait {
	if len(waits) == 0 {
		return Wait{}
	}
	slices.Sort(waits)
	rank := func(part float64) Duration {
		return Duration(waits[min(int(part*float64(len(waits))), len(waits)-1)].Truncate(time.Millisecond))
	}
	return Wait{P50: rank(0.5), P95: rank(0.95), Max: rank(1)}
}

// busiest is the most attempts in one minute, counted from the given time.
func busiest(attempts []time.Time, from time.Time) int {
	perMinute := map[int64]int{}
	most := 0
	for _, at := range attempts {
		if since := at.Sub(from); since >= 0 {
			minute := int64(since / time.Minute)
			perMinute[minute]++
			most = max(most, perMinute[minute])
		}
	}
	return most
}

// series cuts the time from the first event to the last thing that happened into equal parts.
func (r *simulation) series(events []simulated) (series []Point, peak int) {
	last := r.Duration.Std()
	for _, at := range r.attempts {
		last = max(last, at.Sub(r.start))
	}
	step := max(last/points+1, time.Millisecond)
	series = make([]Point, points)
	for i := range series {
		end := step * time.Duration(i+1)
		series[i].At = Duration(end.Truncate(time.Millisecond))
		series[i].Healthy = !r.out(r.start.Add(end - step/2))
	}
	part := func(at time.Time) int { return min(int(at.Sub(r.start)/step), points-1) }
	for _, at := range r.attempts {
		series[part(at)].Attempts++
	}
	type change struct {
		at time.Time
		by int
	}
	var changes []change
	for i := range events {
		e := &events[i]
		series[part(e.arrived)].Arrived++
		changes = append(changes, change{e.arrived, 1})
		if e.end != blockedEvent {
			changes = append(changes, change{e.over, -1})
		}
	}
	// At one instant what ends goes before what arrives, and an event that ends at the instant it arrives was never a backlog.
	slices.SortStableFunc(changes, func(a, b change) int { return a.at.Compare(b.at) })
	backlog, at := 0, 0
	for i, c := range changes {
		for at < part(c.at) {
			series[at].Backlog = backlog
			at++
		}
		backlog += c.by
		if i == len(changes)-1 || changes[i+1].at.After(c.at) {
			peak = max(peak, backlog)
		}
	}
	for ; at < points; at++ {
		series[at].Backlog = backlog
	}
	return series, peak
}
