package storetest

import (
	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// replayStepCases are the rules of Advance.
var replayStepCases = []testCase{
	{"makes deliveries at the tails of their lanes, in the order of the originals", func(d *driver) {
		k, l := d.dead("k", 2), d.dead("l", 1)
		waits := d.lane("m", 1)
		d.publish(incoming(event("k_live", "k", 50), to(epA)))
		live := d.of("k_live")[0].Seq
		r := d.order(replayOf("rpl_1", 60, grapnel.Failed))
		done, err := d.Advance(d.ctx, stepOver(r, k[0], k[1], l[0]))
		d.must(err, "Advance")
		d.same(done[0].Head, (*store.Head)(nil), "waits behind what is live")
		d.same(done[1].Head, (*store.Head)(nil), "waits behind the first")
		first := d.of("l_1")[0]
		d.same(done[2], store.Redelivered{Delivery: done[2].Delivery, CreatedAt: at(100), Head: &store.Head{Delivery: done[2].Delivery,
			Event: first.EventSeq, Endpoint: epA, Lane: "l", Position: 2, Due: at(100), Anchor: at(100), Trigger: grapnel.TriggerReplay,
			CreatedAt: at(100)}}, "leads")
		d.leads(epA, waits[0], live, done[2].Delivery)
		for i, n := range []int64{k[0], k[1], l[0]} {
			made, of := d.delivery(done[i].Delivery), d.delivery(n)
			d.same([]any{made.ReplayOf, made.EventID, made.Position, made.Status}, []any{n, of.EventID, []int64{4, 5, 2}[i],
				grapnel.Pending}, "made")
			d.same(of.Status, grapnel.Failed, "the original stays")
			d.same(of.Mark, grapnel.Mark{ReplayedAt: at(100), ReplayedBy: "rpl_1", ReplayedAs: made.Seq, ReplayResult: grapnel.Pending}, "mark")
		}
		is := d.change(delivered(live, 0, 110))
		d.same(is.Next.Delivery, done[0].Delivery, "the first is next")
		d.same(is.Next.Trigger, grapnel.TriggerReplay, "trigger")
		d.same(d.change(delivered(done[0].Delivery, 0, 111)).Next.Delivery, done[1].Delivery, "then the second")
		d.sound()
	}},
	{"makes a step once", func(d *driver) {
		n := d.dead("k", 3)
		r := d.order(replayOf("rpl_1", 60, grapnel.Failed))
		s := stepOver(r, n[0], n[1])
		_, err := d.Advance(d.ctx, s)
		d.must(err, "Advance")
		before := d.everything()
		_, err = d.Advance(d.ctx, s)
		d.code(err, grapnel.CodeConflict, "the same step")
		s.To = n[2]
		_, err = d.Advance(d.ctx, s)
		d.code(err, grapnel.CodeConflict, "another step from there")
		d.same(d.everything(), before, "everything")
		r = d.replayed("rpl_1")
		d.same([]any{r.Cursor, r.Started}, []any{n[1], 2}, "where it is")
		d.step(r, n[2])
		r = d.replayed("rpl_1")
		d.same(d.step(r), []int64(nil), "a step that makes nothing")
		far := stepOver(r)
		far.To += 100
		_, err = d.Advance(d.ctx, far)
		d.must(err, "Advance over nothing")
		d.same(d.replayed("rpl_1").Cursor, far.To, "cursor")
	}},
	{"makes no invalid step", func(d *driver) {
		n := d.dead("k", 2)
		r := d.order(replayOf("rpl_1", 60, grapnel.Failed))
		refused := func(s store.ReplayStep, want grapnel.Code, what string) {
			d.Helper()
			before := d.everything()
			_, err := d.Advance(d.ctx, s)
			d.code(err, want, what)
			d.same(d.everything(), before, "everything")
		}
		none := stepOver(r, n[0])
		none.Replay = "rpl_none"
		refused(none, grapnel.CodeNotFound, "absent")
		back := stepOver(r, n[1], n[0])
		refused(back, grapnel.CodeInvalid, "back")
		twice := stepOver(r, n[0], n[0])
		refused(twice, grapnel.CodeInvalid, "twice")
		far := stepOver(r, n[1])
		far.To = n[0]
		refused(far, grapnel.CodeInvalid, "beyond its end")
		r.Status = grapnel.ReplayPaused
		r = d.order(r)
		refused(stepOver(r, n[0]), grapnel.CodeConflict, "paused")
		r.Status = grapnel.ReplayRunning
		r = d.order(r)
		ep := endpoint(epA, acme)
		ep.Revision, ep.DeletedAt = 1, at(70)
		d.put(ep)
		refused(stepOver(r, n[0]), grapnel.CodeNotFound, "the endpoint is marked as deleted")
		d.must(d.RemoveEndpoint(d.ctx, epA), "RemoveEndpoint")
		refused(stepOver(r, n[0]), grapnel.CodeNotFound, "the endpoint is gone")
		r.Status = grapnel.ReplayStopped
		refused(stepOver(d.order(r), n[0]), grapnel.CodeConflict, "over")
	}},
	{"passes over originals that are no finished deliveries of its endpoint", func(d *driver) {
		n := d.dead("k", 1)
		waits := d.lane("w", 1)[0]
		d.publish(incoming(event("b", "k", 30), to(epB)))
		other := d.of("b")[0].Seq
		d.change(by(other, grapnel.Failed, 31))
		r := d.order(replayOf("rpl_1", 60, grapnel.Failed))
		made := d.step(r, n[0], waits, other, other+1000)
		d.same(made[1:], []int64{0, 0, 0}, "nothing made")
		r = d.replayed("rpl_1")
		d.same([]any{r.Cursor, r.Started}, []any{other + 1000, 1}, "where it is")
		d.same(len(d.items("rpl_1")), 1, "items")
	}},
	{"counts the results of its deliveries, and records them on the originals", func(d *driver) {
		n := d.dead("k", 5)
		r := d.order(replayOf("rpl_1", 60, grapnel.Failed))
		made := d.step(r, n...)
		counts := func(want ...int) {
			d.Helper()
			r := d.replayed("rpl_1")
			d.same([]int{r.Started, r.Done, r.Delivered, r.Failed, r.Row}, want, "started, done, delivered, failed, in a row")
		}
		counts(5, 0, 0, 0, 0)
		d.change(retried(made[0], 0, 110, 120))
		counts(5, 0, 0, 0, 0)
		d.change(by(made[0], grapnel.Failed, 121))
		counts(5, 1, 0, 1, 1)
		d.change(by(made[1], grapnel.Skipped, 122))
		counts(5, 2, 0, 2, 2)
		d.change(delivered(made[2], 0, 123))
		counts(5, 3, 1, 2, 0)
		d.same(d.record(delivered(made[2], 0, 124))[0].Applied, false, "repeated")
		counts(5, 3, 1, 2, 0)
		r = d.replayed("rpl_1")
		r.Status = grapnel.ReplayCancelled
		d.order(r)
		d.end(epA, ending(130), 10, 2)
		counts(5, 5, 1, 4, 2)
		wanted := []grapnel.Status{grapnel.Failed, grapnel.Skipped, grapnel.Delivered, grapnel.Dropped, grapnel.Dropped}
		var want []grapnel.ReplayItem
		for i := range n {
			d.same(d.delivery(n[i]).Mark, grapnel.Mark{ReplayedAt: at(100), ReplayedBy: "rpl_1", ReplayedAs: made[i],
				ReplayResult: wanted[i]}, "mark")
			want = append(want, grapnel.ReplayItem{Original: n[i], CreatedAt: at(float64(i)), Made: made[i], MadeAt: at(100), Status: wanted[i]})
		}
		d.same(d.items("rpl_1"), want, "items")
		page, err := d.ReplayItems(d.ctx, store.Of(acme), "rpl_1", n[1], 2)
		d.must(err, "ReplayItems")
		d.same(page, want[2:4], "a page of items")
	}},
	{"passes over originals that were redelivered or discarded since they were seen", func(d *driver) {
		n := d.dead("k", 5)
		d.redeliver(n[3], 70)
		d.annotate(n[4], "", "no use", 70)
		s := stepOver(d.order(replayOf("rpl_1", 80, grapnel.Failed)), n...)
		for i := range s.Items {
			mark := d.delivery(n[i]).Mark
			s.Items[i].Seen = &mark
		}
		by := d.redeliver(n[1], 90).Delivery
		d.annotate(n[2], "", "no use", 90)
		done, err := d.Advance(d.ctx, s)
		d.must(err, "Advance")
		for i, made := range []bool{true, false, false, true, true} {
			d.same(done[i].Delivery != 0, made, "made")
		}
		d.same(d.delivery(n[1]).Mark.ReplayedAs, by, "mark")
		r := d.replayed("rpl_1")
		d.same([]any{r.Cursor, r.Started}, []any{n[4], 3}, "where it is")
		d.sound()
	}},
	{"records on an original its last redelivery", func(d *driver) {
		n := d.dead("k", 1)
		d.order(replayOf("rpl_1", 60, grapnel.Failed))
		first := d.step(d.replayed("rpl_1"), n[0])[0]
		by2 := d.redeliver(n[0], 105).Delivery
		d.change(delivered(first, 0, 110))
		d.same(d.delivery(n[0]).Mark, grapnel.Mark{ReplayedAt: at(105), ReplayedAs: by2, ReplayResult: grapnel.Pending}, "by hand, and not over")
		d.change(by(by2, grapnel.Skipped, 111))
		d.same(d.delivery(n[0]).Mark.ReplayResult, grapnel.Skipped, "result")
		d.same(d.replayed("rpl_1").Delivered, 1, "the replay's own is its own")
		listed := d.list(store.DeliveryQuery{Endpoint: epA, Status: []grapnel.Status{grapnel.Failed}})
		d.same(listed[0].Mark, d.delivery(n[0]).Mark, "in a list")
	}},
}
