package storetest

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

func (d *driver) eventList(q store.EventQuery) []grapnel.Event {
	d.Helper()
	q.Limit = cmp.Or(q.Limit, math.MaxInt32)
	list, err := d.EventList(d.ctx, everyone, q)
	d.must(err, "EventList")
	return list
}

func eventIDs(list []grapnel.Event) []string {
	return each(list, func(e *grapnel.Event) string { return e.ID })
}

// labels are event id and endpoint of each delivery.
func labels(list []grapnel.Delivery) []string {
	return each(list, func(x *grapnel.Delivery) string { return x.EventID + ">" + x.EndpointID })
}

// stock publishes six events, one per second, that differ in every field by which queries select.
func (d *driver) stock() {
	d.Helper()
	for i, e := range []struct{ id, tenant, kind, key string }{
		{"e1", acme, "invoice.paid", "k"}, {"e2", acme, "invoice.line.added", "l"}, {"e3", acme, "user.created", ""},
		{"e4", acme, "invoice", "k"}, {"e5", bolt, "invoice.paid", "k"}, {"e6", acme, "invoice.paid", "K"},
	} {
		ev := event(e.id, e.key, float64(i+1))
		ev.Tenant, ev.Type = e.tenant, e.kind
		if e.tenant == bolt {
			d.publish(incoming(ev, to(epX)))
		} else {
			d.publish(incoming(ev, to(epA), to(epB)))
		}
	}
}

var historyCases = []testCase{
	{"lists events, the newest first", func(d *driver) {
		d.stock()
		for _, c := range []struct {
			what string
			q    store.EventQuery
			want []string
		}{
			{"all", store.EventQuery{}, []string{"e6", "e5", "e4", "e3", "e2", "e1"}},
			{"limit", store.EventQuery{Limit: 2}, []string{"e6", "e5"}},
			{"type", store.EventQuery{Type: "invoice.paid"}, []string{"e6", "e5", "e1"}},
			{"type that is a prefix", store.EventQuery{Type: "invoice"}, []string{"e4"}},
			{"pattern", store.EventQuery{Type: "invoice.*"}, []string{"e6", "e5", "e2", "e1"}},
			{"pattern for all", store.EventQuery{Type: "*"}, []string{"e6", "e5", "e4", "e3", "e2", "e1"}},
			{"pattern in the middle", store.EventQuery{Type: "*.line.*"}, []string{"e2"}},
			{"pattern and limit", store.EventQuery{Type: "*.added", Limit: 1}, []string{"e2"}},
			{"a pattern is not SQL", store.EventQuery{Type: "invoice_paid"}, nil},
			{"key", store.EventQuery{Key: "k"}, []string{"e5", "e4", "e1"}},
			{"tenant", store.EventQuery{Tenant: bolt}, []string{"e5"}},
			{"tenant that nobody is", store.EventQuery{Tenant: "nobody"}, nil},
			{"from is inclusive", store.EventQuery{From: at(5)}, []string{"e6", "e5"}},
			{"to is exclusive", store.EventQuery{To: at(2)}, []string{"e1"}},
			{"from and to", store.EventQuery{From: at(2), To: at(2).Add(time.Microsecond)}, []string{"e2"}},
			{"everything at once", store.EventQuery{Type: "invoice.*", Key: "k", Tenant: acme, From: at(1), To: at(9), Limit: 5}, []string{"e1"}},
		} {
			d.same(eventIDs(d.eventList(c.q)), c.want, c.what)
		}
		none, err := d.EventList(d.ctx, everyone, store.EventQuery{})
		d.must(err, "EventList")
		d.same(len(none), 0, "no limit is none")
		full := d.eventList(store.EventQuery{Limit: 1})[0]
		same, _, err := d.Event(d.ctx, everyone, acme, "e6")
		d.must(err, "Event")
		d.same(full, *same, "data and all")
	}},
	{"lists events page by page", func(d *driver) {
		d.stock()
		var seen []string
		q := store.EventQuery{Type: "*", Limit: 2}
		for range 10 {
			page := d.eventList(q)
			if len(page) == 0 {
				break
			}
			seen = append(seen, eventIDs(page)...)
			q.Before = page[len(page)-1].Seq
			if len(seen) == 2 {
				d.publish(incoming(event("new", "k", 9), to(epA)))
			}
		}
		d.same(seen, []string{"e6", "e5", "e4", "e3", "e2", "e1"}, "each once, and none that came meanwhile")
	}},
	{"lists deliveries, the newest first", func(d *driver) {
		d.stock()
		again := d.redeliver(d.of("e1")[0].Seq, 100).Delivery
		d.same(labels(d.list(store.DeliveryQuery{})), []string{"e1>ep_a", "e6>ep_b", "e6>ep_a", "e5>ep_x", "e4>ep_b", "e4>ep_a",
			"e3>ep_b", "e3>ep_a", "e2>ep_b", "e2>ep_a", "e1>ep_b", "e1>ep_a"}, "all")
		for _, c := range []struct {
			what string
			q    store.DeliveryQuery
			want []string
		}{
			{"limit", store.DeliveryQuery{Limit: 2}, []string{"e1>ep_a", "e6>ep_b"}},
			{"before", store.DeliveryQuery{Before: again, Limit: 1}, []string{"e6>ep_b"}},
			{"endpoint", store.DeliveryQuery{Endpoint: epX}, []string{"e5>ep_x"}},
			{"endpoint that nobody has", store.DeliveryQuery{Endpoint: "ep_unknown"}, nil},
			{"pattern", store.DeliveryQuery{Endpoint: epB, Type: "invoice.*"}, []string{"e6>ep_b", "e2>ep_b", "e1>ep_b"}},
			{"pattern and limit", store.DeliveryQuery{Type: "user.*", Limit: 1}, []string{"e3>ep_b"}},
			{"key", store.DeliveryQuery{Endpoint: epB, Key: "k"}, []string{"e4>ep_b", "e1>ep_b"}},
			{"tenant", store.DeliveryQuery{Tenant: bolt}, []string{"e5>ep_x"}},
			{"a redelivery is of its event's time", store.DeliveryQuery{Endpoint: epA, To: at(2)}, []string{"e1>ep_a", "e1>ep_a"}},
			{"from is inclusive", store.DeliveryQuery{From: at(6)}, []string{"e6>ep_b", "e6>ep_a"}},
			{"everything at once", store.DeliveryQuery{Endpoint: epA, Status: []grapnel.Status{grapnel.Pending}, Type: "invoice.paid",
				Key: "K", Tenant: acme, From: at(6), To: at(7), Before: again, Limit: 3}, []string{"e6>ep_a"}},
		} {
			d.same(labels(d.list(c.q)), c.want, c.what)
		}
		none, err := d.DeliveryList(d.ctx, everyone, store.DeliveryQuery{})
		d.must(err, "DeliveryList")
		d.same(len(none), 0, "no limit is none")
	}},
	{"shows deliveries in lists as one by one, without attempts", func(d *driver) {
		n := d.lane("k", 3)
		d.change(retried(n[0], 0, 4, 9))
		d.change(by(n[1], grapnel.Skipped, 8))
		for _, x := range append(d.list(store.DeliveryQuery{}), d.of("k_1")...) {
			whole := d.delivery(x.Seq)
			d.same(len(x.Attempts), 0, "attempts")
			whole.Attempts = nil
			d.same(x, whole, "delivery")
		}
		d.same(len(d.delivery(n[0]).Attempts), 1, "attempts of one")
	}},
	{"distinguishes held from pending", func(d *driver) {
		n := d.lane("k", 3) // 0 is the head, 1 and 2 are behind it
		l := d.lane("l", 1) // blocked
		m := d.lane("m", 1) // delivered
		blocked := retried(l[0], 0, 6, 0)
		blocked.Blocked, blocked.Due = true, time.Time{}
		d.change(blocked)
		d.change(delivered(m[0], 0, 7))
		d.publish(incoming(event("b", "k", 8), to(epB)))
		for _, c := range []struct {
			what   string
			status []grapnel.Status
			held   []string
			want   []string
		}{
			{"any", nil, nil, []string{"b>ep_b", "m_1>ep_a", "l_1>ep_a", "k_3>ep_a", "k_2>ep_a", "k_1>ep_a"}},
			{"pending", []grapnel.Status{grapnel.Pending}, nil, []string{"b>ep_b", "k_1>ep_a"}},
			{"held", []grapnel.Status{grapnel.Held}, nil, []string{"l_1>ep_a", "k_3>ep_a", "k_2>ep_a"}},
			{"pending, one endpoint is closed", []grapnel.Status{grapnel.Pending}, []string{"ep_zzz", epA}, []string{"b>ep_b"}},
			{"held, one endpoint is closed", []grapnel.Status{grapnel.Held}, []string{epA}, []string{"l_1>ep_a", "k_3>ep_a", "k_2>ep_a",
				"k_1>ep_a"}},
			{"both", []grapnel.Status{grapnel.Held, grapnel.Pending}, []string{epB}, []string{"b>ep_b", "l_1>ep_a", "k_3>ep_a", "k_2>ep_a",
				"k_1>ep_a"}},
			{"final", []grapnel.Status{grapnel.Delivered, grapnel.Failed}, []string{epA}, []string{"m_1>ep_a"}},
			{"final and held", []grapnel.Status{grapnel.Delivered, grapnel.Held}, nil, []string{"m_1>ep_a", "l_1>ep_a", "k_3>ep_a", "k_2>ep_a"}},
			{"final and pending", []grapnel.Status{grapnel.Delivered, grapnel.Pending}, []string{epB}, []string{"m_1>ep_a", "k_1>ep_a"}},
			{"none there", []grapnel.Status{grapnel.Discarded}, nil, nil},
		} {
			d.same(labels(d.list(store.DeliveryQuery{Status: c.status, HeldEndpoints: c.held})), c.want, c.what)
			d.same(labels(d.list(store.DeliveryQuery{Status: c.status, HeldEndpoints: c.held, Limit: 1})), c.want[:min(1, len(c.want))],
				c.what+", one of them")
		}
		for _, x := range d.list(store.DeliveryQuery{Status: []grapnel.Status{grapnel.Held}}) {
			d.same(x.Status, grapnel.Pending, "the stored status, also of a held one")
		}
		d.change(by(n[0], grapnel.Skipped, 20))
		d.same(labels(d.list(store.DeliveryQuery{Status: []grapnel.Status{grapnel.Pending}, Endpoint: epA})), []string{"k_2>ep_a"},
			"after promotion")
	}},
	{"takes many held endpoints", func(d *driver) {
		d.publish(incoming(event("a", "k", 1), to(epA), to(epB)))
		var closed []string
		for i := range 2000 {
			closed = append(closed, fmt.Sprint("ep_closed_", i))
		}
		closed = append(closed, epA)
		for status, want := range map[grapnel.Status]string{grapnel.Held: "a>ep_a", grapnel.Pending: "a>ep_b"} {
			d.same(labels(d.list(store.DeliveryQuery{Status: []grapnel.Status{status}, HeldEndpoints: closed})), []string{want}, string(status))
		}
	}},
	{"lists deliveries page by page", func(d *driver) {
		d.stock()
		var seen []string
		q := store.DeliveryQuery{Limit: 3}
		for range 20 {
			page := d.list(q)
			if len(page) == 0 {
				break
			}
			seen = append(seen, labels(page)...)
			q.Before = page[len(page)-1].Seq
		}
		d.same(seen, labels(d.list(store.DeliveryQuery{})), "pages")
	}},
	{"counts by endpoint and stored status", func(d *driver) {
		counts := func(scope store.Scope) map[string]map[grapnel.Status]int64 {
			d.Helper()
			c, err := d.Counts(d.ctx, scope)
			d.must(err, "Counts")
			return c
		}
		d.same(counts(everyone), map[string]map[grapnel.Status]int64{}, "nothing")
		n := d.lane("k", 3)
		d.stock()
		d.change(by(n[0], grapnel.Skipped, 20))
		d.change(delivered(d.of("e3")[1].Seq, 0, 20))
		want := map[string]map[grapnel.Status]int64{
			epA: {grapnel.Pending: 7, grapnel.Skipped: 1},
			epB: {grapnel.Pending: 4, grapnel.Delivered: 1},
			epX: {grapnel.Pending: 1},
		}
		d.same(counts(everyone), want, "everyone's, held ones as pending")
		d.same(counts(store.Of(bolt)), map[string]map[grapnel.Status]int64{epX: want[epX]}, "bolt's")
		d.end(epB, ending(30), 10, 4)
		want[epB] = map[grapnel.Status]int64{grapnel.Delivered: 1, grapnel.Dropped: 4}
		d.same(counts(everyone), want, "after the end")
	}},
	{"counts pending deliveries up to a limit", func(d *driver) {
		n := d.lane("k", 4)
		d.change(delivered(n[0], 0, 9))
		for limit, want := range map[int]int{0: 0, 1: 1, 3: 3, 100: 3} {
			got, err := d.Waiting(d.ctx, epA, limit)
			d.must(err, "Waiting")
			d.same(got, want, fmt.Sprint("limit ", limit))
		}
		d.same(d.waiting(epB), 0, "another endpoint")
	}},
	{"counts the types of a tenant's events up to a limit", func(d *driver) {
		for i, of := range [][3]string{{acme, "a", ""}, {acme, "b", ""}, {acme, "a", ""}, {acme, "a", "src_1"}, {bolt, "c", ""}} {
			e := event(fmt.Sprint("typed", i), "", float64(i+1))
			e.Tenant, e.Type, e.Source = of[0], of[1], of[2]
			d.publish(incoming(e))
		}
		d.waiting(epA) // a read that sees all writes: the tables have them now
		for _, c := range []struct {
			tenant, name string
			limit        int
			has          bool
			n            int
		}{{acme, "a", 100, true, 3}, {acme, "b", 2, true, 2}, {acme, "c", 100, false, 3}, {acme, "a", 0, true, 0}, {acme, "", -1, false, 0},
			{bolt, "c", 100, true, 1}, {"none", "a", 100, false, 0}} {
			has, n, err := d.HasType(d.ctx, c.tenant, c.name, c.limit)
			d.must(err, "HasType")
			if has != c.has || n != c.n {
				d.Errorf("type %q of %s, limit %d: %v, %d", c.name, c.tenant, c.limit, has, n)
			}
		}
	}},
	{"finds an event by tenant and id", func(d *driver) {
		d.stock()
		for _, tenant := range []string{"", bolt} {
			e, deliveries, err := d.Event(d.ctx, everyone, tenant, "e5")
			d.must(err, "Event")
			d.same(e.Tenant, bolt, "tenant")
			d.same(labels(deliveries), []string{"e5>ep_x"}, "deliveries")
		}
		for _, try := range [][2]string{{acme, "e5"}, {bolt, "e1"}, {"", "absent"}, {acme, ""}} {
			_, _, err := d.Event(d.ctx, everyone, try[0], try[1])
			d.code(err, grapnel.CodeNotFound, fmt.Sprint(try))
		}
	}},
}
