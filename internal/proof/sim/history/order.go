package history

import (
	"cmp"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
)

// place is a delivery's place in an order: a comes before b when a.left < b.right. With times left
// and right differ (a had returned before b was called); with positions they are equal.
type place struct {
	*delivery
	left, right int64
	known       bool // left is valid; a publish with unknown result comes before no other
}

// order compares a lane with two orders: the real time of the publishes, which the system cannot
// influence, and the positions that it gave itself, which also decide between concurrent publishes.
func (c *checker) order(l *lane) {
	if !l.ordered {
		return
	}
	var byTime, byPosition []place
	for _, d := range l.deliveries {
		if d.original() {
			byTime = append(byTime, place{d, int64(d.event.returned), int64(d.event.invoke), d.event.ok})
		}
		if d.position > 0 {
			byPosition = append(byPosition, place{d, d.position, d.position, true})
		}
		for _, r := range d.receipts {
			if r.Position != d.position {
				c.report(Conserve, d, r.Start, "position %d here, %d elsewhere", r.Position, d.position)
			}
		}
	}
	told := map[*delivery]bool{}
	c.sweep(byTime, told)
	c.sweep(byPosition, told)
	c.positions(l, byPosition)
}

// sweep goes through the places in order. Of all earlier deliveries it remembers the one that
// finished last, the one that was sent last and the one with the highest position: if any earlier
// delivery contradicts the current one, one of these three does.
func (c *checker) sweep(places []place, told map[*delivery]bool) {
	lefts := slices.DeleteFunc(slices.Clone(places), func(p place) bool { return !p.known })
	slices.SortStableFunc(lefts, func(a, b place) int { return cmp.Compare(a.left, b.left) })
	slices.SortStableFunc(places, func(a, b place) int { return cmp.Compare(a.right, b.right) })
	var over, sent, high *delivery
	var overAt, sentAt time.Duration
	next := 0
	for _, b := range places {
		for ; next < len(lefts) && lefts[next].left < b.right; next++ {
			a := lefts[next].delivery
			if t := c.over(a); over == nil || t > overAt {
				over, overAt = a, t
			}
			if t, ok := lastSent(a); ok && (sent == nil || t > sentAt) {
				sent, sentAt = a, t
			}
			if high == nil || a.position > high.position {
				high = a
			}
		}
		if high != nil && b.position > 0 && high.position > b.position {
			c.report(FIFO, b.delivery, time.Duration(b.right), "position %d, but %s came earlier and has %d", b.position, high.id, high.position)
		}
		start, ok := firstSent(b.delivery)
		if !ok || told[b.delivery] {
			continue
		}
		if over != nil && overAt > start {
			told[b.delivery] = true
			c.report(FIFO, b.delivery, start, "started although %s, which comes before it, was over only at %s", over.id, moment(overAt))
		}
		if sent != nil && sentAt > start {
			told[b.delivery] = true
			c.report(Regress, sent, sentAt, "sent although %s, which comes after it, had been sent at %v", b.id, start)
		}
	}
}

// positions checks that a lane's positions, sorted by now, are 1, 2, 3 … and that no two deliveries
// share one. A purge may have removed the lane's row, so later positions may be higher.
func (c *checker) positions(l *lane, placed []place) {
	for i := 1; i < len(placed); i++ {
		if placed[i].position == placed[i-1].position {
			c.report(Conserve, placed[i].delivery, 0, "shares position %d with %s", placed[i].position, placed[i-1].id)
			return
		}
	}
	complete := len(placed) == len(l.deliveries) && !slices.ContainsFunc(l.deliveries, func(d *delivery) bool { return d.final == nil })
	for last, purged, i := int64(0), false, 0; complete && i < len(placed); i++ {
		p := placed[i]
		if p.position != last+1 && !purged {
			c.report(Conserve, p.delivery, 0, "position %d comes after %d in a lane of %d deliveries", p.position, last, len(placed))
			return
		}
		last, purged = p.position, purged || p.final.Purged
	}
}

// overlap checks that a lane never has two requests in flight. A request cut off by a crash may
// appear open for too long.
func (c *checker) overlap(l *lane) {
	type sent struct {
		*Receipt
		d *delivery
	}
	var all []sent
	for _, d := range l.deliveries {
		for _, r := range d.receipts {
			all = append(all, sent{r, d})
		}
	}
	slices.SortStableFunc(all, func(a, b sent) int { return cmp.Compare(a.Start, b.Start) })
	var open *Receipt
	for _, r := range all {
		if open != nil && c.quit(open, l.endpoint) > r.Start && !c.died(open, r.Start) {
			c.report(Overlap, r.d, r.Start, "sent while %s was in flight until %v", open.Delivery, open.End)
		}
		if open == nil || c.quit(r.Receipt, l.endpoint) > c.quit(open, l.endpoint) {
			open = r.Receipt
		}
	}
}

// died says whether the sender of a request may have died before the given moment.
func (c *checker) died(r *Receipt, before time.Duration) bool {
	return slices.ContainsFunc(c.Faults, func(f Fault) bool { return c.explains(&f, r) && f.Start <= before })
}

// over is the earliest moment at which a delivery can have finished.
func (c *checker) over(d *delivery) time.Duration {
	f := d.final
	if f == nil {
		return 0 // reported as lost; it orders nothing
	}
	if !f.Status.Final() {
		return never
	}
	for i, r := range d.receipts {
		if r.success() && (i == len(d.receipts)-1 || !c.unheard(r, d.endpoint)) {
			return r.End
		}
	}
	if len(d.receipts) == 0 {
		if len(d.aside) > 0 {
			return min(c.quit(d.all()[0], d.endpoint), f.Finished) // the stored outcome may be one of the lost past
		}
		return f.Finished
	}
	last := d.receipts[len(d.receipts)-1]
	if f.Status == grapnel.Skipped || f.Status == grapnel.Dropped {
		return last.Start // an operator ended it, maybe while the request was in flight
	}
	return c.quit(last, d.endpoint)
}

func firstSent(d *delivery) (time.Duration, bool) {
	for _, r := range d.receipts {
		if r.lined() {
			return r.Start, true
		}
	}
	return 0, false
}

func lastSent(d *delivery) (time.Duration, bool) {
	for _, r := range slices.Backward(d.receipts) {
		if r.lined() {
			return r.Start, true
		}
	}
	return 0, false
}

func moment(t time.Duration) string {
	if t == never {
		return "no time at all"
	}
	return t.String()
}
