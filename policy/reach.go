package policy

import "time"

// Reach is how far a policy goes when every attempt fails.
type Reach struct {
	Attempts int // 0: more than ten thousand, until max_age
	// Table is the time of each attempt, counted from the first, without jitter and with attempts
	// that take no time. It ends after maxShown attempts.
	Table []time.Duration
	// Nominal is the time of the last attempt in Table: the documented span. No complete outage up
	// to that long loses an event, unless there is a max_age; with one see Report.Survives.
	Nominal time.Duration
	// Longest is the latest start of the last attempt by schedule: with the most jitter, and with
	// every attempt taking its whole timeout. An open circuit, a Retry-After, a hold, a pause or a
	// replay can delay it further; only max_age bounds those.
	Longest time.Duration
}

// maxShown bounds the tables for people. A wait of seconds repeated for days makes a table too long
// to read.
const maxShown = 1000

// Reach computes the reach of the policy.
func (p *Policy) Reach() Reach {
	bare := *p
	bare.Jitter = Jitter{}
	start := time.Unix(0, 0).UTC()
	var r Reach
	for _, planned := range bare.Plan(Progress{Anchor: start}, start, MaxAttempts+1) {
		r.Table = append(r.Table, planned.At.Sub(start))
	}
	r.Attempts = len(r.Table)
	r.Nominal = r.Table[r.Attempts-1]
	r.Longest = p.longest(start, r.Attempts)
	if r.Attempts > MaxAttempts {
		r.Attempts, r.Nominal = 0, p.MaxAge.Std()
	}
	r.Table = r.Table[:min(len(r.Table), maxShown)]
	return r
}

// ReachAfter is the reach if every attempt has one outcome, with the limits that cover it.
func (p *Policy) ReachAfter(o Outcome) Reach {
	narrowed, _ := p.under(o)
	return narrowed.Reach()
}

// longest walks the schedule at its slowest. The age is applied at the end only: a slower walk
// reaches it earlier, but a faster one may start an attempt as late as the age allows.
func (p *Policy) longest(start time.Time, attempts int) time.Duration {
	if p.MaxAttempts > 0 && p.Schedule.endless() {
		attempts = p.MaxAttempts
	}
	latest := start
	for n := 2; n <= attempts; n++ {
		at, wait, _ := p.Schedule.next(n, start, latest.Add(p.Timeout.Std()))
		latest = at.Add(p.Jitter.most(wait))
	}
	longest := latest.Sub(start)
	if p.MaxAge > 0 && (longest > p.MaxAge.Std() || p.Schedule.endless() && p.MaxAttempts == 0) {
		return p.MaxAge.Std()
	}
	return longest
}
