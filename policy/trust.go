package policy

import "time"

// Trust says how much of what an outage has put off may be tried again, now that the endpoint seems to be back. Each delivery has only so
// many attempts, and an endpoint that answers every other request seems to be back again and again: making everything due each time
// would use them up in minutes. So trust grows: one success, one delivery; one more in a row, one more; and after enough of them, all.
// After a failure it is one again, a little later: if nothing were tried, nothing could show that all is well but the times that were made
// in the outage, which may be hours away.
type Trust struct {
	row   int       // answers in a row, without a failure of the endpoint, since it seemed to be back
	after time.Time // while there is none: not before this
}

const (
	// trusted is how many answers in a row make an endpoint trusted.
	trusted = 20
	// doubt is how long after a failure nothing is tried for which it is not time.
	doubt = 5 * time.Second
)

// Everything is more than there can be.
const Everything = 1 << 30

// Return begins anew: something has shown that the endpoint is back.
func (t *Trust) Return() { t.row = 1 }

// Observe takes in the outcome of an attempt that ended now.
func (t *Trust) Observe(o Outcome, now time.Time) {
	switch {
	case o.EndpointWide():
		t.row, t.after = 0, now.Add(doubt)
	case o.alive():
		t.row++
	}
}

// Next is when some of it may be tried, if nothing happens before.
func (t *Trust) Next(now time.Time) time.Time {
	switch {
	case t.row > 0:
		return time.Time{}
	case t.after.After(now.Add(doubt)): // the clock has been set back
		t.after = now
	}
	return t.after
}

// Hasten is how many deliveries that the outage has put off may become due now. quiet says that nothing else is on its way or due, so
// that they are the ones to show more.
func (t *Trust) Hasten(now time.Time, quiet bool) int {
	switch {
	case t.row >= trusted:
		return Everything
	case quiet && !t.Next(now).After(now):
		return max(t.row, 1)
	}
	return 0
}
