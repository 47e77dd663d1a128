package history

import (
	"slices"
	"time"
)

// belated sets aside requests sent in an earlier epoch. A node that was frozen between its last
// check and writing a request sends that request when it resumes: one request per lane and
// standstill, identified by its lower epoch. Such a request has no order and changes nothing. Every
// other request of an earlier epoch is a violation, also one that is still in flight when the epoch
// ends.
func (c *checker) belated() {
	if len(c.Terms) == 0 {
		return
	}
	terms := map[string][]Term{}
	for _, t := range c.Terms {
		terms[t.Endpoint] = append(terms[t.Endpoint], t)
	}
	for _, l := range c.lanes {
		spent := map[int]bool{}
		for _, d := range l.deliveries {
			d.receipts = slices.DeleteFunc(d.receipts, func(r *Receipt) bool {
				since, over := replaced(terms[r.Endpoint], r)
				if !over {
					return false
				}
				for i := range c.Faults {
					f := &c.Faults[i]
					if f.Kind == Standstill && f.Node == r.Node && !spent[i] && f.overlaps(r.Start-c.Limits.Transit, r.Start) {
						spent[i] = true
						return true
					}
				}
				c.report(Stale, d, r.Start, "sent by %s in epoch %d, which was over since %v", r.Node, r.Epoch, since)
				return true
			})
			for _, r := range d.receipts {
				if since, over := outlived(terms[r.Endpoint], r, c.Limits.Transit); over && !c.stood(r) {
					c.report(Stale, d, since, "sent by %s in epoch %d and in flight until %v, although that was over", r.Node, r.Epoch, r.End)
				}
			}
		}
	}
}

// replaced says whether a later epoch than a request's had begun when it came, and when.
func replaced(terms []Term, r *Receipt) (since time.Duration, over bool) {
	for _, t := range terms {
		if t.Epoch > r.Epoch && t.Start < r.Start && (!over || t.Start < since) {
			since, over = t.Start, true
		}
	}
	return since, over
}

// outlived says whether a later epoch began while a request was in flight, and when.
func outlived(terms []Term, r *Receipt, transit time.Duration) (since time.Duration, over bool) {
	for _, t := range terms {
		if t.Epoch > r.Epoch && t.Start > r.Start && t.Start+transit < r.End {
			return t.Start, true
		}
	}
	return 0, false
}

// stood says whether the sender was frozen while a request was in flight.
func (c *checker) stood(r *Receipt) bool {
	return slices.ContainsFunc(c.Faults, func(f Fault) bool {
		return f.Kind == Standstill && f.Node == r.Node && f.overlaps(r.Start-c.Limits.Transit, r.End)
	})
}

// resumed says whether a request was sent by a node that was frozen when an operator's call was
// answered, and that resumed just before it sent.
func (c *checker) resumed(r *Receipt, answered time.Duration) bool {
	return slices.ContainsFunc(c.Faults, func(f Fault) bool {
		return f.Kind == Standstill && f.Node == r.Node && f.Start <= answered+c.Limits.Transit && f.overlaps(r.Start-c.Limits.Transit, r.Start)
	})
}
