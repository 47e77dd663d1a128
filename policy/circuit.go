package policy

import "time"

// Circuit is the breaker of one endpoint: it counts outcomes and decides when the circuit opens,
// when it is probed and when it closes. Its decisions are in the Standing; the counts towards the
// next opening start at zero after a restart.
type Circuit struct {
	failures int // endpoint-wide, in a row
	recent   [circuitParts]part
}

// part is a part of the window over which the ratio is measured.
type part struct {
	number int64 // which part of all time this is
	wide   int
	all    int
}

const (
	circuitParts = 10
	// fewest is the smallest number of attempts for a meaningful ratio.
	fewest = 20
)

// Shift is the effect of an outcome on the breaker.
type Shift int

// The shifts.
const (
	NoShift Shift = iota
	Opened        // from now on only probes
	Probed        // a probe failed; the time of the next one is set
	Closed        // the endpoint is back
)

// Observe counts an outcome. Only attempts that began after the last shift count: those in flight
// when the breaker opened neither close it nor, after it has closed, open it again.
func (c *Circuit) Observe(st *Standing, rules Breaker, s Sighting) Shift {
	if rules.Off {
		return NoShift
	}
	if st.OpenedAt.After(s.Ended) || st.RecoveredAt.After(s.Ended) {
		// The clock has been set back. Without this, all new outcomes would look older than the
		// last shift.
		st.OpenedAt, st.RecoveredAt = earlier(st.OpenedAt, s.Started), earlier(st.RecoveredAt, s.Started)
	}
	if st.Open() {
		return c.observeOpen(st, rules, s)
	}
	wide := s.Outcome.EndpointWide() && s.Decision != Throttle
	if s.Started.Before(st.RecoveredAt) || !wide && !s.Outcome.alive() {
		return NoShift
	}
	total, failed := c.count(rules, s.Ended, wide)
	if !wide {
		c.failures = 0
		return NoShift
	}
	c.failures++
	if c.failures < rules.Failures && (total < fewest || float64(failed) < rules.Ratio*float64(total)) {
		return NoShift
	}
	st.OpenedAt, st.Cause, st.Probes = s.Ended, s.Cause, 0
	st.ProbeAt = s.Ended.Add(rules.wait(0, 0, s.Seed))
	return Opened
}

func (c *Circuit) observeOpen(st *Standing, rules Breaker, s Sighting) Shift {
	switch {
	case s.Started.Before(st.OpenedAt):
		return NoShift
	case s.Outcome.alive():
		c.Close(st, s.Ended)
		return Closed
	case !s.Probe:
		return NoShift // an operator tried; the probes keep their own pace
	}
	if !s.Outcome.Elsewhere() {
		st.Probes++
		st.Cause = s.Cause
	}
	// The wait counts from the probe's start. Otherwise an endpoint that hung, and recovered during
	// a probe, would wait for the end of that probe and for the whole pause after it. A quarter of
	// the pause is always left between two probes.
	wait := rules.wait(st.Probes, s.Ended.Sub(st.OpenedAt), s.Seed)
	st.ProbeAt = s.Ended.Add(max(wait-s.Took, wait/4))
	if s.Hold.After(st.ProbeAt) {
		st.ProbeAt = s.Hold
	}
	return Probed
}

// Close closes an open breaker.
func (c *Circuit) Close(st *Standing, now time.Time) {
	st.OpenedAt, st.Cause, st.ProbeAt, st.Probes, st.RecoveredAt = time.Time{}, "", time.Time{}, 0, now
	*c = Circuit{}
}

// count adds an outcome to the window and returns the window's totals.
func (c *Circuit) count(rules Breaker, now time.Time, wide bool) (total, failed int) {
	number := now.UnixNano() / max(int64(rules.Window)/circuitParts, 1)
	p := &c.recent[uint64(number)%circuitParts] // a clock may be before 1970
	if p.number != number {
		*p = part{number: number}
	}
	p.all++
	if wide {
		p.wide++
	}
	for _, p := range c.recent {
		if age := number - p.number; age >= 0 && age < circuitParts {
			total, failed = total+p.all, failed+p.wide
		}
	}
	return total, failed
}

// wait is the time from a failed probe to the next. A random part of up to 5 % is added, so that
// endpoints that failed together are not probed together.
func (b Breaker) wait(probes int, outage time.Duration, seed uint64) time.Duration {
	wait := b.interval(probes, outage)
	return wait + time.Duration(unit(seed, uint64(probes))*float64(wait)/20)
}

// interval grows by half with each probe, up to 2.5 times the first; from then on it is a thirtieth
// of the outage so far. Doubling, as breakers mostly do, can make an endpoint wait for as long
// again as it was down.
func (b Breaker) interval(probes int, outage time.Duration) time.Duration {
	first := b.Probe.Std()
	wait := first
	for range min(probes, 3) {
		wait = min(wait*3/2, first*5/2)
	}
	return min(max(wait, outage/30), b.ProbeMax.Std())
}

// most is the longest wait between two probes in an outage of that length.
func (b Breaker) most(outage time.Duration) time.Duration {
	wait := b.interval(3, outage)
	return wait + wait/20
}
