package storetest

import (
	"fmt"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// finals are all statuses that end a delivery.
func finals() []grapnel.Status {
	var list []grapnel.Status
	for _, s := range grapnel.Statuses() {
		if s.Final() {
			list = append(list, s)
		}
	}
	return list
}

var recordCases = []testCase{
	{"finishes a head and promotes the next", func(d *driver) {
		n := d.lane("k", 3)
		c := delivered(n[0], 0, 10)
		c.ReasonCode = grapnel.ReasonExhausted
		c.Status = grapnel.Failed
		is := d.change(c)
		next := store.Head{
			Delivery: n[1], Event: d.of("k_2")[0].EventSeq, Endpoint: epA, Lane: "k", Position: 2, Due: at(10), Anchor: at(10),
			Trigger: grapnel.TriggerSchedule, CreatedAt: at(1),
		}
		d.same(is, store.Changed{Applied: true, Status: grapnel.Failed, Next: &next}, "changed")
		d.leads(epA, n[1])
		x := d.delivery(n[0])
		d.same(x, grapnel.Delivery{
			Seq: n[0], EventSeq: x.EventSeq, EventID: "k_1", EndpointID: epA, Tenant: acme, Type: "invoice.paid", Key: "k", Position: 1,
			Status: grapnel.Failed, ReasonCode: grapnel.ReasonExhausted, Reason: "delivered", AttemptsMade: 1, CreatedAt: at(0),
			FinishedAt: at(10), Attempts: []grapnel.Attempt{*attempt(1, 10)},
			Last: grapnel.Last{StatusCode: 503, Class: policy.ClassStatus5xx, Duration: 120 * time.Millisecond},
		}, "finished")
		if _, first := d.head(n[2]); first {
			d.Fatal("the third leads")
		}
	}},
	{"has the same result if the caller takes a delivery of a lane for one without", func(d *driver) {
		n := d.lane("k", 3)
		c := delivered(n[0], 0, 10)
		c.Lone = true
		d.same(d.change(c).Next.Delivery, n[1], "next")
		c = delivered(n[2], 0, 11)
		c.Lone, c.Status = true, grapnel.Pending
		d.same(d.change(c).Next.Delivery, n[1], "the head before the delivery")
		d.leads(epA, n[1])
		c = delivered(n[0], 0, 12)
		c.Lone = true
		is := d.record(c)[0]
		d.same([]any{is.Applied, is.Status, is.Next.Delivery}, []any{false, grapnel.Delivered, n[1]}, "of a finished delivery")
	}},
	{"starts the next with its first delay", func(d *driver) {
		n := d.lane("k", 2)
		c := delivered(n[0], 0, 10)
		c.NextDelay = time.Minute
		is := d.change(c)
		d.same(is.Next.Due, at(70), "due")
		d.same(is.Next.Anchor, at(10), "anchor")
	}},
	{"starts the next no earlier than it existed", func(d *driver) {
		n := d.lane("k", 3)
		c := delivered(n[0], 0, -100)
		c.NextDelay = time.Second
		is := d.change(c)
		d.same(is.Next.Due, at(2), "due")
		d.same(is.Next.Anchor, at(1), "anchor")
		d.same(d.delivery(n[0]).FinishedAt, at(-100), "the end is kept as given")
	}},
	{"keeps the trigger set for the next attempt", func(d *driver) {
		second := to(epA)
		second.Trigger = grapnel.TriggerTest
		d.publish(incoming(event("a", "k", 1), to(epA)), incoming(event("b", "k", 1), second))
		d.same(d.change(delivered(d.of("a")[0].Seq, 0, 2)).Next.Trigger, grapnel.TriggerTest, "trigger")
	}},
	{"continues positions after a lane was empty", func(d *driver) {
		n := d.lane("k", 2)
		d.change(delivered(n[0], 0, 5))
		d.same(d.change(delivered(n[1], 0, 6)).Next, (*store.Head)(nil), "next of an empty lane")
		d.leads(epA)
		done := d.publish(incoming(event("later", "k", 7), to(epA)))
		d.same(done.Heads[0].Position, int64(3), "position")
		d.same(done.Heads[0].Due, at(7), "due")
	}},
	{"schedules another attempt of a head", func(d *driver) {
		n := d.lane("k", 2)
		c := retried(n[0], 0, 4, 9)
		c.Anchor = at(3)
		is := d.change(c)
		want := store.Head{
			Delivery: n[0], Event: d.of("k_1")[0].EventSeq, Endpoint: epA, Lane: "k", Position: 1, Due: at(9), Attempts: 1, Anchor: at(3),
			Trigger: grapnel.TriggerSchedule, CreatedAt: at(0),
		}
		d.same(is, store.Changed{Applied: true, Status: grapnel.Pending, Next: &want}, "changed")
		d.same(d.heads(epA), []store.Head{want}, "heads")
		again := retried(n[0], 1, 10, 30)
		again.Trigger = grapnel.TriggerProbe
		is = d.change(again)
		d.same(is.Next.Anchor, at(3), "a zero anchor changes nothing")
		d.same(is.Next.Trigger, grapnel.TriggerProbe, "trigger")
		d.same(is.Next.Attempts, 2, "attempts")
		x := d.delivery(n[0])
		d.same(x.Attempts, []grapnel.Attempt{*attempt(1, 4), *attempt(2, 10)}, "attempts as they went")
		d.same(x.NextAttemptAt, at(30), "next attempt")
		d.same(x.Reason, "status 503", "reason")
		d.same(x.Waiting, grapnel.Waiting{Head: true, Due: at(30), Anchor: at(3)}, "waiting")
	}},
	{"counts no attempt for a change without one", func(d *driver) {
		n := d.lane("k", 1)
		c := by(n[0], grapnel.Pending, 5)
		c.Due, c.Trigger = at(5), grapnel.TriggerManual
		is := d.change(c)
		d.same(is.Next.Attempts, 0, "attempts")
		d.same(is.Next.Due, at(5), "due")
		d.same(is.Next.Trigger, grapnel.TriggerManual, "trigger")
		d.same(len(d.delivery(n[0]).Attempts), 0, "attempts kept")
	}},
	{"applies only where the change expects the delivery to be", func(d *driver) {
		n := d.lane("k", 2)
		d.change(retried(n[0], 0, 4, 9))
		before := d.delivery(n[0])
		for _, expect := range []int{0, 2, 17, -2} {
			is := d.record(delivered(n[0], expect, 20))[0]
			d.same(is.Applied, false, fmt.Sprint("expecting ", expect))
			d.same(is.Status, grapnel.Pending, "status")
			d.same(is.Next.Delivery, n[0], "next")
		}
		d.same(d.delivery(n[0]), before, "what was not changed")
		c := delivered(n[0], store.AnyAttempts, 20)
		c.Attempt = nil
		d.same(d.change(c).Next.Delivery, n[1], "any number of attempts")
	}},
	{"can be repeated when its answer was lost", func(d *driver) {
		n := d.lane("k", 2)
		retry, last := retried(n[0], 0, 4, 9), delivered(n[0], 1, 12)
		first := d.change(retry)
		second := d.record(retry)[0]
		first.Applied = false
		d.same(second, first, "repeated retry")
		first = d.change(last)
		second = d.record(last)[0]
		first.Applied = false
		d.same(second, first, "repeated end")
		d.same(len(d.delivery(n[0]).Attempts), 2, "attempts")
		d.same(d.delivery(n[1]).Waiting.Due, at(12), "the next is promoted once")
	}},
	{"never changes a finished delivery", func(d *driver) {
		for i, status := range finals() {
			key := fmt.Sprint("k", i)
			n := d.lane(key, 3)
			d.change(by(n[0], status, 5))
			before := d.delivery(n[0])
			d.same(before.Status, status, "status")
			for _, to := range append(finals(), grapnel.Pending) {
				c := by(n[0], to, 50)
				c.Due, c.Attempt, c.ReasonCode = at(60), attempt(1, 50), grapnel.ReasonRejected
				is := d.record(c)[0]
				d.same(is.Applied, false, "applied")
				d.same(is.Status, status, "status")
				d.same(is.Next.Delivery, n[1], "next")
			}
			d.same(d.delivery(n[0]), before, "what is final")
		}
	}},
	{"blocks a head until a person decides", func(d *driver) {
		n := d.lane("k", 2)
		c := retried(n[0], 0, 4, 9)
		c.Blocked = true
		is := d.change(c)
		d.same(is.Next.Blocked, true, "blocked")
		d.same(is.Next.Due.IsZero(), true, "a blocked head has no due time")
		d.leads(epA)
		h, first := d.head(n[0])
		d.same(first, true, "it still leads")
		d.same(h, is.Next, "head")
		x := d.delivery(n[0])
		d.same(x.Waiting, grapnel.Waiting{Head: true, Blocked: true, Anchor: at(0)}, "waiting")
		d.same(x.NextAttemptAt.IsZero(), true, "no attempt is planned")

		c = by(n[0], grapnel.Pending, 20)
		c.Due, c.Trigger = at(20), grapnel.TriggerManual
		d.same(d.change(c).Next.Blocked, false, "blocked")
		d.leads(epA, n[0])
		c = retried(n[0], 1, 21, 0)
		c.Blocked, c.Due = true, time.Time{}
		d.change(c)
		d.same(d.change(by(n[0], grapnel.Skipped, 30)).Next.Delivery, n[1], "next")
		d.leads(epA, n[1])
	}},
	{"takes one out of the middle of a lane", func(d *driver) {
		n := d.lane("k", 4)
		is := d.change(by(n[1], grapnel.Skipped, 10))
		d.same(is.Status, grapnel.Skipped, "status")
		d.same(is.Next.Delivery, n[0], "the head stays")
		d.same(is.Next.Due, at(0), "its due time too")
		d.change(by(n[3], grapnel.Skipped, 11))
		d.same(d.change(delivered(n[0], 0, 12)).Next.Delivery, n[2], "the next that is left")
		d.same(d.delivery(n[2]).Position, int64(3), "positions stay")
		d.same(d.change(delivered(n[2], 0, 13)).Next, (*store.Head)(nil), "none is left")
	}},
	{"leaves a delivery behind its head there", func(d *driver) {
		n := d.lane("k", 2)
		c := by(n[1], grapnel.Pending, 10)
		c.Due, c.Anchor, c.Blocked, c.Trigger, c.Reason = at(10), at(9), true, grapnel.TriggerManual, "tried now, please"
		is := d.change(c)
		d.same(is.Status, grapnel.Pending, "status")
		d.same(is.Next.Delivery, n[0], "next")
		d.leads(epA, n[0])
		x := d.delivery(n[1])
		d.same(x.Waiting, grapnel.Waiting{}, "it has no schedule")
		d.same(x.Reason, "tried now, please", "reason")
		h, first := d.head(n[1])
		d.same(first, false, "first")
		d.same(h.Due.IsZero() && h.Anchor.IsZero() && !h.Blocked, true, "place")
		is = d.change(delivered(n[0], 0, 20))
		d.same(is.Next.Due, at(20), "due when it leads")
		d.same(is.Next.Anchor, at(20), "anchor when it leads")
		d.same(is.Next.Trigger, grapnel.TriggerManual, "the trigger is what it kept")
	}},
	{"applies a change for heads to no other delivery", func(d *driver) {
		n := d.lane("k", 2)
		c := by(n[1], grapnel.Pending, 10)
		c.Expect, c.Due, c.Trigger, c.Audit = store.OfHead, at(10), grapnel.TriggerManual, &grapnel.AuditEntry{At: at(10), Tenant: acme}
		is := d.record(c)[0]
		d.same([]any{is.Applied, is.Status, is.Next.Delivery}, []any{false, grapnel.Pending, n[0]}, "behind its head")
		d.same(d.delivery(n[1]).Reason, "", "reason")
		d.same(d.change(delivered(n[0], 0, 20)).Next.Trigger, grapnel.TriggerSchedule, "trigger")
		is = d.record(c)[0]
		d.same([]any{is.Applied, is.Next.Trigger}, []any{true, grapnel.TriggerManual}, "as the head")
	}},
	{"reports a delivery without lane itself", func(d *driver) {
		d.publish(incoming(event("a", "", 1), to(epA)), incoming(event("b", "", 1), to(epA)))
		a := d.of("a")[0].Seq
		is := d.change(retried(a, 0, 2, 9))
		d.same(is.Next.Delivery, a, "next")
		d.same(is.Next.Lane, "", "lane")
		is = d.record(delivered(a, 0, 2))[0]
		d.same(is.Next.Delivery, a, "next though not applied")
		d.same(d.change(delivered(a, 1, 9)), store.Changed{Applied: true, Status: grapnel.Delivered}, "final")
		d.leads(epA, d.of("b")[0].Seq)
	}},
	{"answers for what does not exist", func(d *driver) {
		n := d.lane("k", 1)
		for _, number := range []int64{n[0] + 1000, 0, -1} {
			d.same(d.record(delivered(number, 0, 1), by(number, grapnel.Skipped, 1)), []store.Changed{{}, {}}, fmt.Sprint("delivery ", number))
		}
		d.same(len(d.record()), 0, "no change")
	}},
	{"reports the state after each of several changes", func(d *driver) {
		n := d.lane("k", 3)
		other := d.lane("l", 1)
		done := d.record(
			retried(n[0], 0, 10, 11), delivered(n[0], 1, 12), delivered(n[0], 1, 13), delivered(other[0], 0, 14), delivered(n[1], 0, 15))
		type brief struct {
			applied bool
			status  grapnel.Status
			next    int64
			due     time.Time
		}
		var got []string
		for _, is := range done {
			b := brief{applied: is.Applied, status: is.Status}
			if is.Next != nil {
				b.next, b.due = is.Next.Delivery, is.Next.Due
			}
			got = append(got, fmt.Sprint(b))
		}
		var want []string
		for _, b := range []brief{
			{true, grapnel.Pending, n[0], at(11)}, {true, grapnel.Delivered, n[1], at(12)}, {false, grapnel.Delivered, n[1], at(12)},
			{true, grapnel.Delivered, 0, time.Time{}}, {true, grapnel.Delivered, n[2], at(15)},
		} {
			want = append(want, fmt.Sprint(b))
		}
		d.same(got, want, "states")
		d.leads(epA, n[2])
	}},
	{"keeps every attempt, whatever number it carries", func(d *driver) {
		n := d.lane("k", 1)
		for i, number := range []int{3, 3, 1} {
			c := retried(n[0], i, float64(10+i), 20)
			c.Attempt.Number = number
			d.change(c)
		}
		x := d.delivery(n[0])
		d.same(x.AttemptsMade, 3, "attempts made")
		d.same(x.Attempts, []grapnel.Attempt{*attempt(3, 10), *attempt(3, 11), *attempt(1, 12)}, "attempts in the order recorded")
	}},
	{"keeps times in microseconds", func(d *driver) {
		n := d.lane("k", 2)
		odd := func(when float64) time.Time { return at(when).In(time.FixedZone("elsewhere", 3600)).Add(1999) }
		even := func(when float64) time.Time { return at(when).Add(time.Microsecond) }
		c := retried(n[0], 0, 4, 9)
		c.Attempt.ScheduledFor, c.Attempt.StartedAt, c.Attempt.NextAttemptAt = odd(1), odd(2), odd(3)
		c.Due, c.Anchor = odd(9), odd(2)
		d.change(c)
		x := d.delivery(n[0])
		want := *attempt(1, 4)
		want.ScheduledFor, want.StartedAt, want.NextAttemptAt = even(1), even(2), even(3)
		d.same(x.Attempts, []grapnel.Attempt{want}, "attempt")
		d.same(x.Waiting, grapnel.Waiting{Head: true, Due: even(9), Anchor: even(2)}, "waiting")
		c = by(n[0], grapnel.Skipped, 0)
		c.At = odd(20)
		d.same(d.change(c).Next.Due, even(20), "due of the next")
		d.same(d.delivery(n[0]).FinishedAt, even(20), "finished")
	}},
	{"stores an attempt that has only a number", func(d *driver) {
		n := d.lane("k", 1)
		c := delivered(n[0], 0, 5)
		c.Attempt = &grapnel.Attempt{Number: 1}
		d.change(c)
		d.same(d.delivery(n[0]).Attempts, []grapnel.Attempt{{Number: 1}}, "attempts")
	}},
}

var headCases = []testCase{
	{"come by due time, then by number", func(d *driver) {
		var n []int64
		for i := range 6 {
			id := fmt.Sprint("e", i)
			d.publish(incoming(event(id, "", 0), to(epA)))
			n = append(n, d.of(id)[0].Seq)
		}
		d.leads(epA, n...)
		for i, due := range []float64{30, 10, 20, 10, 5, 30} {
			d.change(retried(n[i], 0, 1, due))
		}
		d.leads(epA, n[4], n[1], n[3], n[2], n[0], n[5])
		c := retried(n[4], 1, 6, 30)
		c.Due = at(30).Add(time.Microsecond)
		d.change(c)
		d.leads(epA, n[1], n[3], n[2], n[0], n[5], n[4])
		for _, limit := range []int{0, 1, 5, 6, 7} {
			heads, err := d.Heads(d.ctx, epA, limit)
			d.must(err, "Heads")
			d.same(len(heads), min(limit, 6), fmt.Sprint("limit ", limit))
		}
	}},
	{"are of one endpoint", func(d *driver) {
		d.publish(incoming(event("a", "k", 0), to(epA), to(epB)))
		d.leads(epA, d.of("a")[0].Seq)
		d.leads(epB, d.of("a")[1].Seq)
		d.leads("ep_unknown")
		d.leads("")
	}},
	{"stay in order when there are many", func(d *driver) {
		var batch []store.Incoming
		for i := range 1500 {
			e := event(fmt.Sprint("e", i), fmt.Sprint("k", i), float64(i*7919%1500))
			batch = append(batch, incoming(e, to(epA)))
		}
		d.publish(batch...)
		heads := d.heads(epA)
		d.same(len(heads), 1500, "heads")
		var changes []store.Change
		for i, h := range heads {
			d.same(h.Due, at(float64(i)), "due")
			if i%3 > 0 {
				changes = append(changes, delivered(h.Delivery, 0, 5000))
			}
		}
		d.record(changes...)
		heads = d.heads(epA)
		d.same(len(heads), 500, "heads left")
		for i, h := range heads {
			d.same(h.Due, at(float64(3*i)), "due")
		}
	}},
	{"say where one delivery is", func(d *driver) {
		n := d.lane("k", 2)
		h, first := d.head(n[0])
		d.same(first, true, "first")
		d.same(h.Delivery, n[0], "delivery")
		h, first = d.head(n[1])
		d.same(first, false, "first")
		d.same(h.Position, int64(2), "position")
		d.change(delivered(n[0], 0, 4))
		for _, number := range []int64{n[0], n[1] + 1000, 0, -1} {
			h, first = d.head(number)
			if h != nil || first {
				d.Fatalf("delivery %d, which is over or absent, has place %+v, %v", number, h, first)
			}
		}
		_, first = d.head(n[1])
		d.same(first, true, "the next leads now")
	}},
}
