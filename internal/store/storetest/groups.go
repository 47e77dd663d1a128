package storetest

import (
	"fmt"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// groupCases are about totals by group.
var groupCases = []testCase{
	{"counts by endpoint, tenant and type", func(d *driver) {
		line := event("line", "", 1)
		line.Type = "invoice.line.added"
		other := event("other", "", 2)
		other.Tenant = bolt
		d.publish(incoming(event("paid", "", 0), to(epA), to(epB)), incoming(line, to(epA)), incoming(other, to(epX)))
		paid := d.of("paid")
		timeout := retried(paid[0].Seq, 0, 10, 20)
		timeout.Attempt.Class, timeout.Attempt.StatusCode = policy.ClassTimeout, 0
		d.change(timeout)
		failed := delivered(paid[0].Seq, 1, 20)
		failed.Status, failed.ReasonCode = grapnel.Failed, grapnel.ReasonExhausted
		d.change(failed)
		d.change(delivered(paid[1].Seq, 0, 5))
		d.change(delivered(d.of("line")[0].Seq, 0, hourLong+5))
		d.change(delivered(d.of("other")[0].Seq, 0, 7))

		one := func(took float64) (t grapnel.Totals) {
			t = grapnel.Totals{Delivered: 1, FirstAttempts: 1, FirstAttemptSuccess: 1, Attempts: 1, Spent: 1, Tries: grapnel.Tries{1: 1},
				Reasons: grapnel.Reasons{counterOfNone: 1}, Classes: grapnel.ClassCounts{counterOf5xx: 1}}
			t.Latency.Count(120 * time.Millisecond)
			t.Success.Count(seconds(took))
			return t
		}
		dead := grapnel.Totals{Failed: 1, Retried: 1, FirstAttempts: 1, Attempts: 2, Spent: 2, Tries: grapnel.Tries{2: 1},
			Reasons: grapnel.Reasons{counterOfExhausted: 1}}
		dead.Latency.Count(120 * time.Millisecond)
		dead.Classes, dead.Retries = grapnel.ClassCounts{counterOf5xx: 1, counterOfTimeout: 1}, grapnel.ClassCounts{counterOfTimeout: 1}
		added := func(all ...grapnel.Totals) (sum grapnel.Totals) {
			for i := range all {
				sum.Add(&all[i])
			}
			return sum
		}
		for _, c := range []struct {
			q    store.TotalsQuery
			want []grapnel.Bucket
		}{
			{store.TotalsQuery{By: store.ByEndpoint}, []grapnel.Bucket{{Name: epA, Totals: added(dead, one(hourLong+4))},
				{Name: epB, Totals: one(5)}, {Name: epX, Totals: one(5)}}},
			{store.TotalsQuery{By: store.ByTenant}, []grapnel.Bucket{{Name: acme, Totals: added(dead, one(hourLong+4), one(5))},
				{Name: bolt, Totals: one(5)}}},
			{store.TotalsQuery{By: store.ByType}, []grapnel.Bucket{{Name: "invoice.line.added", Totals: one(hourLong + 4)},
				{Name: "invoice.paid", Totals: added(dead, one(5), one(5))}}},
			{store.TotalsQuery{By: store.ByType, Tenant: acme, To: at(hourLong)}, []grapnel.Bucket{{Name: "invoice.paid",
				Totals: added(dead, one(5))}}},
			{store.TotalsQuery{By: store.ByType, From: at(hourLong), Daily: true, Type: "invoice.line.added"},
				[]grapnel.Bucket{{Name: "invoice.line.added", Totals: one(hourLong + 4)}}},
			{store.TotalsQuery{By: store.ByTenant, Type: "invoice.paid"}, []grapnel.Bucket{{Name: acme, Totals: added(dead, one(5))},
				{Name: bolt, Totals: one(5)}}},
			{store.TotalsQuery{Type: "invoice.paid", Tenant: bolt}, []grapnel.Bucket{{At: at(0), Totals: one(5)}}},
			{store.TotalsQuery{By: store.ByTenant, Endpoint: epB}, []grapnel.Bucket{{Name: acme, Totals: one(5)}}},
			{store.TotalsQuery{By: store.ByEndpoint, Tenant: bolt}, []grapnel.Bucket{{Name: epX, Totals: one(5)}}},
		} {
			d.same(d.grouped(c.q), c.want, fmt.Sprintf("%+v", c.q))
		}
		list, err := d.Totals(d.ctx, store.Of(bolt), store.TotalsQuery{By: store.ByType})
		d.must(err, "Totals")
		d.same(list, []grapnel.Bucket{{Name: "invoice.paid", Totals: one(5)}}, "of bolt, by type")
		list, err = d.Totals(d.ctx, store.Of(bolt), store.TotalsQuery{By: store.ByType, Tenant: acme})
		d.must(err, "Totals")
		d.same(len(list), 0, "of acme, for bolt")
	}},
	{"counts events that are published again", func(d *driver) {
		d.publish(incoming(event("e", "", 0), to(epA)))
		for _, when := range []float64{1, 2, hourLong} {
			d.publish(incoming(event("e", "", when), to(epA)))
		}
		differs := event("e", "", 3)
		differs.Data = []byte("{}")
		d.same(d.publish(incoming(differs, to(epA))).Events[0].Conflict, true, "conflict")
		d.reopenIfAble()
		all := grapnel.Totals{Duplicates: 3}
		d.same(d.grouped(store.TotalsQuery{By: store.ByType}), []grapnel.Bucket{{Name: "invoice.paid", Totals: all}}, "by type")
		d.same(d.grouped(store.TotalsQuery{By: store.ByTenant, Duplicates: true}), []grapnel.Bucket{{Name: acme, Totals: all}}, "by tenant")
		d.same(d.grouped(store.TotalsQuery{Duplicates: true}), []grapnel.Bucket{{At: at(0), Totals: grapnel.Totals{Duplicates: 2}},
			{At: at(hourLong), Totals: grapnel.Totals{Duplicates: 1}}}, "by hour")
		d.same(len(d.grouped(store.TotalsQuery{By: store.ByEndpoint, Duplicates: true})), 0, "by endpoint")
		d.same(len(d.grouped(store.TotalsQuery{})), 0, "by hour, without duplicates")
	}},
	{"tells few types of a tenant apart", func(d *driver) {
		const more = 3
		drop := func(id string, number int, when float64) {
			e := event(fmt.Sprint(id, number), "", when)
			e.Type = fmt.Sprintf("type.%s%04d", id, number)
			d.publish(store.Incoming{Event: e, Targets: []store.Target{{Endpoint: epA, Drop: "no"}}})
		}
		for i := range store.TypesCounted + more {
			drop("a", i, 1)
		}
		drop("a", 0, 2)
		drop("a", store.TypesCounted, 3)
		drop("b", 0, hourLong) // another hour has its own
		count := func(q store.TotalsQuery) (named int, of map[string]int64) {
			of = map[string]int64{}
			for _, b := range d.grouped(q) {
				of[b.Name] = b.Dropped
				if b.Name != "" {
					named++
				}
			}
			return named, of
		}
		d.reopenIfAble()
		named, of := count(store.TotalsQuery{By: store.ByType})
		d.same(named, store.TypesCounted+1, "types")
		d.same([]int64{of["type.a0000"], of["type.a0001"], of[""], of["type.b0000"]}, []int64{1, 1, more, 1}, "of the types")
		other := event("bolt", "", 4)
		other.Tenant, other.Type = bolt, "type.c"
		d.publish(store.Incoming{Event: other, Targets: []store.Target{{Endpoint: epX, Drop: "no"}}})
		_, of = count(store.TotalsQuery{By: store.ByType})
		d.same(of["type.c"], int64(1), "another tenant's")

		d.purge(91*24*hourLong, 1e9, 10, 0)
		named, of = count(store.TotalsQuery{By: store.ByType})
		d.same(named, store.TypesCounted+1, "types of the day, and of the other tenant")
		d.same([]int64{of["type.a0000"], of[""], of["type.b0000"], of["type.c"]}, []int64{1, more + 1, 0, 1}, "of the day's types")
		var all int64
		for _, n := range of {
			all += n
		}
		d.same(all, int64(store.TypesCounted+more+2), "all")
	}},
	{"counts what the rows of deliveries and attempts say", func(d *driver) {
		h := newHistory(d)
		for range 12 {
			h.step()
		}
		h.d.reopenIfAble()
		h.compare()
	}},
}

const counterOfTimeout = 5

// reopenIfAble restarts the store if it outlives its process.
func (d *driver) reopenIfAble() {
	d.Helper()
	if d.harness.Reopen != nil {
		d.reopen()
	}
}
