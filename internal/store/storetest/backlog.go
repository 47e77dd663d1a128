package storetest

import (
	"math"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// backlogCases has a case for each sentence about Backlogs.
var backlogCases = []testCase{
	{"counts pending deliveries by state", func(d *driver) {
		n := d.lane("k", 3) // a head and two behind it
		d.publish(incoming(event("a", "", 1), to(epA)), incoming(event("b", "", 1), to(epA)), incoming(event("c", "", 1), to(epA)))
		d.change(retried(d.of("a")[0].Seq, 0, 10, 10+90))
		held := by(d.of("b")[0].Seq, grapnel.Pending, 10)
		held.Blocked, held.Due = true, time.Time{}
		d.change(held)
		d.change(by(d.of("c")[0].Seq, grapnel.Failed, 10))
		want := store.Backlog{Endpoint: epA, Pending: 5, Ready: 1, Blocked: 1, Waiting: 2, Dead: 1, Oldest: d.delivery(n[0]).CreatedAt}
		want.Ahead[0] = 1
		d.same(d.backlogs(everyone, "", 20), []store.Backlog{want}, "at 20 s")
		want.Ready, want.Ahead[0] = 2, 0
		d.same(d.backlogs(everyone, "", 100), []store.Backlog{want}, "when it is due")
		d.same(d.backlogs(store.Of(bolt), "", 100), []store.Backlog(nil), "bolt's")
		d.same(d.backlogs(store.Of(acme), bolt, 100), []store.Backlog(nil), "of a tenant out of scope")
		d.same(d.backlogs(store.Scope{}, "", 100), []store.Backlog(nil), "in no scope")
	}},
	{"counts attempts ahead by five minutes, then by the hour", func(d *driver) {
		for i, due := range []float64{299, 300, 3599, 3600, 7200, 86_399, 86_400, 90_000} {
			id := string(rune('a' + i))
			d.publish(incoming(event(id, "", 1), to(epA)))
			d.change(retried(d.of(id)[0].Seq, 0, 5, due))
		}
		var want store.Backlog
		want.Ahead[0], want.Ahead[1], want.Ahead[11], want.Ahead[12], want.Ahead[13], want.Ahead[34], want.Later = 1, 1, 1, 1, 1, 1, 2
		got := d.backlogs(everyone, "", 0)[0]
		d.same(got.Ahead, want.Ahead, "parts")
		d.same(got.Later, want.Later, "later")
		d.same(got.Scheduled(), int64(8), "scheduled")
	}},
	{"counts leased heads apart", func(d *driver) {
		for _, id := range []string{"a", "b", "c"} {
			d.publish(incoming(event(id, "", 1), to(epA)))
		}
		_, err := d.Claim(d.ctx, store.Claim{Queue: epA, Wants: []store.Want{{Token: "t", Consumer: "c", For: time.Minute}}, Now: at(10)})
		d.must(err, "Claim")
		got := d.backlogs(everyone, "", 20)[0]
		d.same([]int64{got.Ready, got.Leased, got.Scheduled()}, []int64{2, 1, 0}, "ready, leased, scheduled")
		got = d.backlogs(everyone, "", 200)[0]
		d.same([]int64{got.Ready, got.Leased, got.Scheduled()}, []int64{2, 1, 0}, "after the lease expired")
	}},
	{"discarded and successfully repeated dead letters do not count", func(d *driver) {
		for _, id := range []string{"a", "b"} {
			d.publish(incoming(event(id, "", 1), to(epA)))
			d.change(by(d.of(id)[0].Seq, grapnel.Failed, 10))
		}
		d.must(d.Annotate(d.ctx, everyone, store.Annotation{Delivery: d.of("a")[0].Seq, Discard: "old", At: at(20)}), "Annotate")
		got := d.backlogs(everyone, "", 20)
		d.same(got, []store.Backlog{{Endpoint: epA, Dead: 1}}, "backlogs")
	}},
	{"a delivery that fails after it was repeated is dead by the result of its last copy", func(d *driver) {
		dead := func(want int, what string) {
			d.Helper()
			counted := 0
			for _, b := range d.backlogs(everyone, "", 100) {
				counted += int(b.Dead)
			}
			d.same(counted, want, what)
			for _, q := range []store.DeliveryQuery{{}, {Endpoint: epA}, {Type: "*"}, {ReasonCode: grapnel.ReasonExhausted}} {
				q.DeadLetters = true
				d.same(len(d.list(q)), want, what+", in a list")
			}
		}
		copied := func(id string, times int) (of int64, copies []int64) {
			d.publish(incoming(event(id, "", 1), to(epA)))
			of = d.of(id)[0].Seq
			for range times {
				copies = append(copies, d.redeliver(of, 5).Delivery)
			}
			return of, copies
		}
		fails := func(number int64, when float64) {
			c := by(number, grapnel.Failed, when)
			c.ReasonCode = grapnel.ReasonExhausted
			d.change(c)
		}
		of, copies := copied("a", 1)
		d.change(by(copies[0], grapnel.Delivered, 10))
		fails(of, 11)
		dead(0, "its copy succeeded first")
		d.same(len(d.list(store.DeliveryQuery{DeadLetters: true, Replayed: true})), 1, "with those repeated with success")
		again := d.redeliver(of, 12).Delivery
		dead(1, "while it is repeated once more")
		d.change(by(again, grapnel.Delivered, 13))
		dead(0, "that succeeded as well")
		of, copies = copied("b", 3)
		d.change(by(copies[2], grapnel.Delivered, 20))
		fails(of, 21)
		dead(0, "the last of three copies succeeded")
		fails(copies[0], 22)
		dead(1, "the first is a dead letter itself")
		of, copies = copied("c", 3)
		d.change(by(copies[0], grapnel.Delivered, 30))
		fails(of, 31)
		dead(2, "only the first of three copies succeeded")
		d.change(by(copies[2], grapnel.Delivered, 32))
		dead(1, "now the last did")
		of, copies = copied("d", 1)
		fails(of, 40)
		d.change(by(copies[0], grapnel.Delivered, 41)) // nothing was read between them
		dead(1, "its copy succeeded right after it")
	}},
	{"small endpoints are exact under a limit", func(d *driver) {
		for i := range 6 {
			d.publish(incoming(event(string(rune('a'+i)), "", 1), to(epA)))
		}
		d.publish(incoming(event("x", "", 1), to(epB)))
		list, err := d.Backlogs(d.ctx, everyone, "", at(100), 4)
		d.must(err, "Backlogs")
		d.same([]int64{list[0].Pending, list[0].Ready, list[1].Pending, list[1].Ready}, []int64{6, 3, 1, 1}, "counts")
		d.same([]bool{list[0].More, list[1].More}, []bool{true, false}, "more")
	}},
}

func (d *driver) backlogs(scope store.Scope, tenant string, when float64) []store.Backlog {
	d.Helper()
	list, err := d.Backlogs(d.ctx, scope, tenant, at(when), math.MaxInt32)
	d.must(err, "Backlogs")
	return list
}

// backlogs counts all rows.
func (m *model) backlogs(scope store.Scope, now time.Time) (list []store.Backlog) {
	letters := store.DeliveryQuery{DeadLetters: true}
	for _, ep := range someEndpoints {
		b := store.Backlog{Endpoint: ep}
		for _, r := range m.rows {
			if r.EndpointID != ep || m.gone[r.Seq] || !scope.Allows(r.Tenant) {
				continue
			}
			if letters.Dead(r.Status, &r.Mark) {
				b.Dead++
			}
			if r.Status != grapnel.Pending {
				continue
			}
			if b.Pending++; b.Oldest.IsZero() && r.Waiting.Head {
				b.Oldest = r.CreatedAt
			}
			switch {
			case !r.Waiting.Head:
				b.Waiting++
			case r.Waiting.Blocked:
				b.Blocked++
			case r.lease != nil:
				b.Leased++
			case !r.Waiting.Due.After(now):
				b.Ready++
			case !r.Waiting.Due.Before(now.Add(24 * time.Hour)):
				b.Later++
			case r.Waiting.Due.Before(now.Add(time.Hour)):
				b.Ahead[r.Waiting.Due.Sub(now)/(5*time.Minute)]++
			default:
				b.Ahead[11+r.Waiting.Due.Sub(now)/time.Hour]++
			}
		}
		if b.Pending > 0 || b.Dead > 0 {
			list = append(list, b)
		}
	}
	return list
}

// compareBacklogs holds the store's counts against a recount: without a limit they are equal, with
// a small one they are lower bounds.
func (m *machine) compareBacklogs() {
	m.Helper()
	for _, scope := range []store.Scope{everyone, store.Of(acme), store.Of(bolt)} {
		want := m.model.backlogs(scope, m.now)
		got, err := m.Backlogs(m.ctx, scope, "", m.now, math.MaxInt32)
		m.agree(got, want, err, nil, "Backlogs")
		for _, limit := range []int64{0, 1, 3} {
			got, err := m.Backlogs(m.ctx, scope, "", m.now, limit)
			m.must(err, "Backlogs")
			exact := make(map[string]store.Backlog)
			for _, b := range want {
				exact[b.Endpoint] = b
			}
			for _, b := range got {
				e, has := exact[b.Endpoint]
				if !has && b.DeadMore {
					e.Endpoint = b.Endpoint // its failed deliveries, which may be dead letters, were not all read
				}
				if b.Pending != e.Pending || b.Ready > e.Ready || b.Scheduled() > e.Scheduled() || b.Leased > e.Leased ||
					b.Blocked > e.Blocked || b.Waiting > e.Waiting || b.Dead > e.Dead || !b.DeadMore && b.Dead != e.Dead {
					m.Fatalf("limit %d: %+v is more than %+v", limit, b, e)
				}
				if b.Dead, b.DeadMore = e.Dead, false; !b.More {
					m.same(b, e, "an endpoint that is exact")
				}
			}
		}
	}
}

// tenantCountCases has a case for each sentence about TenantCounts.
var tenantCountCases = []testCase{
	{"counts each tenant's own", func(d *driver) {
		d.publish(incoming(event("a", "", 1), to(epA)), incoming(event("b", "", 1), to(epA)), incoming(event("c", "", 1), to(epB)))
		other := event("d", "", 1)
		other.Tenant = bolt
		d.publish(incoming(other, to(epX)))
		d.change(by(d.of("a")[0].Seq, grapnel.Failed, 10))
		d.same(d.tenantCounts(100, acme, bolt, "none"), map[string]store.TenantCount{
			acme: {Pending: 2, Dead: 1, Active: at(0).Truncate(time.Hour)}, bolt: {Pending: 1}, "none": {}}, "all")
		d.same(d.tenantCounts(100, bolt), map[string]store.TenantCount{bolt: {Pending: 1}}, "one")
	}},
	{"activity is the latest hour of any endpoint", func(d *driver) {
		d.publish(incoming(event("a", "", 1), to(epA)), incoming(event("b", "", 1), to(epB)))
		d.change(by(d.of("a")[0].Seq, grapnel.Delivered, 10))
		d.change(by(d.of("b")[0].Seq, grapnel.Delivered, 3*3600+10))
		d.same(d.tenantCounts(100, acme)[acme].Active, at(3*3600).Truncate(time.Hour), "active")
	}},
	{"dead letters beyond the limit are not counted", func(d *driver) {
		for i := range 5 {
			id := string(rune('a' + i))
			d.publish(incoming(event(id, "", 1), to(epA)))
			d.change(by(d.of(id)[0].Seq, grapnel.Failed, 10))
		}
		got := d.tenantCounts(3, acme)[acme]
		d.same([]any{got.Dead, got.DeadMore}, []any{int64(3), true}, "under a limit")
		d.must(d.Annotate(d.ctx, everyone, store.Annotation{Delivery: d.of("a")[0].Seq, Discard: "old", At: at(20)}), "Annotate")
		got = d.tenantCounts(100, acme)[acme]
		d.same([]any{got.Dead, got.DeadMore}, []any{int64(4), false}, "without a discarded one")
	}},
}

func (d *driver) tenantCounts(limit int64, tenants ...string) map[string]store.TenantCount {
	d.Helper()
	all, err := d.TenantCounts(d.ctx, tenants, limit)
	d.must(err, "TenantCounts")
	return all
}
