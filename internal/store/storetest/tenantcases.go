package storetest

import (
	"context"
	"fmt"
	"testing"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/seal"
	"github.com/grapnelhq/grapnel/internal/store"
)

// tenantCases are about the end of a tenant.
var tenantCases = []testCase{
	{"deletes a tenant, a few rows at a time, and leaves others as they were", func(d *driver) {
		stayer := newTenant(d, "stayer", 100)
		var want store.TenantErased
		for _, limit := range []int{1000, 1, 7, 50} {
			leaver := newTenant(d, "leaver", 100)
			d.tidyTotals()
			d.reopenIfAble()
			shown := len(seen(leaver.view()))
			leaver.Leave()
			before := stayer.view()
			all := leaver.Erase(limit, func(*store.TenantErased) {
				d.same(stayer.view(), before, "the other tenant")
				d.balanced()
			})
			d.sound()
			d.same(seen(leaver.view()), []string{}, fmt.Sprint("what is left of ", shown))
			all.Rows = 0
			if limit == 1000 {
				want = all
				d.same(all.Events, leaver.events, "events")
			}
			d.same(all, want, fmt.Sprint("deleted, with a limit of ", limit))
			d.same(leaver.Erase(limit, func(*store.TenantErased) {}), store.TenantErased{}, "once more")
			d.purged = true
			d.reopenIfAble()
			d.same(stayer.view(), before, "the other tenant, after a restart")
			d.same(seen(stayer.view()), seen(before), "what is seen of it")
		}
		d.same(stayer.receiveAgain(), true, "a request of the other tenant is known still")
	}},
	{"lets a tenant begin anew", func(d *driver) {
		leaver := newTenant(d, "leaver", 0)
		first := leaver.view()
		leaver.Leave()
		leaver.Erase(1000, func(*store.TenantErased) {})
		again := newTenant(d, "leaver", 0) // whose requests would be known, had one been left
		before := again.view()
		for _, what := range []string{"totals by ", "totals by endpoint", "totals by tenant", "totals by type", "counts", "positions", "answered 503"} {
			d.same(before[what], first[what], what)
		}
		d.reopenIfAble()
		d.same(again.view(), before, "the new tenant, after a restart")
		d.sound()
	}},
	{"refuses the end of a tenant that is still there", func(d *driver) {
		refused := func(code grapnel.Code, e store.TenantErasure) {
			d.Helper()
			_, err := d.EraseTenant(d.ctx, e)
			d.code(err, code, fmt.Sprintf("EraseTenant %+v", e))
		}
		refused(grapnel.CodeInvalid, store.TenantErasure{Limit: 10})
		refused(grapnel.CodeInvalid, store.TenantErasure{Tenant: acme})
		done, err := d.EraseTenant(d.ctx, store.TenantErasure{Tenant: "stranger", Limit: 1})
		d.must(err, "EraseTenant")
		d.same(done, store.TenantErased{After: done.After}, "of a tenant that never was")

		one := store.TenantErasure{Tenant: bolt, Limit: 10}
		x := endpoint(epX, bolt)
		refused(grapnel.CodeConflict, one) // an endpoint
		in := incoming(event("x", "k", 1), to(epX))
		in.Event.Tenant = bolt
		d.publish(in, incoming(event("a", "k", 1), to(epA)))
		d.change(by(d.of("x")[0].Seq, grapnel.Failed, 2))
		x.DeletedAt, x.Revision = at(3), 1
		d.put(x)
		d.must(d.RemoveEndpoint(d.ctx, epX), "RemoveEndpoint")
		_, err = d.PutPolicy(d.ctx, everyone, named("pol_1", bolt, "n"), store.With{})
		d.must(err, "PutPolicy")
		refused(grapnel.CodeConflict, one)
		d.must(d.DeletePolicy(d.ctx, everyone, "pol_1", store.With{}), "DeletePolicy")
		in = incoming(event("y", "k", 4), to(epX))
		in.Event.Tenant = bolt
		d.publish(in)
		refused(grapnel.CodeConflict, one) // a pending delivery
		d.same(len(d.eventList(store.EventQuery{Tenant: bolt})), 2, "events")
		d.end(epX, ending(5), 10, 1)
		_, err = d.EraseTenant(d.ctx, one)
		d.must(err, "EraseTenant")
		d.same(len(d.eventList(store.EventQuery{})), 1, "the event of another tenant")
		d.leads(epA, d.of("a")[0].Seq)
	}},
	{"deletes what comes after its end", func(d *driver) {
		e := store.TenantErasure{Tenant: "leaver", Limit: 10}
		for i := range 3 {
			in := incoming(event(fmt.Sprint("late_", i), "", 1))
			in.Event.Tenant = "leaver"
			d.publish(in)
			done, err := d.EraseTenant(d.ctx, e)
			d.must(err, "EraseTenant")
			d.same(done.Events, 1, "events")
			e.After = done.After
		}
		d.same(len(d.eventList(store.EventQuery{})), 0, "events that are left")
	}},
	{"keeps the proof of erasures in the audit, and the newest entry", func(d *driver) {
		erased := entry(bolt, "ers_1", grapnel.VerbErase, 2)
		for _, e := range []*grapnel.AuditEntry{entry(bolt, epX, grapnel.VerbCreate, 1), entry(acme, epA, grapnel.VerbErase, 1), erased,
			entry(bolt, epX, grapnel.VerbDelete, 3)} {
			d.must(d.Note(d.ctx, *e), "Note")
		}
		x := endpoint(epX, bolt)
		x.DeletedAt, x.Revision = at(3), 1
		d.put(x)
		d.must(d.RemoveEndpoint(d.ctx, epX), "RemoveEndpoint")
		list := d.audit(store.AuditQuery{})
		want := []grapnel.AuditEntry{{Seq: list[0].Seq, At: at(3), Tenant: bolt, Verb: grapnel.VerbErase}, list[1], list[2]}
		want[1].Reason = ""
		end := func() {
			d.Helper()
			for more := true; more; {
				done, err := d.EraseTenant(d.ctx, store.TenantErasure{Tenant: bolt, Limit: 1})
				d.must(err, "EraseTenant")
				more = done.More
			}
		}
		for range 2 {
			end()
			d.same(d.audit(store.AuditQuery{}), want, "entries")
			d.reopenIfAble()
		}
		d.note(entry(acme, epA, grapnel.VerbProbe, 9), "later")
		end()
		list = d.audit(store.AuditQuery{})
		d.same(list[1:], want[1:], "entries without the one that was the newest")
		if list[0].Seq <= want[0].Seq {
			d.Fatalf("a row id is given again: %+v", list)
		}
		d.note(erased, erased.Reason)
		end()
		d.same(d.audit(store.AuditQuery{Tenant: bolt})[0].Reason, "", "the reason of an equal one")
	}},
}

// EndedTenantsDataKey checks that a sealed store deletes the data key of a tenant that has ended,
// and that another tenant keeps its own.
func EndedTenantsDataKey(t *testing.T, s interface {
	store.Store
	DataKeys(ctx context.Context) ([]seal.DataKey, error)
}) {
	t.Helper()
	NewTenant(t, s, "other", 0)
	gone := NewTenant(t, s, "gone", 0)
	gone.Leave()
	gone.Erase(1000, func(*store.TenantErased) {})
	all, err := s.DataKeys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	has := map[string]bool{}
	for _, k := range all {
		has[k.Tenant] = true
	}
	if has["gone"] || !has["other"] {
		t.Errorf("data keys of %v", has)
	}
}
