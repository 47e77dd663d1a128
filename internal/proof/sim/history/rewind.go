package history

import (
	"cmp"
	"slices"
	"time"
)

// rewound sets aside the requests of each past that the store has lost (Rewind). The store has no
// outcome of them, so they have no order, are no repetitions and count as no attempts. Their
// content and receiver are checked as always.
//
// Nodes may finish requests that they began before they could notice. Requests that begin
// Limits.Transit after the end belong to the new past, in which all rules hold. Only a node that
// did not notice may act on its memory (Receipt.Remembered).
func (c *checker) rewound() {
	for _, d := range c.deliveries {
		d.receipts = slices.DeleteFunc(d.receipts, func(r *Receipt) bool {
			lost := c.Rewound(*r) || c.remembered(d.event, r)
			if lost {
				d.aside = append(d.aside, r)
			}
			return lost
		})
	}
}

// Rewound says whether a request belongs to a past that the store has lost: its outcome was not
// durable before that past began, or it began before that past ended.
func (h *History) Rewound(r Receipt) bool {
	return slices.ContainsFunc(h.Faults, func(f Fault) bool {
		return f.Kind == Rewind && f.overlaps(r.Start-h.Limits.Transit, r.End+h.Limits.Commit)
	})
}

// remembered says whether a request was sent for a delivery of a lost past, by a node that still
// had it in memory: its event was published before the past's end.
func (c *checker) remembered(e *event, r *Receipt) bool {
	return r.Remembered && e != nil && slices.ContainsFunc(c.Faults, func(f Fault) bool {
		return f.Kind == Rewind && f.End <= r.Start && e.invoke <= f.End
	})
}

// forgotten says whether a lost past explains that the store does not have an event: no publisher
// got a success before it, and none got its first success after it. A publisher that has a success
// does not publish the event again.
func (c *checker) forgotten(e *event) bool {
	for _, name := range e.perhaps {
		if len(c.originals[pair{e.id, name}]) > 0 {
			return false
		}
	}
	return slices.ContainsFunc(c.Faults, func(f Fault) bool {
		return f.Kind == Rewind && e.invoke <= f.End && (!e.ok || f.Start <= e.returned && e.returned <= f.End)
	})
}

// undone says whether a past that was lost by `until` contains the moment of an acknowledgement: of
// an event, or of a Skip or Retry, which is lost with its past too.
func (c *checker) undone(returned, until time.Duration) bool {
	return slices.ContainsFunc(c.Faults, func(f Fault) bool {
		return f.Kind == Rewind && f.Start <= returned && returned <= f.End && f.End <= until
	})
}

// broughtBack says whether the store lost an event and got it back, because it went back once more,
// to a state from before the first loss. A node that looked for the event in between did not find
// it, and rightly gave its delivery up as permanent.
func (c *checker) broughtBack(e *event) bool {
	if e == nil {
		return false
	}
	return slices.ContainsFunc(c.Faults, func(lost Fault) bool {
		return lost.Kind == Rewind && e.invoke <= lost.End && (!e.ok || lost.Start <= e.returned) &&
			slices.ContainsFunc(c.Faults, func(f Fault) bool {
				return f.Kind == Rewind && lost.Start < f.Start && f.Start <= lost.End && lost.End < f.End
			})
	})
}

// all are a delivery's requests, by start: those set aside too.
func (d *delivery) all() []*Receipt {
	if len(d.aside) == 0 {
		return d.receipts
	}
	all := slices.Concat(d.aside, d.receipts)
	slices.SortStableFunc(all, func(a, b *Receipt) int { return cmp.Compare(a.Start, b.Start) })
	return all
}
