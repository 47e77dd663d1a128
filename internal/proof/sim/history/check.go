package history

import (
	"cmp"
	"slices"
)

// Check returns every violation in the history, sorted by time.
func Check(h History) []Violation {
	c := index(h)
	c.belated()
	for _, e := range c.events {
		c.accepted(e)
	}
	for _, d := range c.deliveries {
		c.received(d)
		c.ended(d)
		c.attempts(d)
		c.schedule(d)
	}
	for _, l := range c.lanes {
		c.order(l)
		c.overlap(l)
		c.repeats(l)
	}
	c.stops()
	c.replays()
	c.samples()
	slices.SortStableFunc(c.found, func(a, b Violation) int { return cmp.Compare(a.At, b.At) })
	return c.found
}
