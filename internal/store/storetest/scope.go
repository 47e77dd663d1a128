package storetest

import (
	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// blind calls every method that takes a scope with one that covers none of the stored data, and
// fails if any returns a row.
func (d *driver) blind(scope store.Scope, what string) {
	d.Helper()
	for _, x := range d.list(store.DeliveryQuery{}) {
		_, err := d.Delivery(d.ctx, scope, x.Seq)
		d.code(err, grapnel.CodeNotFound, what+": Delivery")
		for _, tenant := range []string{"", x.Tenant} {
			_, _, err = d.Event(d.ctx, scope, tenant, x.EventID)
			d.code(err, grapnel.CodeNotFound, what+": Event")
			list, err := d.DeliveryList(d.ctx, scope, store.DeliveryQuery{Tenant: tenant, Endpoint: x.EndpointID, Limit: 10})
			d.must(err, "DeliveryList")
			d.same(len(list), 0, what+": DeliveryList")
		}
		_, err = d.Again(d.ctx, scope, store.Redelivery{Of: x.Seq, At: at(1)})
		d.code(err, grapnel.CodeNotFound, what+": Again")
	}
	for _, tenant := range []string{"", acme, bolt} {
		events, err := d.EventList(d.ctx, scope, store.EventQuery{Tenant: tenant, Limit: 10})
		d.must(err, "EventList")
		d.same(len(events), 0, what+": EventList")
		list, err := d.DeliveryList(d.ctx, scope, store.DeliveryQuery{Tenant: tenant, Limit: 10})
		d.must(err, "DeliveryList")
		d.same(len(list), 0, what+": DeliveryList")
	}
	for _, endpoint := range []string{epA, epB, epX} {
		lanes, err := d.StuckLanes(d.ctx, scope, store.LaneQuery{Endpoint: endpoint, Limit: 10})
		d.must(err, "StuckLanes")
		d.same(len(lanes), 0, what+": StuckLanes")
		entries, err := d.AuditList(d.ctx, scope, store.AuditQuery{Endpoint: endpoint, Limit: 10})
		d.must(err, "AuditList")
		d.same(len(entries), 0, what+": AuditList")
	}
	for _, tenant := range []string{"", acme, bolt} {
		entries, err := d.AuditList(d.ctx, scope, store.AuditQuery{Tenant: tenant, Limit: 10})
		d.must(err, "AuditList")
		d.same(len(entries), 0, what+": AuditList")
	}
	counts, err := d.Counts(d.ctx, scope)
	d.must(err, "Counts")
	d.same(len(counts), 0, what+": Counts")
}

var scopeCases = []testCase{
	{"of no tenant and of a stranger shows nothing", func(d *driver) {
		d.stock()
		for _, id := range []string{"e1", "e5"} {
			x := d.of(id)[0]
			c := retried(x.Seq, 0, 10, 20)
			c.Audit = entry(x.Tenant, x.EndpointID, grapnel.VerbRetry, 10)
			d.change(c)
		}
		d.blind(store.Scope{}, "zero scope")
		d.blind(store.Of(""), "scope of nobody")
		d.blind(store.Of("stranger"), "stranger")
	}},
	{"of a tenant shows its own rows", func(d *driver) {
		d.stock()
		for tenant, want := range map[string]int{acme: 5, bolt: 1} {
			other := map[string]string{acme: bolt, bolt: acme}[tenant]
			events, err := d.EventList(d.ctx, store.Of(tenant), store.EventQuery{Limit: 100})
			d.must(err, "EventList")
			d.same(len(events), want, "events of "+tenant)
			list, err := d.DeliveryList(d.ctx, store.Of(tenant), store.DeliveryQuery{Limit: 100})
			d.must(err, "DeliveryList")
			for _, x := range list {
				d.same(x.Tenant, tenant, "tenant")
				_, err = d.Delivery(d.ctx, store.Of(other), x.Seq)
				d.code(err, grapnel.CodeNotFound, "Delivery of another tenant")
				_, err = d.Delivery(d.ctx, store.Of(tenant), x.Seq)
				d.must(err, "Delivery")
				_, _, err = d.Event(d.ctx, store.Of(tenant), tenant, x.EventID)
				d.must(err, "Event")
				for _, asked := range []string{"", tenant, other} {
					_, _, err = d.Event(d.ctx, store.Of(other), asked, x.EventID)
					d.code(err, grapnel.CodeNotFound, "Event of another tenant")
				}
			}
			list, err = d.DeliveryList(d.ctx, store.Of(tenant), store.DeliveryQuery{Tenant: other, Limit: 100})
			d.must(err, "DeliveryList")
			d.same(len(list), 0, "deliveries of another tenant")
		}
	}},
	{"guards every write of the configuration", func(d *driver) {
		_, err := d.PutPolicy(d.ctx, everyone, named("pol_a", acme, "fast"), store.With{})
		d.must(err, "PutPolicy")
		_, err = d.PutKey(d.ctx, everyone, apiKey("key_a", acme), store.With{})
		d.must(err, "PutKey")
		_, err = d.PutKey(d.ctx, everyone, apiKey("key_all", ""), store.With{})
		d.must(err, "PutKey")
		_, err = d.PutAccess(d.ctx, everyone, accessRecord("record_a", acme), store.With{})
		d.must(err, "PutAccess")
		_, err = d.PutAccess(d.ctx, everyone, accessRecord("record_all", ""), store.With{})
		d.must(err, "PutAccess")
		before := d.config()
		for _, scope := range []store.Scope{{}, store.Of(""), store.Of(bolt)} {
			for _, tenant := range []string{acme, bolt} {
				if scope.Allows(tenant) {
					continue
				}
				_, err := d.PutEndpoint(d.ctx, scope, endpoint("ep_new", tenant), store.With{})
				d.code(err, grapnel.CodeNotFound, "PutEndpoint, new")
				_, err = d.PutPolicy(d.ctx, scope, named("pol_new", tenant, "new"), store.With{})
				d.code(err, grapnel.CodeNotFound, "PutPolicy, new")
				_, err = d.PutKey(d.ctx, scope, apiKey("key_new", tenant), store.With{})
				d.code(err, grapnel.CodeNotFound, "PutKey, new")
				_, err = d.PutAccess(d.ctx, scope, accessRecord("record_new", tenant), store.With{})
				d.code(err, grapnel.CodeNotFound, "PutAccess, new")
			}
			for _, tenant := range []string{acme, bolt} { // bolt: writing acme's objects
				ep := endpoint(epA, tenant)
				ep.Revision = 1
				_, err := d.PutEndpoint(d.ctx, scope, ep, store.With{})
				d.code(err, grapnel.CodeNotFound, "PutEndpoint")
				_, err = d.PutPolicy(d.ctx, scope, named("pol_a", tenant, "fast"), store.With{})
				d.code(err, grapnel.CodeNotFound, "PutPolicy")
				_, err = d.PutKey(d.ctx, scope, apiKey("key_a", tenant), store.With{})
				d.code(err, grapnel.CodeNotFound, "PutKey")
				_, err = d.PutAccess(d.ctx, scope, accessRecord("record_a", tenant), store.With{})
				d.code(err, grapnel.CodeNotFound, "PutAccess")
			}
			_, err := d.PutAccess(d.ctx, scope, accessRecord("record_all", ""), store.With{})
			d.code(err, grapnel.CodeNotFound, "PutAccess for every tenant")
			_, err = d.PutAccess(d.ctx, scope, accessRecord("record_more", ""), store.With{})
			d.code(err, grapnel.CodeNotFound, "PutAccess for every tenant, new")
			d.code(d.DeleteAccess(d.ctx, scope, "record_a", store.With{}), grapnel.CodeNotFound, "DeleteAccess")
			d.code(d.DeleteAccess(d.ctx, scope, "record_all", store.With{}), grapnel.CodeNotFound, "DeleteAccess of every tenant")
			_, err = d.PutKey(d.ctx, scope, apiKey("key_all", ""), store.With{})
			d.code(err, grapnel.CodeNotFound, "PutKey for every tenant")
			_, err = d.PutKey(d.ctx, scope, apiKey("key_more", ""), store.With{})
			d.code(err, grapnel.CodeNotFound, "PutKey for every tenant, new")
			d.code(d.DeletePolicy(d.ctx, scope, "pol_a", store.With{}), grapnel.CodeNotFound, "DeletePolicy")
			d.code(d.DeleteKey(d.ctx, scope, "key_a", store.With{}), grapnel.CodeNotFound, "DeleteKey")
			d.code(d.DeleteKey(d.ctx, scope, "key_all", store.With{}), grapnel.CodeNotFound, "DeleteKey of every tenant")
		}
		d.same(d.config(), before, "configuration")
	}},
	{"of everyone moves nothing to another tenant", func(d *driver) {
		ep := endpoint(epA, bolt)
		ep.Revision = 1
		_, err := d.PutEndpoint(d.ctx, everyone, ep, store.With{})
		d.code(err, grapnel.CodeNotFound, "PutEndpoint")
		_, err = d.PutPolicy(d.ctx, everyone, named("pol_a", acme, "fast"), store.With{})
		d.must(err, "PutPolicy")
		_, err = d.PutPolicy(d.ctx, everyone, named("pol_a", bolt, "fast"), store.With{})
		d.code(err, grapnel.CodeNotFound, "PutPolicy")
		_, err = d.PutKey(d.ctx, everyone, apiKey("key_a", acme), store.With{})
		d.must(err, "PutKey")
		_, err = d.PutKey(d.ctx, everyone, apiKey("key_a", ""), store.With{})
		d.code(err, grapnel.CodeNotFound, "PutKey")
		_, err = d.PutAccess(d.ctx, everyone, accessRecord("record_a", acme), store.With{})
		d.must(err, "PutAccess")
		_, err = d.PutAccess(d.ctx, everyone, accessRecord("record_a", ""), store.With{})
		d.code(err, grapnel.CodeNotFound, "PutAccess")
	}},
}
