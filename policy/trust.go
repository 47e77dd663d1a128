package policy

import "time"

// Trust limits the postponed deliveries that may be tried again when an endpoint seems to have
// recovered. Each delivery has a limited number of attempts, and an endpoint that answers every
// other request seems to recover again and again: making everything due each time would use up the
// attempts in minutes. So trust grows: one success allows one delivery, each further consecutive
// one allows one more, and after enough of them all become due. After a failure it is one again,
// after a pause. One is always tried, because otherwise the next proof of recovery would be a
// scheduled attempt, hours away.
type Trust struct {
	row   int       // consecutive successes since the endpoint seemed to recover
	after time.Time // while row is 0: not before this
}

const (
	// trusted is the number of consecutive answers that make an endpoint trusted.
	trusted = 20
	// doubt is the pause after a failure in which only deliveries due by schedule are tried.
	doubt = 5 * time.Second
)

// Everything is larger than any backlog.
const Everything = 1 << 30

// Return starts again at one: an answer shows that the endpoint has recovered.
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

// Next is the next time at which a postponed delivery may be tried, if nothing happens before.
func (t *Trust) Next(now time.Time) time.Time {
	switch {
	case t.row > 0:
		return time.Time{}
	case t.after.After(now.Add(doubt)): // the clock has been set back
		t.after = now
	}
	return t.after
}

// MakeDue is the number of postponed deliveries that may become due now. quiet says that no other
// delivery is in flight or due, so these have to prove the recovery.
func (t *Trust) MakeDue(now time.Time, quiet bool) int {
	switch {
	case t.row >= trusted:
		return Everything
	case quiet && !t.Next(now).After(now):
		return max(t.row, 1)
	}
	return 0
}
