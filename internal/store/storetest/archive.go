package storetest

import (
	"fmt"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

func (d *driver) balanced() {
	d.Helper()
	n, err := d.Imbalance(d.ctx)
	d.must(err, "Imbalance")
	d.same(n, int64(0), "imbalance")
}

func (d *driver) allTotals() []grapnel.Bucket {
	d.Helper()
	list, err := d.Totals(d.ctx, everyone, store.TotalsQuery{})
	d.must(err, "Totals")
	return list
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func (d *driver) annotate(number int64, note, discard string, when float64) {
	d.Helper()
	a := store.Annotation{Delivery: number, Discard: discard, At: at(when), Audit: entry(acme, epA, grapnel.VerbSkip, when)}
	if note != "" {
		a.Note = &note
	}
	d.must(d.Annotate(d.ctx, everyone, a), "Annotate")
}

// answeredIn is a change whose attempt took this long and got this status code.
func answeredIn(c store.Change, code int, took time.Duration) store.Change {
	c.Attempt.StatusCode, c.Attempt.Duration = code, took
	return c
}

const hourLong = 3600

// Counters that rows of totals have: stores write them by number.
const (
	counterOf5xx       = 13
	counterOfNone      = 1
	counterOfExhausted = 2
	counterOfGone      = 6
)

func (d *driver) grouped(q store.TotalsQuery) []grapnel.Bucket {
	d.Helper()
	list, err := d.Totals(d.ctx, everyone, q)
	d.must(err, "Totals")
	return list
}

// archiveCases are about totals and notes.
var archiveCases = []testCase{
	{"counts deliveries when they finish, and attempts when they are recorded", func(d *driver) {
		n := d.lane("k", 4)
		d.change(answeredIn(retried(n[0], 0, 10, 20), 503, time.Second))
		d.change(answeredIn(delivered(n[0], 1, hourLong), 200, 2*time.Second)) // in the next hour
		d.change(answeredIn(delivered(n[1], 0, hourLong+1), 200, 3*time.Second))
		failed := answeredIn(delivered(n[2], 0, hourLong+2), 0, time.Second) // no answer
		failed.Status = grapnel.Failed
		d.change(failed)
		d.end(epA, ending(2*hourLong), 10, 1)
		d.publish(store.Incoming{Event: event("dropped", "", 5), Targets: []store.Target{{Endpoint: epB, Drop: "no"}}})

		var first, second grapnel.Totals
		first.FirstAttempts, first.Attempts = 1, 1
		first.Latency.Count(time.Second)
		first.Classes[counterOf5xx], first.Retries[counterOf5xx] = 1, 1
		second = grapnel.Totals{Delivered: 2, Failed: 1, Retried: 1, FirstAttempts: 2, FirstAttemptSuccess: 1, Attempts: 3}
		second.Latency.Count(2 * time.Second)
		second.Latency.Count(3 * time.Second)
		second.Classes[counterOf5xx], second.Spent, second.Tries = 3, 4, grapnel.Tries{1: 2, 2: 1}
		second.Reasons[counterOfNone] = 3
		second.Success.Count(at(hourLong).Sub(d.delivery(n[0]).CreatedAt))
		second.Success.Count(at(hourLong + 1).Sub(d.delivery(n[1]).CreatedAt))
		third := grapnel.Totals{Dropped: 1, Tries: grapnel.Tries{0: 1}, Reasons: grapnel.Reasons{counterOfGone: 1}}
		atOnce := grapnel.Totals{Dropped: 1, Tries: grapnel.Tries{0: 1}, Reasons: grapnel.Reasons{counterOfNone: 1}}
		want := []grapnel.Bucket{{At: at(0), Totals: first}, {At: at(hourLong), Totals: second}, {At: at(2 * hourLong), Totals: third}}
		ask := func(q store.TotalsQuery) []grapnel.Bucket {
			list, err := d.Totals(d.ctx, everyone, q)
			d.must(err, "Totals")
			return list
		}
		d.same(ask(store.TotalsQuery{Endpoint: epA}), want, "by hour")
		d.same(ask(store.TotalsQuery{Endpoint: epB}), []grapnel.Bucket{{At: at(0), Totals: atOnce}},
			"dropped when it was accepted")
		d.same(len(ask(store.TotalsQuery{Endpoint: epX})), 0, "of nothing")
		d.same(ask(store.TotalsQuery{Endpoint: epA, From: at(hourLong + 5), To: at(2 * hourLong)}), want[1:2], "a part is taken whole")
		d.same(ask(store.TotalsQuery{Endpoint: epA, From: at(2 * hourLong)}), want[2:], "from")
		d.same(ask(store.TotalsQuery{Endpoint: epA, To: at(1)}), want[:1], "to")
		var day grapnel.Totals
		for _, b := range want {
			day.Add(&b.Totals)
		}
		midnight := at(0).Truncate(24 * time.Hour)
		d.same(ask(store.TotalsQuery{Endpoint: epA, Daily: true, From: at(hourLong)}), []grapnel.Bucket{{At: midnight, Totals: day}}, "by day")
		day.Add(&atOnce)
		d.same(ask(store.TotalsQuery{Daily: true}), []grapnel.Bucket{{At: midnight, Totals: day}}, "of all")
		d.balanced()
	}},
	{"leaves tests out of totals, and marks them when they end", func(d *driver) {
		var all []int64
		test := func(endpoint, id string) int64 {
			done := d.publish(store.Incoming{Event: event(id, "", 5), Targets: []store.Target{{Endpoint: endpoint, Trigger: grapnel.TriggerTest}}})
			all = append(all, done.Heads[0].Delivery)
			return done.Heads[0].Delivery
		}
		asked := retried(test(epA, "first"), 0, 10, 20)
		asked.Attempt, asked.Expect, asked.Trigger = nil, store.AnyAttempts, grapnel.TriggerManual
		d.same(d.delivery(asked.Delivery).ReasonCode, grapnel.ReasonTest, "reason code of a pending test")
		d.same(d.change(asked).Next.Trigger, grapnel.TriggerTest, "trigger of a test that an operator has retried")
		refused := answeredIn(delivered(asked.Delivery, 0, 21), 503, time.Second)
		refused.Status = grapnel.Discarded
		d.change(refused)
		d.change(answeredIn(delivered(test(epA, "second"), 0, 22), 200, time.Second))
		test(epA, "third")
		d.end(epA, ending(30), 10, 1)
		d.same(len(d.allTotals()), 0, "totals")
		d.balanced()
		for _, n := range all {
			d.same(d.delivery(n).ReasonCode, grapnel.ReasonTest, "reason code")
		}
	}},
	{"leaves uncounted deliveries out of totals", func(d *driver) {
		n := d.lane("k", 6)
		uncounted := func(c store.Change, code int) store.Change {
			c.Uncounted = true
			return answeredIn(c, code, time.Second)
		}
		d.change(uncounted(retried(n[0], 0, 10, 20), 503))
		d.change(uncounted(delivered(n[0], 1, 21), 200))
		failed := uncounted(delivered(n[1], 0, 22), 400)
		failed.Status = grapnel.Discarded
		d.change(failed)
		d.change(store.Change{Delivery: n[2], Expect: store.AnyAttempts, Status: grapnel.Skipped, At: at(23), Uncounted: true})
		e := ending(30)
		e.UpTo, e.Uncounted = n[4], true
		d.end(epA, e, 10, 2)
		d.publish(store.Incoming{Event: event("dropped", "", 5), Targets: []store.Target{{Endpoint: epB, Drop: "no", Uncounted: true}}})
		d.same(len(d.allTotals()), 0, "totals")
		d.balanced()
		counts, err := d.Counts(d.ctx, everyone)
		d.must(err, "Counts")
		d.same(counts[epA], map[grapnel.Status]int64{grapnel.Delivered: 1, grapnel.Discarded: 1, grapnel.Skipped: 1, grapnel.Dropped: 2,
			grapnel.Pending: 1},
			"counts")

		d.change(answeredIn(delivered(n[5], 0, 40), 200, time.Second)) // of the same endpoint, after it
		want := grapnel.Totals{Delivered: 1, FirstAttempts: 1, FirstAttemptSuccess: 1, Attempts: 1, Spent: 1, Tries: grapnel.Tries{1: 1},
			Reasons: grapnel.Reasons{counterOfNone: 1}, Classes: grapnel.ClassCounts{counterOf5xx: 1}}
		want.Latency.Count(time.Second)
		want.Success.Count(at(40).Sub(d.delivery(n[5]).CreatedAt))
		d.same(d.grouped(store.TotalsQuery{By: store.ByType}), []grapnel.Bucket{{Name: "invoice.paid", Totals: want}}, "totals by type")
		d.same(d.allTotals(), []grapnel.Bucket{{At: at(0), Totals: want}}, "totals of what counts")
		d.purge(2*hourLong, 1, 100, 7)
	}},
	{"counts nothing twice", func(d *driver) {
		n := d.lane("k", 1)
		change := delivered(n[0], 0, 5)
		d.change(change)
		before := d.allTotals()
		for range 3 {
			d.same(d.record(change)[0].Applied, false, "applied")
			d.record(retried(n[0], 0, 6, 7))
		}
		d.same(d.allTotals(), before, "totals")
		d.reopen()
		d.record(change)
		d.same(d.allTotals(), before, "totals after a restart")
		d.balanced()
	}},
	{"counts late records in the hour in which they belong", func(d *driver) {
		n := d.lane("k", 4)
		for i, when := range []float64{2 * hourLong, 5, 3 * hourLong, 2*hourLong + 1} {
			d.change(delivered(n[i], 0, when))
		}
		var ended []int64
		for _, b := range d.allTotals() {
			ended = append(ended, b.Delivered)
		}
		d.same(ended, []int64{1, 2, 1}, "delivered")
	}},
	{"stores totals of old hours by the day", func(d *driver) {
		n := d.lane("k", 4)
		const day = 24 * hourLong
		d.change(delivered(n[0], 0, 10))
		d.change(delivered(n[1], 0, hourLong))
		d.change(delivered(n[2], 0, day))
		before := d.allTotals()
		var sum grapnel.Totals
		sum.Add(&before[0].Totals)
		sum.Add(&before[1].Totals)
		const halfDay = 12 * hourLong // it begins at noon
		d.purge(90*day+halfDay-1, 1000*day, 10, 0)
		d.same(d.allTotals(), before, "at the last moment")
		d.purge(90*day+halfDay, 1000*day, 10, 0)
		want := []grapnel.Bucket{{At: at(-halfDay), Totals: sum}, before[2]}
		d.same(d.allTotals(), want, "after ninety days")
		d.reopen()
		list, err := d.Totals(d.ctx, everyone, store.TotalsQuery{Endpoint: epA})
		d.must(err, "Totals")
		d.same(list, want, "of the endpoint, after a restart")
		d.change(delivered(n[3], 0, 11)) // by a clock that was set back
		d.purge(300*day, 1000*day, 10, 0)
		var ended []int64
		for _, b := range d.allTotals() {
			ended = append(ended, b.Delivered)
		}
		d.same(ended, []int64{3, 1}, "delivered by day")
	}},
	{"annotates finished deliveries", func(d *driver) {
		n := d.lane("k", 3)
		d.change(by(n[0], grapnel.Failed, 5))
		d.change(delivered(n[1], 0, 6))
		before := d.delivery(n[0])
		d.annotate(n[0], "seen", "", 10)
		d.annotate(n[0], "", "a test", 11)
		d.annotate(n[1], "fine", "", 12)
		for range 2 {
			x := d.delivery(n[0])
			d.same(x.Mark, grapnel.Mark{Note: "seen", DiscardedAt: at(11), DiscardReason: "a test"}, "mark")
			x.Mark = grapnel.Mark{}
			d.same(x, before, "all else")
			d.same(d.list(store.DeliveryQuery{Status: []grapnel.Status{grapnel.Failed}})[0].Mark.DiscardReason, "a test", "in a list")
			d.same(d.of("k_2")[0].Mark, grapnel.Mark{Note: "fine"}, "with its event")
			d.reopen()
		}
		d.same(len(d.audit(store.AuditQuery{})), 3, "entries")
		d.annotate(n[0], "again", "known", 13)
		d.same(d.delivery(n[0]).Mark, grapnel.Mark{Note: "again", DiscardedAt: at(13), DiscardReason: "known"}, "mark")
		none := ""
		d.must(d.Annotate(d.ctx, store.Of(acme), store.Annotation{Delivery: n[0], Note: &none}), "Annotate")
		d.same(d.delivery(n[0]).Mark.Note, "", "note that was taken away")

		d.code(d.Annotate(d.ctx, everyone, store.Annotation{Delivery: n[2], Note: &none}), grapnel.CodeConflict, "of what waits")
		d.code(d.Annotate(d.ctx, everyone, store.Annotation{Delivery: n[1], Discard: "no", Audit: entry(acme, epA, grapnel.VerbSkip,
			20)}), grapnel.CodeConflict, "discarding what was delivered")
		d.code(d.Annotate(d.ctx, store.Of(bolt), store.Annotation{Delivery: n[0], Discard: "no"}), grapnel.CodeNotFound, "another tenant's")
		d.code(d.Annotate(d.ctx, everyone, store.Annotation{Delivery: 1 << 40, Note: &none}), grapnel.CodeNotFound, "absent")
		d.same(len(d.audit(store.AuditQuery{})), 4, "entries")
		d.purge(1000, 10, 10, 2)
		d.code(d.Annotate(d.ctx, everyone, store.Annotation{Delivery: n[0], Note: &none}), grapnel.CodeNotFound, "purged")
	}},
	{"shows no tenant the totals of another", func(d *driver) {
		other := event("x", "", 0)
		other.Tenant = bolt
		d.publish(incoming(other, to(epX)), incoming(event("a", "", 0), to(epA)))
		d.change(delivered(d.of("x")[0].Seq, 0, 5))
		d.change(delivered(d.of("a")[0].Seq, 0, 5))
		for _, c := range []struct {
			scope store.Scope
			q     store.TotalsQuery
			want  int64
		}{
			{everyone, store.TotalsQuery{}, 2}, {store.Of(bolt), store.TotalsQuery{}, 1}, {store.Of(bolt), store.TotalsQuery{Endpoint: epA}, 0},
			{store.Of(bolt), store.TotalsQuery{Tenant: acme}, 0}, {everyone, store.TotalsQuery{Tenant: acme}, 1}, {store.Scope{},
				store.TotalsQuery{}, 0},
			{store.Of("stranger"), store.TotalsQuery{}, 0}, {everyone, store.TotalsQuery{Tenant: acme, Endpoint: epX}, 0},
		} {
			list, err := d.Totals(d.ctx, c.scope, c.q)
			d.must(err, "Totals")
			var n int64
			for _, b := range list {
				n += b.Delivered
			}
			d.same(n, c.want, fmt.Sprintf("%+v", c))
		}
	}},
}

// gone fails if a delivery or its event is still stored.
func (d *driver) gone(number int64, event string) {
	d.Helper()
	_, err := d.Delivery(d.ctx, everyone, number)
	d.code(err, grapnel.CodeNotFound, "Delivery")
	if event != "" {
		_, _, err = d.Event(d.ctx, everyone, "", event)
		d.code(err, grapnel.CodeNotFound, "Event")
	}
}

// byType returns all totals by type, without duplicates.
func (d *driver) byType() (list []grapnel.Bucket) {
	d.Helper()
	for _, b := range d.grouped(store.TotalsQuery{By: store.ByType}) {
		if b.Duplicates = 0; b.Totals != (grapnel.Totals{}) {
			list = append(list, b)
		}
	}
	return list
}

// purge calls Purge with a retention of `keep` seconds, `now` seconds after the start, and checks
// its count.
func (d *driver) purge(now, keep float64, limit, want int, rules ...store.KeepRule) {
	d.Helper()
	d.purged = true
	n, err := d.Purge(d.ctx, store.Keep{Now: at(now), For: seconds(keep), Rules: rules}, limit)
	d.must(err, "Purge")
	d.same(n, want, "removed")
	d.balanced()
}
