package storetest

import (
	"fmt"
	"math"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// purgeCases are about rows whose retention has passed.
var purgeCases = []testCase{
	{"purges rows whose retention has passed, the oldest first", func(d *driver) {
		n := d.lane("k", 4)
		d.change(retried(n[0], 0, 4, 5))
		for i, when := range []float64{5, 6, 7} {
			d.change(by(n[i], grapnel.Delivered, when))
		}
		d.purge(15, 10, 100, 0) // finished for exactly the retention
		d.purge(16, 10, 0, 0)
		d.purge(16, 10, 100, 1)
		d.gone(n[0], "k_1")
		d.purge(30, 10, 1, 1)
		d.gone(n[1], "k_2")
		d.purge(30, 10, 100, 1)
		d.purge(30, 10, 100, 0)
		d.same(numbersOf(d.heads(epA)), []int64{n[3]}, "what waits")
		d.purge(1e9, 10, 100, 0)
		d.same(len(d.list(store.DeliveryQuery{})), 1, "deliveries that are left")
		d.same(len(d.eventList(store.EventQuery{})), 1, "events that are left")
		d.same(d.change(delivered(n[3], 0, 40)).Next, (*store.Head)(nil), "next")
		d.same(d.record(delivered(n[0], 0, 40))[0], store.Changed{}, "a change of what is gone")
	}},
	{"keeps an event as long as it has a delivery", func(d *driver) {
		d.publish(incoming(event("e", "", 0), to(epA), to(epB)), incoming(event("none", "", 1)))
		x := d.of("e")
		d.change(delivered(x[0].Seq, 0, 5))
		d.purge(1000, 10, 100, 2) // and the event without any
		_, _, err := d.Event(d.ctx, everyone, "", "none")
		d.code(err, grapnel.CodeNotFound, "event without deliveries")
		e, left, err := d.Event(d.ctx, everyone, "", "e")
		d.must(err, "Event")
		d.same(len(left), 1, "deliveries that are left")
		d.same(string(e.Data), `{"id": "e"}`, "data")
		events, err := d.Events(d.ctx, []int64{x[1].EventSeq})
		d.must(err, "Events")
		d.same(events[0].ID, "e", "the event that is still to be delivered")
		d.change(by(x[1].Seq, grapnel.Failed, 2000))
		again := d.redeliver(x[1].Seq, 2001).Delivery
		d.purge(3000, 10, 100, 1)
		d.change(delivered(again, 0, 3001))
		d.purge(3012, 10, 100, 1)
		d.gone(again, "e")
		d.same(d.publish(incoming(event("e", "", 4000), to(epA))).Events[0].Duplicate, false, "an id that is gone is new")
	}},
	{"counts the retention of dead letters from their failure", func(d *driver) {
		n := d.lane("k", 1)
		d.change(retried(n[0], 0, 5, 900))
		d.change(by(n[0], grapnel.Failed, 1000))
		d.purge(1010, 10, 100, 0)
		d.purge(1011, 10, 100, 1)
	}},
	{"retains by tenant and type, by the first rule that matches", func(d *driver) {
		paid, line, other := event("paid", "", 0), event("line", "", 0), event("other", "", 0)
		line.Type, other.Tenant = "invoice.line.added", bolt
		d.publish(incoming(paid, to(epA)), incoming(line, to(epA)), incoming(other, to(epX)))
		for _, id := range []string{"paid", "line", "other"} {
			d.change(delivered(d.of(id)[0].Seq, 0, 1))
		}
		rules := []store.KeepRule{{Tenant: acme, Type: "invoice.line.*", For: time.Hour}, {Tenant: acme, For: seconds(10)},
			{Type: "invoice.paid", For: seconds(20)}}
		d.purge(12, 1, 100, 1, rules...)
		d.same(len(d.list(store.DeliveryQuery{Type: "invoice.paid", Tenant: acme})), 0, "acme's")
		d.purge(22, 1, 100, 1, rules...)
		d.same(len(d.list(store.DeliveryQuery{Tenant: bolt})), 0, "bolt's")
		d.purge(22, 1e6, 100, 1, store.KeepRule{Type: "*.added"})
	}},
	{"changes only the counts of stored deliveries", func(d *driver) {
		n := d.lane("k", 9)
		for i, status := range finals() {
			d.change(by(n[i], status, float64(10+i)))
		}
		totals := d.allTotals()
		counts, err := d.Counts(d.ctx, everyone)
		d.must(err, "Counts")
		d.same(counts[epA], map[grapnel.Status]int64{grapnel.Delivered: 1, grapnel.Failed: 1, grapnel.Dropped: 1, grapnel.Discarded: 1,
			grapnel.Skipped: 1, grapnel.Pending: 4}, "counts before")
		d.purge(100, 10, 3, 3)
		d.purge(100, 10, 3, 2)
		counts, err = d.Counts(d.ctx, everyone)
		d.must(err, "Counts")
		d.same(counts[epA], map[grapnel.Status]int64{grapnel.Pending: 4}, "counts after")
		d.same(d.allTotals(), totals, "totals")
		d.reopen()
		d.balanced()
		d.same(d.allTotals(), totals, "totals after a restart")
	}},
	{"gives no number or position again, even if nothing is left", func(d *driver) {
		n := d.lane("k", 2)
		d.change(delivered(n[0], 0, 5))
		d.change(delivered(n[1], 0, 6))
		last := d.config().Newest
		d.purge(100, 10, 100, 2)
		d.same(len(d.list(store.DeliveryQuery{}))+len(d.eventList(store.EventQuery{})), 0, "what is left")
		for range 2 {
			d.same(d.config().Newest, last, "newest")
			d.reopen()
		}
		d.publish(incoming(event("new", "k", 10), to(epA)))
		x := d.of("new")[0]
		d.same(x.Position, int64(3), "position")
		if x.Seq <= last || x.EventSeq <= 2 {
			d.Fatalf("numbers are given again: %+v", x)
		}
	}},
	{"forgets a lane with the delivery that had its last position, and goes on above it", func(d *driver) {
		position := func(id, key string, at float64, want int64) int64 {
			d.publish(incoming(event(id, key, at), to(epA)))
			x := d.of(id)[0]
			d.same(x.Position, want, "position of "+id)
			return x.Seq
		}
		n := d.lane("k", 3)
		for i, when := range []float64{5, 6, 7} {
			d.change(delivered(n[i], 0, when))
		}
		position("m_1", "m", 8, 1)
		d.purge(16, 10, 100, 1)
		d.change(delivered(position("k_4", "k", 17, 4), 0, 18)) // the third is stored, and has the last
		d.purge(1000, 10, 100, 3)
		d.reopen()
		for _, at := range []float64{1000, 2000} {
			d.change(delivered(position(fmt.Sprint("k_", at), "k", at, 5+int64(at-1000)/1000), 0, at+1))
			d.change(delivered(position(fmt.Sprint("z_", at), "z", at, 5+int64(at-1000)/1000), 0, at+1))
		}
		d.change(by(position("m_2", "m", 2000, 2), grapnel.Skipped, 2001))
		d.purge(3000, 10, 100, 5)
		position("m_3", "m", 3000, 3) // the first still waits
		position("k_3", "k", 3000, 7)
		position("new", "new", 3000, 7)
		d.sound()
	}},
	{"forgets a lane whose last delivery was purged while an earlier one was pending", func(d *driver) {
		publish := func(key string, when float64, want int64) int64 {
			id := fmt.Sprint(key, "_", when)
			d.publish(incoming(event(id, key, when), to(epA)))
			x := d.of(id)[0]
			d.same(x.Position, want, "position of "+id)
			return x.Seq
		}
		first := publish("k", 1, 1)
		d.change(by(publish("k", 2, 2), grapnel.Skipped, 3))
		for i := range 5 {
			d.change(delivered(publish("other", 4+float64(i), int64(i+1)), 0, 9))
		}
		d.purge(20, 10, 100, 6)
		d.change(delivered(first, 0, 21))
		d.purge(40, 10, 100, 1)
		publish("k", 41, 6) // above those of the other lane, so its own was forgotten
		d.sound()
	}},
	{"removes much in pages", func(d *driver) {
		var batch []store.Incoming
		for i := range 700 {
			batch = append(batch, incoming(event(fmt.Sprint("e", i), fmt.Sprint("k", i%7), float64(i)/100), to(epA), to(epB)))
		}
		d.publish(batch...)
		d.end(epA, ending(20), math.MaxInt32, 700)
		d.purge(100, 10, 500, 500)
		d.purge(100, 10, 500, 200)
		d.purge(100, 10, 500, 0)
		d.same(len(d.eventList(store.EventQuery{})), 700, "events")
		d.end(epB, ending(20), math.MaxInt32, 700)
		d.purge(100, 10, 1000, 700)
		d.same(len(d.eventList(store.EventQuery{})), 0, "events")
	}},
}
