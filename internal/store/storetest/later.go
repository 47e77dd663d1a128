package storetest

import (
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// laterCases are about events whose deliveries begin at a later time (store.Incoming.NotBefore).
var laterCases = []testCase{
	{"begins no schedule before the event's time", func(d *driver) {
		slow := to(epA)
		slow.Delay = 5 * time.Second
		later := incoming(event("a", "k", 1), slow, to(epB))
		later.NotBefore = at(100)
		done := d.publish(later, incoming(event("b", "k", 2), slow))
		d.same(len(done.Heads), 2, "heads: what comes later waits behind")
		for i, due := range []time.Time{at(105), at(100)} {
			d.same(done.Heads[i].Due, due, "due")
			d.same(done.Heads[i].Anchor, at(1), "anchor")
			d.same(d.heads(done.Heads[i].Endpoint), []store.Head{done.Heads[i]}, "read")
		}
		d.same(d.of("a")[0].Waiting, grapnel.Waiting{Head: true, Due: at(105), Anchor: at(1)}, "waiting")
		_, first := d.head(d.of("b")[0].Seq)
		d.same(first, false, "first")
	}},
	{"begins no schedule before the event's time when its delivery becomes the head", func(d *driver) {
		later, past := incoming(event("b", "k", 2), to(epA)), incoming(event("c", "k", 3), to(epA))
		later.NotBefore, past.NotBefore = at(100), at(50)
		d.publish(incoming(event("a", "k", 1), to(epA)), later, past)
		b := d.of("b")[0]
		d.same(b.Waiting, grapnel.Waiting{Anchor: at(100)}, "behind the head")
		h, first := d.head(b.Seq)
		d.same(first, false, "first")
		d.same(h.Due.IsZero() && h.Anchor.Equal(at(100)), true, "place of what waits")
		c := by(d.of("a")[0].Seq, grapnel.Delivered, 10)
		c.NextDelay = time.Second
		is := d.record(c)[0]
		d.same(is.Next.Due, at(101), "due")
		d.same(is.Next.Anchor, at(10), "anchor")
		d.same(d.of("b")[0].Waiting, grapnel.Waiting{Head: true, Due: at(101), Anchor: at(10)}, "waiting")
		is = d.record(by(b.Seq, grapnel.Delivered, 110))[0]
		d.same(is.Next.Due, at(110), "due of one whose time has passed")
		d.same(is.Next.Anchor, at(110), "its anchor")
		if n, err := d.MakeDue(d.ctx, epA, store.MakingDue{Before: at(200), At: at(120)}, 10); n != 0 || err != nil {
			d.Errorf("made due: %d, %v", n, err)
		}
	}},
}
