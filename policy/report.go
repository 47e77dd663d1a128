package policy

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Report is the result of Simulate. Durations are counted from the first event, unless stated
// otherwise.
type Report struct {
	Policy      string `json:"policy"`
	Events      int    `json:"events"`
	Delivered   int    `json:"delivered"`
	DeadLetters int    `json:"dead_letters"`
	Discarded   int    `json:"discarded"`
	Dropped     int    `json:"dropped"` // finished when the endpoint was disabled
	// held behind a dead letter of their key, until an operator acts
	Blocked  int `json:"blocked"`
	Held     int `json:"held"` // held at a disabled endpoint, until an operator acts
	Attempts int `json:"attempts"`

	// Affected are the events that arrived during the outage or were delayed by it. The next two
	// fields concern these.
	Affected         int     `json:"affected"`
	AttemptsPerEvent float64 `json:"attempts_per_event"`
	ExtraWait        Wait    `json:"extra_wait"` // of the delivered ones

	Opened int `json:"opened"` // number of openings of the circuit
	Probes int `json:"probes"` // attempts made while the circuit was open
	// from the end of the outage until the circuit closed; 0s: it was closed by then
	NoticedAfter  Duration `json:"noticed_after"`
	DisabledAfter Duration `json:"disabled_after"` // when the endpoint was disabled; 0s: it was not

	PeakBacklog int `json:"peak_backlog"`
	// from the end of the outage until the last affected event was finished
	DrainedAfter Duration `json:"drained_after"`
	RecoveryPeak int      `json:"recovery_peak"` // most attempts within one minute after the outage
	// the longest complete outage in which no event is lost, whatever arrives
	Survives Duration `json:"survives"`

	BySchedule Comparison `json:"by_schedule"`
	Series     []Point    `json:"series" nullable:"true"`
}

// Comparison is the result if every delivery only followed its schedule: no breaker, no probes, no
// earlier attempts after the outage, and no disabling.
type Comparison struct {
	DeadLetters      int      `json:"dead_letters"`
	Discarded        int      `json:"discarded"`
	Attempts         int      `json:"attempts"`
	AttemptsPerEvent float64  `json:"attempts_per_event"`
	ExtraWait        Wait     `json:"extra_wait"`
	DrainedAfter     Duration `json:"drained_after"`
}

func (r *Report) comparison() Comparison {
	return Comparison{r.DeadLetters, r.Discarded, r.Attempts, r.AttemptsPerEvent, r.ExtraWait, r.DrainedAfter}
}

// Wait is the wait of events beyond the unavoidable. While an endpoint is down nothing can be
// delivered, so there the wait counts from its return, else from the event's arrival.
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

func (r *simulation) report() *Report {
	rep := &Report{
		Policy: r.Policy.Name, Events: len(r.events), Attempts: len(r.attempts), Opened: r.opened, Probes: r.probes,
		NoticedAfter: rounded(max(r.closed-r.Outage.end(), 0)), DisabledAfter: rounded(r.disabled), Survives: r.survives(),
	}
	var waits []time.Duration
	tries := 0
	for i := range r.events {
		e := &r.events[i]
		switch e.phase {
		case deliveredEvent:
			rep.Delivered++
		case blockedEvent:
			rep.Blocked++
		case heldEvent:
			rep.Held++
		case droppedEvent:
			rep.Dropped++
		default:
			if e.phase == exhaustedEvent && r.Policy.OnExhausted == Discard {
				rep.Discarded++
			} else {
				rep.DeadLetters++
			}
		}
		if !e.affected {
			continue
		}
		rep.Affected++
		tries += e.attempts
		rep.DrainedAfter = max(rep.DrainedAfter, rounded(e.over-r.Outage.end()))
		if e.phase == deliveredEvent {
			waits = append(waits, max(e.over-r.possible(e.arrived), 0))
		}
	}
	if rep.Affected > 0 {
		rep.AttemptsPerEvent = math.Round(100*float64(tries)/float64(rep.Affected)) / 100
	}
	rep.ExtraWait = percentiles(waits)
	rep.RecoveryPeak = busiest(r.attempts, r.Outage.end())
	rep.Series, rep.PeakBacklog = r.series()
	return rep
}

// survives is the shortest time for which every event is tried, whatever else is pending: the
// policy's reach, which delays do not shorten. With max_age they do: a late attempt may leave no
// time for the next, and a delivery that waits for a probe may get none in time.
func (r *simulation) survives() Duration {
	if d := r.Policy.Decide(Outcome{Class: ClassConnect}); d != Retry && d != Throttle {
		return 0
	}
	reach := r.Policy.Reach()
	survives, age := reach.Nominal, r.Policy.MaxAge.Std()
	if age > 0 && (r.gated || r.Policy.Jitter != Jitter{}) {
		survives = min(survives, age-r.Policy.Schedule.longestGap(len(reach.Table)))
	}
	if age > 0 && r.gated {
		survives = min(survives, age-r.rules.most(age)-r.Policy.firstWait())
	}
	return Duration(max(survives, 0))
}

// rounded is a time in milliseconds, the precision of the simulation.
func rounded(d time.Duration) Duration { return Duration(d.Truncate(time.Millisecond)) }

func percentiles(waits []time.Duration) Wait {
	if len(waits) == 0 {
		return Wait{}
	}
	slices.Sort(waits)
	rank := func(part float64) Duration {
		return rounded(waits[min(int(part*float64(len(waits))), len(waits)-1)])
	}
	return Wait{P50: rank(0.5), P95: rank(0.95), Max: rank(1)}
}

// busiest is the most attempts in one minute, counted from the given time.
func busiest(attempts []time.Duration, from time.Duration) int {
	perMinute := map[int64]int{}
	most := 0
	for _, at := range attempts {
		if since := at - from; since >= 0 {
			minute := int64(since / time.Minute)
			perMinute[minute]++
			most = max(most, perMinute[minute])
		}
	}
	return most
}

// series divides the time from the first event to the last change into equal parts.
func (r *simulation) series() (series []Point, peak int) {
	step := max(max(r.Duration.Std(), r.now)/points+1, time.Millisecond)
	series = make([]Point, points)
	for i := range series {
		end := step * time.Duration(i+1)
		series[i].At = rounded(end)
		series[i].Healthy = !r.Outage.on(end - step/2)
	}
	part := func(at time.Duration) int { return min(int(at/step), points-1) }
	for _, at := range r.attempts {
		series[part(at)].Attempts++
	}
	type change struct {
		at time.Duration
		by int
	}
	var changes []change
	for i := range r.events {
		e := &r.events[i]
		series[part(e.arrived)].Arrived++
		changes = append(changes, change{e.arrived, 1})
		if e.phase != blockedEvent && e.phase != heldEvent {
			changes = append(changes, change{e.over, -1})
		}
	}
	// At one instant endings come before arrivals, and an event that ends at the instant it arrives
	// was never in the backlog.
	slices.SortStableFunc(changes, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	backlog, at := 0, 0
	for i, c := range changes {
		for at < part(c.at) {
			series[at].Backlog = backlog
			at++
		}
		backlog += c.by
		if i == len(changes)-1 || changes[i+1].at > c.at {
			peak = max(peak, backlog)
		}
	}
	for ; at < points; at++ {
		series[at].Backlog = backlog
	}
	return series, peak
}
