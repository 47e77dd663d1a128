package api

import (
	"context"
	"slices"
	"testing"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/erase"
	"github.com/grapnelhq/grapnel/internal/store"
)

// eraser is the engine of orders to erase; no job runs.
type eraser struct {
	*fakeEngine
	unused
}

type unused struct{ erase.Engine }

func (s *fakeEngine) TenantEnds() (all []grapnel.TenantEnd) {
	for _, r := range s.config().Access {
		if r.End != nil {
			all = append(all, *r.End)
		}
	}
	return all
}

func (s *fakeEngine) Accepts(tenant string) error {
	if slices.ContainsFunc(s.TenantEnds(), func(e grapnel.TenantEnd) bool { return e.Tenant == tenant }) {
		return grapnel.Errorf(grapnel.CodeTenantEnds, "Tenant %s is being deleted.", tenant)
	}
	return nil
}

func (s *fakeEngine) EndTenant(ctx context.Context, end grapnel.TenantEnd, with store.With) (grapnel.TenantEnd, store.Put, error) {
	for _, is := range s.TenantEnds() {
		if is.Tenant == end.Tenant {
			return is, store.Put{}, nil
		}
	}
	put, err := s.PutAccess(ctx, store.Everyone(), grapnel.TenantEndRecord(end), with)
	return end, put, err
}

// TestTenantIsDeleted: the order is answered with its job, an order given again with the same one.
// The tenant's keys are refused, and what the operator would create for it.
func TestTenantIsDeleted(t *testing.T) {
	w := newWorld(t)
	w.endpoint(acmeAdmin, "")
	w.as(acmeAdmin, 200, "GET", "/v1/endpoints", "")
	job := w.must(202, "DELETE", "/v1/tenants/acme?reason=ticket", "")
	if job["tenant"] != "acme" || job["selected_by"] != "tenant" || job["state"] != "running" || job["reason"] != "ticket" {
		t.Errorf("answered %v", job)
	}
	id := job["id"].(string)
	if again := w.must(202, "DELETE", "/v1/tenants/acme?reason=other", ""); again["id"] != id {
		t.Errorf("again: answered %v", again)
	}
	if got := w.must(200, "GET", "/v1/erasures/"+id, ""); got["selected_by"] != "tenant" || got["started_by"] != job["started_by"] {
		t.Errorf("shown as %v", got)
	}
	for _, target := range []string{"/v1/endpoints", "/v1/keys", "/v1/erasures"} {
		w.as(acmeAdmin, 403, "GET", target, "")
	}
	w.as(acmeAdmin, 403, "POST", "/v1/events", `{"type":"a","data":1}`)
	for target, body := range map[string]string{"/v1/erasures": `{"tenant":"acme","key":"k","reason":"x"}`,
		"/v1/tenants/acme/portal-links": `{"expires_in":"5m"}`} {
		if p := w.must(409, "POST", target, body); p["code"] != "tenant_deleted" {
			t.Errorf("%s: answered %v", target, p)
		}
	}
	w.must(200, "GET", "/v1/endpoints?tenant=acme", "")
}
