package storetest

import (
	"fmt"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// leaseEndCases are the ways in which a lease ends: a change of its delivery, its expiry, an
// extension.
var leaseEndCases = []testCase{
	{"ends with the change that it is for", func(d *driver) {
		n := d.queue(2)
		d.claim(epA, 5, want("lse_1", "c"), want("lse_2", "c"))
		ack := settled(delivered(n[0], 0, 14.999999), "lse_1")
		d.same(d.change(ack).Status, grapnel.Delivered, "status")
		d.same(d.record(ack)[0], store.Changed{Status: grapnel.Delivered}, "once more")
		nack := settled(retried(n[1], 0, 6, 30), "lse_2")
		nack.Attempt.Class = "nack"
		d.change(nack)
		d.refused(settled(retried(n[1], 1, 7, 8), "lse_2"), "a token that was used")
		d.refused(settled(delivered(n[1], 1, 7), "lse_2"), "a token that was used")
		_, err := d.Lease(d.ctx, "lse_2")
		d.code(err, grapnel.CodeNotFound, "a lease that was settled")
		d.same(len(d.leases(epA)), 0, "leases")
		x := d.delivery(n[1])
		d.same([]any{x.AttemptsMade, x.Waiting.Due, string(x.Last.Class)}, []any{1, at(30), "nack"}, "delivery")
		again := d.claim(epA, 30, want("lse_3", "c"))
		d.same(again.Leases[0].Number, 2, "number")
		d.same(again.Leases[0].Scheduled, at(30), "scheduled")
		d.change(settled(retried(n[1], store.AnyAttempts, 31, 31), "lse_3"))
		d.same(d.delivery(n[1]).AttemptsMade, 2, "attempts")
	}},
	{"is settled by its token alone, and only before it expires", func(d *driver) {
		n := d.queue(2)
		d.claim(epA, 5, want("lse_1", "c"), want("lse_2", "c"))
		d.refused(settled(delivered(n[0], 0, 6), "lse_2"), "another delivery's token")
		d.refused(settled(delivered(n[0], 0, 6), "lse_0"), "a token of nothing")
		d.refused(settled(delivered(n[0], 0, 6), ""), "an empty token")
		d.refused(settled(delivered(n[0], 1, 6), "lse_1"), "the wrong number of attempts")
		d.refused(settled(delivered(n[0], 0, 15), "lse_1"), "at its end")
		d.refused(settled(retried(n[0], 0, 16, 20), "lse_1"), "after its end")
		d.refused(ranOut(retried(n[0], 0, 14.999999, 20), "lse_1"), "a lease that is not over")
		d.refused(ranOut(retried(n[0], 0, 15, 20), "lse_2"), "another's that is over")
		d.change(ranOut(retried(n[0], 0, 15, 20), "lse_1"))
		d.change(settled(delivered(n[1], 0, 14), "lse_2"))
		d.refused(ranOut(retried(n[0], 1, 16, 30), "lse_1"), "it was over before")
		d.refused(settled(delivered(n[0], 1, 16), ""), "nobody has it")
		d.same(d.delivery(n[0]).Waiting.Due, at(20), "due")
	}},
	{"is reported once it has expired", func(d *driver) {
		n := d.queue(3)
		short := want("lse_2", "c")
		short.For = time.Second
		first := d.claim(epA, 5, want("lse_1", "c"), short)
		done := d.claim(epA, 6)
		d.same(done, store.Claimed{Over: first.Leases[1:], Next: at(2)}, "over")
		done = d.claim(epA, 6, want("lse_3", "d"), want("lse_4", "d"))
		d.claimed(done, n[2:], n[1:2])
		d.same(done.Over, first.Leases[1:], "over, the same again until it is recorded")
		d.same(done.Next, at(15), "next")
		again := ranOut(retried(n[1], 0, 6, 9), "lse_2")
		again.Attempt.Class = "lease_over"
		d.change(again)
		d.claimed(d.claim(epA, 9, want("lse_5", "d")), n[1:2], nil)
		dead := ranOut(delivered(n[0], 0, 15), "lse_1")
		dead.Status, dead.ReasonCode = grapnel.Failed, grapnel.ReasonExhausted
		d.change(dead)
		d.same(d.delivery(n[0]).Status, grapnel.Failed, "status")
		d.claimed(d.claim(epA, 16), nil, n[2:])
	}},
	{"does not pass over any number of expired leases", func(d *driver) {
		const more = 7
		var events []store.Incoming
		for i := range store.MostOver + more {
			events = append(events, incoming(event(fmt.Sprint("e", i), "", 0), to(epA)))
		}
		numbers := numbersOf(d.publish(events...).Heads)
		var wants []store.Want
		for i := range numbers {
			wants = append(wants, store.Want{Token: fmt.Sprint("lse_", i), Consumer: "c", For: time.Duration(i) * time.Second})
		}
		d.claimed(d.claim(epA, 0, wants...), numbers, nil)
		// The claim stops at the MostOver-th expired lease: it sees only deliveries due before that.
		last := float64(store.MostOver - 1)
		d.publish(incoming(event("before", "", last-1), to(epA)))                                       // leased
		d.publish(incoming(event("at", "", last), to(epA)))                                             // not: its row id is higher
		d.publish(incoming(event("behind", "", last), store.Target{Endpoint: epA, Delay: time.Second})) // nor is this one
		done := d.claim(epA, 1000, want("lse_a", "d"), want("lse_b", "d"))
		d.claimed(done, []int64{d.of("before")[0].Seq}, numbers[:store.MostOver])
		d.same(done.Next, at(last), "next")
		var changes []store.Change
		for _, l := range done.Over {
			changes = append(changes, ranOut(delivered(l.Delivery, 0, 1000), l.Token))
		}
		for _, c := range d.record(changes...) {
			d.same(c.Applied, true, "applied")
		}
		done = d.claim(epA, 1001, want("lse_c", "d"), want("lse_d", "d"))
		d.claimed(done, []int64{d.of("at")[0].Seq, d.of("behind")[0].Seq}, append(numbers[store.MostOver:], d.of("before")[0].Seq)[:more:more])
	}},
	{"lets a person end a delivery but not plan it", func(d *driver) {
		n := d.queue(2)
		d.claim(epA, 5, want("lse_1", "c"), want("lse_2", "c"))
		plan := by(n[0], grapnel.Pending, 6)
		plan.Due = at(7)
		d.refused(plan, "somebody has it")
		plan.At = at(99)
		d.refused(plan, "somebody had it, and that is not recorded")
		d.change(by(n[0], grapnel.Skipped, 7))
		d.refused(settled(delivered(n[0], 0, 8), "lse_1"), "it was ended")
		_, err := d.Lease(d.ctx, "lse_1")
		d.code(err, grapnel.CodeNotFound, "its lease")
		d.change(settled(retried(n[1], 0, 8, 20), "lse_2"))
		plan = by(n[1], grapnel.Pending, 9)
		plan.Due = at(10)
		d.change(plan)
		d.claimed(d.claim(epA, 10, want("lse_3", "c")), n[1:], nil)
	}},
	{"ends with its delivery when all deliveries are ended", func(d *driver) {
		k := d.lane("k", 2)
		d.claim(epA, 5, want("lse_1", "c"))
		d.end(epA, ending(6), 1, 1)
		d.same(len(d.leases(epA)), 0, "leases")
		_, err := d.Extend(d.ctx, "lse_1", at(7), time.Second)
		d.code(err, grapnel.CodeConflict, "extend")
		d.refused(settled(delivered(k[0], 0, 7), "lse_1"), "it was ended")
		d.claimed(d.claim(epA, 7, want("lse_2", "c")), k[1:], nil)
		ep := endpoint(epA, acme)
		ep.Revision, ep.DeletedAt = 1, at(8)
		d.put(ep)
		d.end(epA, ending(9), 10, 1)
		d.must(d.RemoveEndpoint(d.ctx, epA), "RemoveEndpoint")
		d.same(len(d.leases(epA)), 0, "leases")
		d.purge(1000, 1, 10, 2)
	}},
	{"ends later, or earlier, if it is extended in time", func(d *driver) {
		n := d.queue(2)
		d.claim(epA, 5, want("lse_1", "c"), want("lse_2", "c"))
		l, err := d.Extend(d.ctx, "lse_1", at(14.999999), time.Minute)
		d.must(err, "Extend")
		d.same(l.Until, at(74.999999), "until")
		d.same(d.leases(epA)[1], l, "lease")
		d.leads(epA, n[1], n[0])
		for _, token := range []string{"lse_2", "lse_0", ""} {
			_, err := d.Extend(d.ctx, token, at(15), time.Minute)
			d.code(err, grapnel.CodeConflict, "over, or nothing")
		}
		d.claimed(d.claim(epA, 20), nil, n[1:])
		l, err = d.Extend(d.ctx, "lse_1", at(20), time.Second)
		d.must(err, "Extend")
		d.same(l.Until, at(21), "earlier")
		d.refused(settled(delivered(n[0], 0, 21), "lse_1"), "over")
		d.claimed(d.claim(epA, 21), nil, []int64{n[1], n[0]})
		d.change(ranOut(retried(n[1], 0, 22, 30), "lse_2"))
		d.claim(epA, 30, want("lse_3", "c"))
		d.change(settled(delivered(n[1], 1, 31), "lse_3"))
		_, err = d.Extend(d.ctx, "lse_3", at(31), time.Minute)
		d.code(err, grapnel.CodeConflict, "settled")
	}},
	{"is not madeDue", func(d *driver) {
		n := d.queue(2)
		d.change(wide(n[0], 0, 10, 20))
		d.change(wide(n[1], 0, 10, 30))
		d.claim(epA, 20, store.Want{Token: "lse_1", For: time.Hour})
		d.makeDue(epA, back(25), 10, 1)
		d.leads(epA, n[1], n[0])
		d.same(d.leases(epA)[0].Until, at(20+3600), "until")
		d.same(d.delivery(n[1]).Waiting.Due, at(25), "due of the other")
	}},
}
