package storetest

import (
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// A node may remember a row id from before its database lost transactions. A change decided from
// such memory differs from the row in its event's row id, its endpoint or its time of creation, and
// must not change the row.
var identityCases = []testCase{
	{"of a head is that of its delivery", func(d *driver) {
		n := d.lane("k", 1)
		x := d.delivery(n[0])
		d.same(d.heads(epA)[0].Identity(), store.Identity{Event: x.EventSeq, Endpoint: epA, CreatedAt: x.CreatedAt}, "identity")
		d.same(d.heads(epA)[0].CreatedAt, d.eventList(store.EventQuery{})[0].AcceptedAt, "a delivery is created when its event is accepted")
	}},
	{"lets a change apply to the delivery that is meant, and to any without one", func(d *driver) {
		n := d.lane("k", 2)
		c := retried(n[0], 0, 4, 9)
		c.Identity = d.heads(epA)[0].Identity()
		c.Identity.CreatedAt = c.Identity.CreatedAt.Add(300 * time.Nanosecond) // less than stores keep
		d.change(c)
		d.change(delivered(n[0], 1, 12))
	}},
	{"keeps a change from a pending delivery that has only the row id in common", func(d *driver) {
		number := int64(0)
		for name, other := range strangers(d, d.lane("k", 2)[0]) {
			for _, c := range []store.Change{other.of(delivered), other.of(delivered, store.AnyAttempts),
				other.of(func(n int64, expect int, when float64) store.Change { return retried(n, expect, when, 60) })} {
				before := d.delivery(c.Delivery)
				number++
				c.Audit, c.Standing = entry(acme, epA, grapnel.VerbSkip, 20), standing(epA, number)
				c.Operational = &store.Batch{Config: d.config().Version, Events: []store.Incoming{incoming(event("told", "", 20), to(epA))}}
				d.same(d.record(c)[0], store.Changed{Foreign: true}, name)
				d.same(d.delivery(c.Delivery), before, name+": the delivery")
				d.leads(epA, c.Delivery)
				d.same(d.audit(store.AuditQuery{}), []grapnel.AuditEntry(nil), name+": entries")
				_, _, err := d.Event(d.ctx, everyone, acme, "told")
				d.code(err, grapnel.CodeNotFound, name+": told")
				d.same(d.standings(), []store.Standing{*c.Standing}, name+": the standing is the endpoint's")
			}
		}
	}},
	{"keeps a finished delivery's state from one that has only the row id in common", func(d *driver) {
		n := d.lane("k", 3)
		d.change(delivered(n[0], 0, 10))
		for name, other := range strangers(d, n[0]) {
			d.same(d.record(other.of(delivered))[0], store.Changed{Foreign: true}, name)
		}
		d.leads(epA, n[1])
	}},
	{"is looked at for each change by itself", func(d *driver) {
		n := d.lane("k", 2)
		other := strangers(d, n[0])["event"]
		is := d.record(other.of(delivered), delivered(n[0], 0, 10), delivered(n[1], 0, 11))
		d.same([]bool{is[0].Foreign, is[1].Applied, is[2].Applied}, []bool{true, true, true}, "applied")
	}},
}

// stranger is an earlier delivery with the same row id.
type stranger struct {
	delivery int64
	store.Identity
}

// strangers differ from the current delivery of the row id in one property each.
func strangers(d *driver, n int64) map[string]stranger {
	x := d.delivery(n)
	is := store.Identity{Event: x.EventSeq, Endpoint: epA, CreatedAt: x.CreatedAt}
	event, endpoint, created := is, is, is
	event.Event++
	endpoint.Endpoint = epB
	created.CreatedAt = is.CreatedAt.Add(-time.Microsecond)
	return map[string]stranger{"event": {n, event}, "endpoint": {n, endpoint}, "creation": {n, created}}
}

// of is a change decided for the stranger.
func (s stranger) of(change func(int64, int, float64) store.Change, expect ...int) store.Change {
	c := change(s.delivery, 0, 10)
	if len(expect) > 0 {
		c.Expect = expect[0]
	}
	c.Identity = s.Identity
	return c
}
