package policy

import (
	"math"
	"time"
)

// Ramp limits an endpoint's simultaneous requests, by its answers. It starts at the highest allowed
// number. A 429, a timeout or a refused connection halves it. Answers raise it by one per full
// round of the current limit.
//
// After an outage held deliveries are released more carefully: one request at a time and few per
// second. Both double as long as no request fails; after the first failure they grow linearly.
type Ramp struct {
	most    int
	limit   int
	credit  int       // answers since the limit grew
	cutAt   time.Time // requests that began before it do not count for the limit after it
	doubles bool      // no failure since the recovery began

	rate float64   // releases in a second while recovering; 0: no bound
	at   time.Time // when rate was right
	next time.Time // release
}

const (
	firstRate  = 20.0 // releases in the first second of a recovery
	enoughRate = firstRate * 1024
)

// Allow sets the highest number that the endpoint's configuration allows. A limit that was at the
// old highest number becomes the new one, unless the endpoint is recovering: then it has to grow.
func (r *Ramp) Allow(most int) {
	if r.limit > most || r.limit == r.most && !r.Recovering() {
		r.limit = most
	}
	r.most = most
}

// Begin starts a recovery.
func (r *Ramp) Begin(now time.Time) {
	r.limit, r.credit, r.cutAt, r.doubles = 1, 0, now, true
	r.rate, r.at, r.next = firstRate, now, now
}

// Recovering says whether releases are paced.
func (r *Ramp) Recovering() bool { return r.rate > 0 }

// End says that no delivery is pending any more, so the rate limit ends.
func (r *Ramp) End() { r.rate = 0 }

// Limit is how many requests may be in flight.
func (r *Ramp) Limit() int { return r.limit }

// Next is when the pace allows the next attempt.
func (r *Ramp) Next(now time.Time) time.Time {
	if r.rate == 0 {
		return time.Time{}
	}
	if r.next.After(now.Add(time.Second)) { // no pace is that slow: the clock was set back
		r.next = now
	}
	return r.next
}

// Start counts an attempt that begins.
func (r *Ramp) Start(now time.Time) {
	if r.rate == 0 {
		return
	}
	r.grow(now)
	if r.rate >= enoughRate {
		r.rate = 0
		return
	}
	// Unused rate is not saved up, except for 100 ms in which the process was busy elsewhere.
	if lag := now.Add(-100 * time.Millisecond); r.next.Before(lag) {
		r.next = lag
	}
	r.next = r.next.Add(time.Duration(float64(time.Second) / r.rate))
}

// grow brings the rate up to date.
func (r *Ramp) grow(now time.Time) {
	if since := max(now.Sub(r.at).Seconds(), 0); r.doubles {
		r.rate *= math.Exp2(min(since, 10)) // a longer time would not change the result
	} else if r.rate > 0 {
		r.rate += firstRate * since
	}
	r.at = now
}

// Observe learns from an outcome.
func (r *Ramp) Observe(s Sighting) {
	switch {
	case s.Decision == Deliver:
		r.earn()
	case s.Started.Before(r.cutAt) && !r.cutAt.After(s.Ended):
	case s.Decision == Throttle, s.Outcome.Class == ClassTimeout, s.Outcome.Class == ClassConnect:
		r.grow(s.Ended)
		r.limit, r.credit, r.cutAt, r.doubles = max(r.limit/2, 1), 0, s.Ended, false
		r.rate = max(r.rate/2, min(r.rate, 1))
	case s.Outcome.alive() && s.Outcome.Class != ClassStatus429:
		// a refusal is about the content, and the endpoint was able to answer the request
		r.earn()
	}
}

// earn counts an answer that shows that the endpoint can carry its load.
func (r *Ramp) earn() {
	r.credit++
	if r.limit < r.most && (r.doubles || r.credit >= r.limit) {
		r.limit, r.credit = r.limit+1, 0
	}
}

// DrainTime estimates the time of a recovery with this many deliveries if no request fails and the
// endpoint takes perSecond of them in the end; 0: no limit.
func DrainTime(waiting int, perSecond float64) time.Duration {
	n, top := float64(waiting), enoughRate
	if perSecond > 0 {
		top = min(top, perSecond)
	}
	// A rate that doubles every second has released (rate - firstRate) / ln 2 deliveries when it
	// reaches rate.
	var took float64
	switch doubling := max(top-firstRate, 0) / math.Ln2; {
	case n <= doubling:
		took = math.Log2(1 + n*math.Ln2/firstRate)
	case doubling > 0:
		took = math.Log2(top/firstRate) + (n-doubling)/max(top, perSecond)
	default:
		took = n / top
	}
	return time.Duration(min(took, math.MaxInt32) * float64(time.Second))
}
