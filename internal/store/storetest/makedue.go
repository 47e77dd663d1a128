package storetest

import (
	"fmt"
	"math"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// wide is a failed attempt with an endpoint-wide failure.
func wide(number int64, expect int, when, due float64) store.Change {
	c := retried(number, expect, when, due)
	c.EndpointWide = true
	return c
}

func (d *driver) makeDue(endpoint string, h store.MakingDue, limit, want int) {
	d.Helper()
	n, err := d.MakeDue(d.ctx, endpoint, h, limit)
	d.must(err, "MakeDue")
	d.same(n, want, "madeDue")
}

// back makes due an endpoint that recovered at a time; later deliveries become due then.
func back(when float64) store.MakingDue { return store.MakingDue{Before: at(when), At: at(when)} }

var makeDueCases = []testCase{
	{"makes deliveries due that the endpoint has delayed", func(d *driver) {
		a, b, c := d.lane("a", 2), d.lane("b", 1), d.lane("c", 1)
		first := wide(a[0], 0, 10, 100)
		first.Anchor, first.Trigger = at(9), grapnel.TriggerManual
		d.change(first)
		d.change(retried(b[0], 0, 10, 100)) // its content is at fault
		d.change(wide(c[0], 0, 11, 50))
		want := d.delivery(a[0])
		d.makeDue(epA, back(20), 10, 2)
		want.Waiting.Due, want.NextAttemptAt = at(20), at(20)
		d.same(d.delivery(a[0]), want, "nothing but its due time")
		h, first2 := d.head(a[0])
		d.same(first2, true, "first")
		d.same(h.Trigger, grapnel.TriggerManual, "trigger")
		d.leads(epA, a[0], c[0], b[0])
		d.same(d.delivery(b[0]).Waiting.Due, at(100), "due of what waits for its own sake")
		d.makeDue(epA, back(15), 10, 0)
		d.leads(epA, a[0], c[0], b[0])
	}},
	{"leaves deliveries that are due already or were delayed later", func(d *driver) {
		n := []int64{d.lane("a", 1)[0], d.lane("b", 1)[0], d.lane("c", 1)[0], d.lane("d", 1)[0]}
		d.change(wide(n[0], 0, 10, 20))                                    // due at exactly that time
		d.change(wide(n[1], 0, 20, 100))                                   // recorded at exactly that time
		d.change(wide(n[2], 0, 19, 20+1e-6))                               // due a microsecond after, recorded a microsecond before
		d.change(wide(n[3], 0, 20-1e-6, 1000))                             // recorded before the recovery too
		h := store.MakingDue{Before: at(20).Add(999), At: at(20).Add(999)} // times are stored in microseconds
		d.makeDue(epA, h, 10, 2)
		for i, due := range []float64{20, 100, 20, 20} {
			d.same(d.delivery(n[i]).Waiting.Due, at(due), fmt.Sprint("due of ", i))
		}
		d.makeDue(epA, store.MakingDue{Before: at(20 + 1e-6), At: at(30)}, 10, 1)
		d.same(d.delivery(n[1]).Waiting.Due, at(30), "due")
	}},
	{"takes the earliest first, up to the limit", func(d *driver) {
		var n []int64
		for i, due := range []float64{300, 100, 200, 100, 50} {
			n = append(n, d.lane(string(rune('a'+i)), 1)[0])
			d.change(wide(n[i], 0, 10, due))
		}
		d.makeDue(epA, back(60), 0, 0)
		d.makeDue(epA, back(60), -1, 0)
		d.makeDue(epA, back(60), 1, 1)
		d.leads(epA, n[4], n[1], n[3], n[2], n[0])
		d.same(d.delivery(n[1]).Waiting.Due, at(60), "due")
		d.same(d.delivery(n[3]).Waiting.Due, at(100), "due of the next")
		d.makeDue(epA, back(60), 2, 2)
		d.makeDue(epA, back(60), 2, 1)
		d.makeDue(epA, back(60), 2, 0)
		d.leads(epA, n[4], n[0], n[1], n[2], n[3])
	}},
	{"depends on the last attempt alone", func(d *driver) {
		n := []int64{d.lane("a", 1)[0], d.lane("b", 1)[0], d.lane("c", 1)[0]}
		for _, number := range n {
			d.change(wide(number, 0, 10, 11))
		}
		d.change(retried(n[0], 1, 12, 100)) // now because of its content
		person := by(n[1], grapnel.Pending, 12)
		person.Due = at(100) // no attempt: the endpoint still delays it
		d.change(person)
		d.change(wide(n[2], 1, 30, 100)) // because of the endpoint again, but later
		d.makeDue(epA, back(20), 10, 1)
		d.leads(epA, n[1], n[0], n[2])
		d.makeDue(epA, back(40), 10, 1)
		d.leads(epA, n[1], n[2], n[0])
	}},
	{"takes no word for it without an attempt", func(d *driver) {
		n := d.lane("a", 1)
		c := by(n[0], grapnel.Pending, 5)
		c.Due, c.EndpointWide = at(100), true
		d.change(c)
		d.makeDue(epA, back(20), 10, 0)
	}},
	{"leaves blocked and finished deliveries, those behind a head, and other endpoints'", func(d *driver) {
		k, over, b := d.lane("k", 2), d.lane("over", 1), d.lane("b", 1)
		behind := wide(k[1], 0, 10, 100)
		d.change(behind)
		d.change(delivered(k[0], 0, 11)) // the second is the head now, with a new anchor
		d.same(d.delivery(k[1]).Waiting.Due, at(11), "due")
		d.change(wide(over[0], 0, 10, 100))
		d.change(by(over[0], grapnel.Skipped, 11))
		blocked := wide(b[0], 0, 10, 0)
		blocked.Blocked, blocked.Due = true, time.Time{}
		d.change(blocked)
		d.publish(incoming(event("other", "", 1), to(epB)))
		other := d.of("other")[0].Seq
		d.change(wide(other, 0, 10, 100))
		d.makeDue(epA, back(20), 10, 0)
		d.makeDue("ep_unknown", back(20), 10, 0)
		d.makeDue("", back(20), 10, 0)
		d.same(d.delivery(b[0]).Waiting.Blocked, true, "blocked")
		d.same(d.delivery(other).Waiting.Due, at(100), "due at another endpoint")

		free := by(b[0], grapnel.Pending, 21)
		free.Due = at(100)
		d.change(free)
		d.makeDue(epA, back(30), 10, 1)
		d.leads(epA, k[1], b[0])
	}},
	{"continues until none is left", func(d *driver) {
		const n = 700
		var batch []store.Incoming
		for i := range n {
			batch = append(batch, incoming(event(fmt.Sprint("e", i), fmt.Sprint("k", i), 0), to(epA)))
		}
		var changes []store.Change
		for i, h := range d.publish(batch...).Heads {
			c := retried(h.Delivery, 0, 10, float64(100+i*7919%n))
			c.EndpointWide = i%3 > 0
			changes = append(changes, c)
		}
		d.record(changes...)
		total, calls := 0, 0
		for more := true; more; calls++ {
			done, err := d.MakeDue(d.ctx, epA, back(50), 100)
			d.must(err, "MakeDue")
			total += done
			more = done == 100
		}
		d.same(total, n*2/3, "madeDue")
		d.same(calls, 5, "calls")
		heads, err := d.Heads(d.ctx, epA, math.MaxInt32)
		d.must(err, "Heads")
		for i, h := range heads {
			d.same(h.Due.Equal(at(50)), i < total, "whether it is due")
		}
	}},
}
