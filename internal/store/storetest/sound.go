package storetest

import (
	"cmp"
	"slices"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// laneOf names a lane.
type laneOf struct{ endpoint, key string }

// sound checks the invariants that hold in any store at any time, using only the store's answers.
func (d *driver) sound() {
	d.Helper()
	lanes := map[laneOf][]grapnel.Delivery{}
	due := map[string][]store.Head{}
	counts := map[string]map[grapnel.Status]int64{}
	for _, x := range d.list(store.DeliveryQuery{}) {
		if counts[x.EndpointID] == nil {
			counts[x.EndpointID], due[x.EndpointID] = map[grapnel.Status]int64{}, nil
		}
		counts[x.EndpointID][x.Status]++
		if x.Position > 0 {
			lane := laneOf{x.EndpointID, x.Key}
			lanes[lane] = append(lanes[lane], x)
		}
		switch {
		case x.Status.Final():
			if x.Waiting != (grapnel.Waiting{}) || x.FinishedAt.IsZero() || !x.NextAttemptAt.IsZero() {
				d.Fatalf("a delivery that is over still waits, or has no end: %+v", x)
			}
			continue
		case x.Position == 0 && !x.Waiting.Head:
			d.Fatalf("a delivery without lane waits behind something: %+v", x)
		}
		h, first := d.head(x.Seq)
		if h == nil || first != x.Waiting.Head || h.Blocked != x.Waiting.Blocked || !h.Due.Equal(x.NextAttemptAt) {
			d.Fatalf("place and history disagree: %+v, %+v", h, x)
		}
		if first && !h.Blocked {
			due[x.EndpointID] = append(due[x.EndpointID], *h)
		}
	}
	stuck := map[string][]grapnel.Lane{}
	for lane, line := range lanes {
		if head, behind := d.ordered(lane, line); head != nil && (head.AttemptsMade > 0 || head.Waiting.Blocked) {
			stuck[lane.endpoint] = append(stuck[lane.endpoint], grapnel.Lane{
				Endpoint: lane.endpoint, Key: lane.key, Head: *head, Waiting: min(behind, mostWaiting)})
		}
	}
	for endpoint, heads := range due {
		slices.SortFunc(stuck[endpoint], func(a, b grapnel.Lane) int { return cmp.Compare(a.Head.Seq, b.Head.Seq) })
		d.same(d.stuck(endpoint), stuck[endpoint], "stuck lanes of "+endpoint)
		slices.SortFunc(heads, func(a, b store.Head) int {
			return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.Delivery, b.Delivery))
		})
		d.same(d.heads(endpoint), heads, "heads of "+endpoint)
	}
	d.fed(epA, epB)
	shown, err := d.Counts(d.ctx, everyone)
	d.must(err, "Counts")
	d.same(shown, counts, "counts and what is listed")
}

// ordered checks one lane: positions without gaps, at most one head, and no pending delivery before
// it. It returns the head and the number of pending deliveries behind it.
func (d *driver) ordered(lane laneOf, line []grapnel.Delivery) (head *grapnel.Delivery, behind int) {
	d.Helper()
	slices.SortFunc(line, func(a, b grapnel.Delivery) int { return cmp.Compare(a.Position, b.Position) })
	for i, x := range line {
		if lane.key == "" {
			break // of erased keys, whose lanes nobody can tell apart
		}
		if i > 0 && x.Position <= line[i-1].Position || x.Position != int64(i+1) && !d.purged {
			d.Fatalf("lane %v has position %d in place %d", lane, x.Position, i+1)
		}
		if x.Status.Final() {
			continue
		}
		if x.Waiting.Head != (head == nil) {
			d.Fatalf("lane %v: position %d is head: %v, after a head: %v", lane, x.Position, x.Waiting.Head, head != nil)
		}
		if head == nil {
			head = &line[i]
			continue
		}
		behind++
	}
	return head, behind
}
