package policy

// Trust says how much of what an outage has put off may be tried again, now that the endpoint seems to be back. Each delivery has only so
// many attempts, and an endpoint that answers every other request seems to be back again and again: making everything due each time
// would use them up in minutes. So trust grows: one success, one delivery; one more in a row, one more; and after enough of them, all.
type Trust struct {
	row int // answers in a row, without a failure of the endpoint, since it seemed to be back
}

// trusted is how many answers in a row make an endpoint trusted.
const trusted = 20

// Everything is more than there can be.
const Everything = 1 << 30

// Return begins anew: something has shown that the endpoint is back.
func (t *Trust) Return() { t.row = 1 }

// Observe takes an outcome in.
func (t *Trust) Observe(o Outcome) {
	switch {
	case o.EndpointWide():
		t.row = 0
	case o.alive():
		t.row++
	}
}

// Hasten is how many deliveries that the outage has put off may become due now. quiet says that nothing else is on its way or due, so
// that they are the ones to show more.
func (t *Trust) Hasten(quiet bool) int {
	switch {
	case t.row >= trusted:
		return Everything
	case quiet:
		return t.row
	}
	return 0
}
