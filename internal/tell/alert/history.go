package alert

import (
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/core"
)

// Baseline is what a usual hour of a tenant looks like.
type Baseline struct {
	Failed  float64 // dead letters of an hour
	Success float64 // part of the first attempts that succeeded
	Firsts  float64 // first attempts in all hours together
}

// Hour is what happened in an hour. Its numbers are fractions where parts of hours are added.
type Hour struct {
	Failed float64 // dead letters
	Firsts float64 // first attempts, counted when they were made
	Good   float64 // of them: those that succeeded
}

// BaselineFor is how long before an hour its baseline begins.
const BaselineFor = 28 * 24 * time.Hour

const (
	leastUsual = 2  // dead letters an hour: fewer count as this
	leastFirst = 50 // first attempts in an hour: of fewer a success rate says nothing
)

// hour makes an hour of totals.
func hour(t *grapnel.Totals) Hour {
	return Hour{Failed: float64(t.Failed), Firsts: float64(t.FirstAttempts), Good: float64(t.FirstAttemptSuccess)}
}

// add adds a part of an hour.
func (h *Hour) add(o Hour, part float64) {
	h.Failed, h.Firsts, h.Good = h.Failed+part*o.Failed, h.Firsts+part*o.Firsts, h.Good+part*o.Good
}

// LastHour is the hour before a time, of the totals by the hour: the current hour, and of the hour
// before the part that is less than an hour ago.
func LastHour(buckets []grapnel.Bucket, now time.Time) Hour {
	current := now.UTC().Truncate(time.Hour)
	part := 1 - now.Sub(current).Seconds()/time.Hour.Seconds()
	var sum Hour
	for i := range buckets {
		switch b := &buckets[i]; {
		case b.At.Equal(current):
			sum.add(hour(&b.Totals), 1)
		case b.At.Equal(current.Add(-time.Hour)):
			sum.add(hour(&b.Totals), part)
		}
	}
	return sum
}

// Usual is the baseline of the hours from BaselineFor before a time up to it. Hours before the
// first with any total do not count: the tenant did not exist.
func Usual(buckets []grapnel.Bucket, at time.Time) Baseline {
	at = at.UTC().Truncate(time.Hour)
	var first time.Time
	var sum Hour
	for i := range buckets {
		if b := &buckets[i]; b.At.Before(at) && !b.At.Before(at.Add(-BaselineFor)) {
			if sum.add(hour(&b.Totals), 1); first.IsZero() {
				first = b.At
			}
		}
	}
	return sum.baseline(first, at)
}

// baseline is that of a sum of hours, from the first with any total up to a time.
func (h *Hour) baseline(first, at time.Time) Baseline {
	b := Baseline{Firsts: h.Firsts}
	if hours := at.Sub(later(first, at.Add(-BaselineFor))).Hours(); !first.IsZero() && hours >= 1 {
		b.Failed = h.Failed / hours
	}
	if h.Firsts > 0 {
		b.Success = h.Good / h.Firsts
	}
	return b
}

// deadLetters is how many times the usual number an hour has.
func (b *Baseline) deadLetters(h *Hour) float64 { return h.Failed / max(b.Failed, leastUsual) }

// drop is by how many percentage points an hour's success is below the usual; false: there were too
// few first attempts.
func (b *Baseline) drop(h *Hour) (float64, bool) {
	if h.Firsts < leastFirst || b.Firsts < leastFirst {
		return 0, false
	}
	return 100 * (b.Success - h.Good/h.Firsts), true
}

// failing is the percentage of an hour's first attempts that failed; false: an endpoint was not
// degraded by it.
func (h *Hour) failing() (float64, bool) {
	f := core.Firsts{Made: int(h.Firsts), Failed: int(h.Firsts - h.Good)}
	return 100 * float64(f.Failed) / float64(max(f.Made, 1)), f.Degraded()
}

// Backtest returns the hours between two times in which a rule would have fired, given the totals
// by the hour from BaselineFor before. It judges whole hours, and an alert is resolved by the first
// hour that is clearly back.
func Backtest(rule *Rule, is InForce, buckets []grapnel.Bucket, from, to time.Time) (fired []time.Time) {
	var sum Hour
	old, next, firing := 0, 0, false
	for at := from.UTC().Truncate(time.Hour); at.Before(to); at = at.Add(time.Hour) {
		for ; next < len(buckets) && buckets[next].At.Before(at); next++ {
			if !buckets[next].At.Before(at.Add(-BaselineFor)) {
				sum.add(hour(&buckets[next].Totals), 1)
			} else {
				old = next + 1
			}
		}
		for ; old < next && buckets[old].At.Before(at.Add(-BaselineFor)); old++ {
			sum.add(hour(&buckets[old].Totals), -1)
		}
		var first time.Time
		if old < next {
			first = buckets[old].At // as in Usual, which reads no hours before these
		}
		var h Hour
		if next < len(buckets) && buckets[next].At.Equal(at) {
			h = hour(&buckets[next].Totals)
		}
		usual := sum.baseline(first, at)
		value, known := usual.deadLetters(&h), true
		switch rule.Name {
		case FirstAttempts:
			value, known = usual.drop(&h)
		case EndpointDegraded:
			value, known = h.failing()
		}
		if !known {
			firing = false // as in Step: without a sample an alert is resolved
			continue
		}
		switch {
		case !firing && rule.bad(value, is.Threshold):
			firing, fired = true, append(fired, at)
		case firing && rule.good(value, is.Threshold):
			firing = false
		}
	}
	return fired
}
