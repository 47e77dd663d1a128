package configuration

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/pass"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
)

// TestATenantEnds: once the order is answered nothing is created for the tenant, on a node that has
// caught up neither; its endpoints count as disabled, and its keys' and passes' calls have ended.
// Other tenants notice nothing. Deleting goes on. At the end a tenant of the same name may begin.
func TestATenantEnds(t *testing.T) {
	var o surroundings
	s, everyone := memory.New(), store.Everyone()
	b := open(t, s, &o)
	must := func(_ store.Put, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, tenant := range []string{"acme", "bolt"} {
		ep := grapnel.Endpoint{ID: "ep_" + tenant, Tenant: tenant, Status: grapnel.EndpointEnabled}
		must(s.PutEndpoint(t.Context(), everyone, ep, store.With{}))
		must(b.PutKey(t.Context(), everyone, grapnel.Key{ID: "key_" + tenant, Tenant: tenant, Hash: [32]byte{byte(i)}}, store.With{}))
	}
	if err := b.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	other := open(t, s, &surroundings{})
	call := func(of byte) (alive func() bool) {
		byKey, _ := b.WhileKey(t.Context(), [32]byte{of}, func(*grapnel.Key) bool { return true })
		byPass, _ := b.WhilePass(t.Context(), &pass.Pass{Tenant: []string{"acme", "bolt"}[of], Begins: time.Now()})
		return func() bool { return byKey.Err() == nil && byPass.Err() == nil }
	}
	calls := []func() bool{call(0), call(1)}
	order := grapnel.TenantEnd{Tenant: "acme", Job: "ers_1", By: grapnel.By{Actor: "key_1", Reason: "ticket"}}
	settled, confirmed := o.settled, o.confirmed
	is, _, err := b.EndTenant(t.Context(), order, store.With{})
	if err != nil || is != order || o.settled != settled+1 || o.confirmed != confirmed+1 {
		t.Errorf("ordered %+v, %v: settled %d, confirmed %d", is, err, o.settled-settled, o.confirmed-confirmed)
	}
	if err := other.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := order
	again.Job = "ers_2"
	if is, _, err := other.EndTenant(t.Context(), again, store.With{}); err != nil || is != order {
		t.Errorf("ordered again %+v, %v", is, err)
	}
	for i, at := range []*Book{b, other} {
		for tenant, code := range map[string]grapnel.Code{"acme": grapnel.CodeTenantEnds, "bolt": ""} {
			_, source := at.PutSource(t.Context(), everyone, grapnel.Source{ID: fmt.Sprint("src_", tenant, i), Tenant: tenant}, store.With{})
			_, portal := at.ChangePortal(t.Context(), everyone, tenant, func(*grapnel.Portal) (*grapnel.AuditEntry, error) { return nil, nil })
			for what, err := range map[string]error{"a source": source, "a portal": portal, "anything": at.Accepts(tenant)} {
				if grapnel.CodeOf(err) != code {
					t.Errorf("%s of %s: %v", what, tenant, err)
				}
			}
			must(store.Put{}, errors.Join(b.CatchUp(t.Context()), other.CatchUp(t.Context())))
			ep, _ := at.Endpoint(everyone, "ep_"+tenant)
			if disabled := ep.Status == grapnel.EndpointDisabled; disabled != (code != "") {
				t.Errorf("the endpoint of %s is %s", tenant, ep.Status)
			}
		}
	}
	if calls[0]() || !calls[1]() {
		t.Errorf("calls go on: of the tenant %v, of the other %v", calls[0](), calls[1]())
	}
	if n, err := b.DeleteAllOf(t.Context(), "acme", 10); n != 1 || err != nil {
		t.Errorf("deleted %d, %v", n, err)
	}
	if err := b.KeyGone(t.Context(), "acme"); err != nil {
		t.Error(err)
	}
	if before := other.Snapshot(); other.CatchUp(t.Context()) != nil || len(other.Snapshot().Gone(before)) != 1 {
		t.Error("the other node does not drop the data key")
	}
	passes := grapnel.EndedSessions{Before: time.Now(), Until: time.Now().Add(time.Hour)}
	if err := b.TenantEnded(t.Context(), grapnel.TenantEnd{Tenant: "acme", Job: "ers_2"}, passes); err != nil || b.Accepts("acme") == nil {
		t.Errorf("ended by a job that is not this one: %v", err)
	}
	for range 2 { // as after a crash
		if err := b.TenantEnded(t.Context(), order, passes); err != nil || b.Accepts("acme") != nil {
			t.Errorf("ended: %v, %v", err, b.Accepts("acme"))
		}
	}
	if b.Holds(&pass.Pass{Tenant: "acme", Begins: passes.Before}) || !b.Holds(&pass.Pass{Tenant: "acme", Begins: passes.Before.Add(1)}) {
		t.Error("a pass of before is valid, or one of after is not")
	}
	before := other.Snapshot()
	if other.CatchUp(t.Context()) != nil || len(other.Snapshot().Gone(before)) != 1 || other.Accepts("acme") != nil {
		t.Error("the other node does not begin anew")
	}
}
