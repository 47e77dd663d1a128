package storetest

import (
	"fmt"
	"math"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

func ending(when float64) store.Ending {
	return store.Ending{Status: grapnel.Dropped, ReasonCode: grapnel.ReasonEndpointGone, Reason: "its endpoint was deleted", At: at(when)}
}

func (d *driver) end(endpoint string, e store.Ending, limit, want int) {
	d.Helper()
	n, err := d.End(d.ctx, endpoint, e, limit)
	d.must(err, "End")
	d.same(n, want, "ended")
}

var endCases = []testCase{
	{"ends heads, blocked heads and deliveries behind them", func(d *driver) {
		k, l := d.lane("k", 3), d.lane("l", 1)
		d.publish(incoming(event("loose", "", 5), to(epA), to(epB)))
		loose := d.of("loose")
		blocked := retried(l[0], 0, 6, 0)
		blocked.Blocked, blocked.Due = true, time.Time{}
		d.change(blocked)
		d.change(retried(k[0], 0, 6, 9))
		d.end(epA, ending(20), math.MaxInt32, 5)
		d.leads(epA)
		for _, number := range append(k, l[0], loose[0].Seq) {
			x := d.delivery(number)
			d.same(x.Status, grapnel.Dropped, "status")
			d.same(x.ReasonCode, grapnel.ReasonEndpointGone, "reason code")
			d.same(x.Reason, "its endpoint was deleted", "reason")
			d.same(x.FinishedAt, at(20), "finished")
			d.same(x.Waiting, grapnel.Waiting{}, "waiting")
			if h, _ := d.head(number); h != nil {
				d.Fatalf("it still has a place: %+v", h)
			}
		}
		d.same(d.delivery(k[0]).AttemptsMade, 1, "attempts stay")
		d.leads(epB, loose[1].Seq)
		d.end(epA, ending(30), math.MaxInt32, 0)
		d.same(d.delivery(k[0]).FinishedAt, at(20), "final is final")
		d.end("ep_unknown", ending(30), 5, 0)

		done := d.publish(incoming(event("after", "k", 40), to(epA)))
		d.same(done.Heads[0].Position, int64(4), "positions go on")
	}},
	{"leaves deliveries above the given row id", func(d *driver) {
		k := d.lane("k", 4)
		d.publish(incoming(event("loose", "", 9), to(epA)))
		bounded := ending(20)
		bounded.UpTo = -1
		d.end(epA, bounded, 10, 0)
		bounded.UpTo = k[1]
		d.end(epA, bounded, 10, 2)
		d.leads(epA, d.of("loose")[0].Seq, k[2]) // which became a head only now
		d.end(epA, bounded, 10, 0)
		bounded.UpTo = d.of("loose")[0].Seq
		d.end(epA, bounded, 10, 3)
	}},
	{"takes the oldest first and leaves lanes whole", func(d *driver) {
		d.publish(incoming(event("k1", "k", 1), to(epA)), incoming(event("l1", "l", 2), to(epA)), incoming(event("k2", "k", 3), to(epA)),
			incoming(event("m", "", 4), to(epA)), incoming(event("k3", "k", 5), to(epA)), incoming(event("l2", "l", 6), to(epA)))
		n := func(id string) int64 { return d.of(id)[0].Seq }
		d.end(epA, ending(20), 0, 0)
		d.end(epA, ending(20), 1, 1)
		d.leads(epA, n("l1"), n("m"), n("k2"))
		d.same(d.delivery(n("k2")).Waiting, grapnel.Waiting{Head: true, Due: at(20), Anchor: at(20)}, "promoted")
		d.end(epA, ending(21), 3, 3)
		d.leads(epA, n("k3"), n("l2"))
		d.same(d.delivery(n("m")).FinishedAt, at(21), "finished")
		d.same(d.delivery(n("k3")).Waiting.Due, at(21), "due")
		d.same(d.change(delivered(n("k3"), 0, 25)).Next, (*store.Head)(nil), "next")
	}},
	{"ends many in pages", func(d *driver) {
		var batch []store.Incoming
		for i := range 1300 {
			batch = append(batch, incoming(event(fmt.Sprint("e", i), fmt.Sprint("k", i%7), float64(i)), to(epA), to(epB)))
		}
		d.publish(batch...)
		left := d.list(store.DeliveryQuery{Endpoint: epA}) // the newest first
		for len(left) > 0 {
			page := min(500, len(left))
			d.end(epA, ending(5000), 500, page)
			left = left[:len(left)-page]
			var heads []int64
			for i := range min(7, len(left)) {
				heads = append(heads, left[len(left)-1-i].Seq)
			}
			d.leads(epA, heads...)
		}
		d.same(d.waiting(epB), 1000, "the other endpoint, counted to a limit")
	}},
	{"can end with any final status", func(d *driver) {
		for i, status := range finals() {
			n := d.lane(string(rune('a'+i)), 2)
			e := ending(9)
			e.Status, e.ReasonCode = status, grapnel.ReasonNone
			d.end(epA, e, 10, 2)
			d.same(d.delivery(n[1]).Status, status, "status")
			d.same(d.delivery(n[1]).ReasonCode, grapnel.ReasonNone, "reason code")
		}
	}},
}
