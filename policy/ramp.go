package policy

import (
	"math"
	"time"
)

// Ramp is how much an endpoint gets at once, as its answers have taught. It starts at the most that is allowed. A 429, a timeout
// or a refused connection halves it, answers win it back: one more for as many of them as it is.
//
// After an outage what waited is let go more carefully: one request at a time and few in a second, both doubling for as long as all
// goes well, then, after the first setback, growing evenly.
type Ramp struct {
	most    int
	limit   int
	credit  int       // answers since the limit grew
	cutAt   time.Time // what began before says nothing about the limit that followed
	doubles bool      // nothing has gone wrong since the recovery

	rate float64   // releases in a second while recovering; 0: no bound
	at   time.Time // when rate was right
	next time.Time // release
}

const (
	firstRate  = 20.0 // releases in the first second of a recovery
	enoughRate = firstRate * 1024
)

// Allow sets the most that the endpoint's configuration allows. Who had all there was has all there is now, unless it is recovering:
// then more has to be earned.
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

// End says that nothing waits any more: there is nothing left to pace.
func (r *Ramp) End() { r.rate = 0 }

// Limit is how many requests may be in flight.
func (r *Ramp) Limit() int { return r.limit }

// Next is when the pace allows the next attempt.
func (r *Ramp) Next(now time.Time) time.Time {
	if r.rate == 0 {
		return time.Time{}
	}
	if r.next.After(now.Add(time.Second)) { // no pace is that slow: the clock has been set back
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
	// What was not used is not saved up, but for a moment in which the machine was busy with others.
	if lag := now.Add(-100 * time.Millisecond); r.next.Before(lag) {
		r.next = lag
	}
	r.next = r.next.Add(time.Duration(float64(time.Second) / r.rate))
}

// grow brings the rate up to date.
func (r *Ramp) grow(now time.Time) {
	if since := max(now.Sub(r.at).Seconds(), 0); r.doubles {
		r.rate *= math.Exp2(min(since, 10)) // beyond that it is enough, whatever it was
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
		r.earn() // a refusal is about what was sent, and to answer it the endpoint had to be up to the request
	}
}

// earn counts an answer that shows the endpoint to be up to what it gets.
func (r *Ramp) earn() {
	r.credit++
	if r.limit < r.most && (r.doubles || r.credit >= r.limit) {
		r.limit, r.credit = r.limit+1, 0
	}
}

// DrainTime estimates how long a recovery needs for so many deliveries if all goes well and the endpoint takes perSecond of them in
// the end; 0: as many as it is given.
func DrainTime(waiting int, perSecond float64) time.Duration {
	n, top := float64(waiting), enoughRate
	if perSecond > 0 {
		top = min(top, perSecond)
	}
	// A rate that doubles every second has let go (rate - firstRate) / ln 2 when it has become rate.
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
