package policy

import "time"

// Trust limits the postponed deliveries that may be tried again when an endpoint seems to have
// recovered. Each delivery has a limited number of attempts, and an endpoint that answers every
// other request seems to recover again and again: making everything due each time would use the
// attempts up in minutes. So trust grows: one success allows one delivery, each further one in a
// row allows one more, and after enough of them all become due. After a failure it is one again, a
// little later. One is always tried, because otherwise the next proof of recovery would be a
// scheduled attempt, hours away.
type Trust struct {
	row   int       // successes in a row since the endpoint seemed to recover
	after time.Time // while row is 0: not before this
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

// Observe counts the outcome of an attempt that ended now.
func (t *Trust) Observe(o Outcome, now time.Time) {
	switch {
	case o.EndpointWide():
		t.row, t.after = 0, now.Add(doubt)
	case o.alive():
		t.row++
	}
}

// Next is the next time at which some of them may be tried, if nothing happens before.
func (t *Trust) Next(now time.Time) time.Time {
	switch {
	case t.row > 0:
		return time.Time{}
	case t.after.After(now.Add(doubt)): // the clock has been set back
		t.after = now
	}
	return t.after
}

// Hasten is the number of postponed deliveries that may become due now. quiet says that no other
// delivery is in flight or due, so these have to prove the recovery.
func (t *Trust) Hasten(now time.Time, quiet bool) int {
	switch {
	case t.row >= trusted:
		return Everything
	case quiet && !t.Next(now).After(now):
		return max(t.row, 1)
	}
	return 0
}
