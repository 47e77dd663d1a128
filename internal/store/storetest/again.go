package storetest

import (
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

var againCases = []testCase{
	{"joins the tail of the lane", func(d *driver) {
		n := d.lane("k", 3)
		d.change(delivered(n[0], 0, 10))
		done := d.redeliver(n[0], 20)
		d.same(done, store.Redelivered{Delivery: done.Delivery, CreatedAt: at(20)}, "redelivered")
		x := d.delivery(done.Delivery)
		d.same(x, grapnel.Delivery{
			Seq: done.Delivery, EventSeq: d.of("k_1")[0].EventSeq, EventID: "k_1", EndpointID: epA, Tenant: acme, Type: "invoice.paid",
			Key: "k", Position: 4, Status: grapnel.Pending, CreatedAt: at(20), ReplayOf: n[0],
		}, "new delivery")
		if done.Delivery <= n[2] {
			d.Fatalf("the new delivery has number %d after %d", done.Delivery, n[2])
		}
		d.same(d.delivery(n[0]).Status, grapnel.Delivered, "the old one stays")
		list := d.of("k_1")
		d.same([]int64{list[0].Seq, list[1].Seq}, []int64{n[0], done.Delivery}, "deliveries of the event")
		d.change(delivered(n[1], 0, 30))
		is := d.change(delivered(n[2], 0, 31))
		d.same(is.Next.Delivery, done.Delivery, "next")
		d.same(is.Next.Trigger, grapnel.TriggerReplay, "trigger")
		d.same(is.Next.Due, at(31), "due")
	}},
	{"leads an empty lane", func(d *driver) {
		n := d.lane("k", 1)
		d.change(delivered(n[0], 0, 10))
		done, err := d.Again(d.ctx, everyone, store.Redelivery{Of: n[0], Trigger: grapnel.TriggerManual, Ordered: true,
			Delay: time.Minute, At: at(20)})
		d.must(err, "Again")
		want := store.Head{
			Delivery: done.Delivery, Event: d.of("k_1")[0].EventSeq, Endpoint: epA, Lane: "k", Position: 2, Due: at(80), Anchor: at(20),
			Trigger: grapnel.TriggerManual, CreatedAt: at(20),
		}
		d.same(done.Head, &want, "head")
		d.same(d.heads(epA), []store.Head{want}, "heads")
	}},
	{"stands by itself when unordered or without key", func(d *driver) {
		n := d.lane("k", 2)
		d.change(delivered(n[0], 0, 10))
		done, err := d.Again(d.ctx, everyone, store.Redelivery{Of: n[0], At: at(20)})
		d.must(err, "Again")
		d.same(done.Head.Lane, "", "lane")
		d.same(done.Head.Position, int64(0), "position")
		d.leads(epA, n[1], done.Delivery)
		d.publish(incoming(event("loose", "", 5), to(epB)))
		loose := d.of("loose")[0].Seq
		d.change(delivered(loose, 0, 10))
		d.same(d.redeliver(loose, 21).Head.Position, int64(0), "position without key")
		d.same(d.redeliver(n[0], 22).Head, (*store.Head)(nil), "the lane has its own head")
	}},
	{"repeats a delivery, which may be a redelivery, dropped, or pending", func(d *driver) {
		n := d.lane("k", 1)
		d.change(delivered(n[0], 0, 10))
		second := d.redeliver(n[0], 20).Delivery
		third := d.redeliver(second, 30)
		d.same(d.delivery(third.Delivery).ReplayOf, second, "replay of")
		d.same(d.delivery(third.Delivery).Position, int64(3), "position")
		gone := to(epB)
		gone.Drop = "disabled"
		d.publish(incoming(event("dropped", "k", 40), gone))
		d.same(d.redeliver(d.of("dropped")[0].Seq, 50).Head.Position, int64(1), "position of what was dropped")
	}},
	{"is shown with its event, unless that has many newer ones", func(d *driver) {
		n := d.lane("k", 1)
		d.change(delivered(n[0], 0, 10))
		want := []int64{n[0]}
		for i := range store.MostRedeliveries + 2 {
			done, err := d.Again(d.ctx, everyone, store.Redelivery{Of: n[0], At: at(20)})
			d.must(err, "Again")
			if i%2 == 0 {
				d.change(delivered(done.Delivery, 0, 30))
			}
			if i >= 2 {
				want = append(want, done.Delivery)
			}
		}
		d.same(seqs(d.of("k_1")), want, "deliveries of the event")
	}},
	{"leaves no dead letter of an event that it has delivered", func(d *driver) {
		letters := func() []int64 { return seqs(d.list(store.DeliveryQuery{DeadLetters: true})) }
		n := d.dead("k", 2)
		again := func(of int64, status grapnel.Status, when float64) int64 {
			made := d.redeliver(of, when).Delivery
			d.change(by(made, status, when+1))
			return made
		}
		copied := again(n[0], grapnel.Failed, 40)
		sibling := again(n[0], grapnel.Failed, 50)
		d.same(letters(), []int64{sibling, copied, n[1], n[0]}, "dead letters of failed redeliveries")
		last := again(copied, grapnel.Delivered, 60)
		d.same(letters(), []int64{n[1]}, "dead letters once one is delivered")
		for _, one := range []int64{n[0], copied, sibling} {
			d.same(d.delivery(one).Mark, grapnel.Mark{ReplayedAt: at(60), ReplayedAs: last, ReplayResult: grapnel.Delivered}, "mark")
		}
		once := again(last, grapnel.Failed, 70)
		d.same(letters(), []int64{once, n[1]}, "one that failed later")
	}},
	{"finds only existing deliveries in scope", func(d *driver) {
		n := d.lane("k", 1)
		for what, try := range map[string]struct {
			scope store.Scope
			of    int64
		}{
			"absent":         {everyone, n[0] + 1000},
			"zero":           {everyone, 0},
			"another tenant": {store.Of(bolt), n[0]},
			"zero scope":     {store.Scope{}, n[0]},
		} {
			_, err := d.Again(d.ctx, try.scope, store.Redelivery{Of: try.of, At: at(9)})
			d.code(err, grapnel.CodeNotFound, what)
		}
		d.same(len(d.of("k_1")), 1, "deliveries")
	}},
	{"adds no delivery to an endpoint that is marked as deleted or absent", func(d *driver) {
		n := d.lane("k", 1)
		d.change(delivered(n[0], 0, 10))
		ep := endpoint(epA, acme)
		ep.Revision, ep.DeletedAt = 1, at(11)
		d.put(ep)
		_, err := d.Again(d.ctx, everyone, store.Redelivery{Of: n[0], At: at(12)})
		d.code(err, grapnel.CodeNotFound, "marked as deleted")
		d.must(d.RemoveEndpoint(d.ctx, epA), "RemoveEndpoint")
		_, err = d.Again(d.ctx, everyone, store.Redelivery{Of: n[0], At: at(13)})
		d.code(err, grapnel.CodeNotFound, "removed")
		d.same(len(d.of("k_1")), 1, "deliveries")
	}},
}
