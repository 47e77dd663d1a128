package api

import (
	"cmp"
	"context"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// agreeing stands for the keeper of package consent, and for addresses that consent unless cause
// says otherwise.
type agreeing struct {
	w     *world
	due   []string
	cause string
	fails error
}

func (a *agreeing) Due(id string) { a.due = append(a.due, id) }

func (a *agreeing) Ask(ctx context.Context, id string, by grapnel.By) (grapnel.Endpoint, error) {
	ep, _ := a.w.engine.Endpoint(store.Everyone(), id)
	if a.fails != nil {
		return ep, a.fails
	}
	if ep.Consent != nil && !ep.AwaitsConsent() {
		return ep, grapnel.Errorf(grapnel.CodeConflict, "The endpoint does not wait for the consent of its address.")
	}
	is := *cmp.Or(ep.Consent, &grapnel.Consent{Since: ep.CreatedAt})
	is.Asked, is.AskedAt, is.Cause = is.Asked+1, a.w.clock, a.cause
	if a.cause == "" {
		is.GivenAt = a.w.clock
	}
	ep.Consent = &is
	ep.FollowConsent()
	put, err := a.w.engine.PutEndpoint(ctx, store.Everyone(), ep, store.With{Audit: &grapnel.AuditEntry{At: a.w.clock, Tenant: ep.Tenant,
		Actor: by.Actor, Verb: grapnel.VerbTest, Endpoint: id, Reason: by.Reason}})
	ep.Revision = put.Revision
	return ep, err
}

func (s *fakeEngine) Consent(tenant string) grapnel.ConsentRule {
	return cmp.Or(s.Terms(tenant).Consent, grapnel.ConsentOff)
}

// TestANewAddressWaitsForConsent: where the tenant requires it, a created endpoint and one that
// gets another address are paused and asked, and nothing else of an endpoint is.
func TestANewAddressWaitsForConsent(t *testing.T) {
	w := newWorld(t)
	asked := w.options.Consents.(*agreeing)
	const url = `{"url":"https://a.example/hooks","tenant":"acme"}`
	if got := w.must(201, "POST", "/v1/endpoints", url); got["status"] != "enabled" || got["consent"] != nil || len(asked.due) > 0 {
		t.Fatalf("without the rule: %v", got)
	}
	if got := w.must(200, "PATCH", "/v1/tenants/acme", `{"consent":"required"}`); got["consent"] != "required" {
		t.Fatal(got)
	}
	if r := w.ask(admin, "PATCH", "/v1/tenants/acme", `{"consent":"maybe"}`); r.StatusCode != 422 {
		t.Errorf("consent maybe: %d", r.StatusCode)
	}
	made := w.must(201, "POST", "/v1/endpoints", url)
	id := made["id"].(string)
	at := "/v1/endpoints/" + id
	held := func(what string, got map[string]any, want bool) {
		t.Helper()
		reason, _ := got["disabled_reason"].(string)
		if is := got["status"] == "paused" && strings.HasPrefix(reason, grapnel.ConsentReason); is != want {
			t.Errorf("%s: %v, %v, %v", what, got["status"], reason, got["consent"])
		}
	}
	held("created", made, true)
	if len(asked.due) != 1 || asked.due[0] != id {
		t.Errorf("asked soon: %v", asked.due)
	}
	held("enabled by hand", w.must(200, "PATCH", at, `{"status":"enabled"}`), true)
	if r := w.ask(admin, "POST", at+"/resume", ""); r.StatusCode != 409 || !strings.Contains(string(r.body), "/consent") {
		t.Errorf("resumed: %d %s", r.StatusCode, r.body)
	}
	asked.cause = "it answered 404"
	got := w.must(200, "POST", at+"/consent", `{"reason":"again"}`)
	held("asked in vain", got, true)
	if is := got["consent"].(map[string]any); is["cause"] != "it answered 404" || is["given_at"] != nil {
		t.Errorf("%v", got)
	}
	if why := w.must(200, "GET", at+"/causes", "")["sentence"]; why != "Its address has not consented to deliveries: it answered 404. Nothing was sent to it yet." {
		t.Errorf("why: %v", why)
	}
	asked.cause = ""
	held("asked", w.must(200, "POST", at+"/consent", ""), false)
	held("another header", w.must(200, "PATCH", at, `{"headers":{"x-a":"b"}}`), false)
	held("another address", w.must(200, "PATCH", at, `{"url":"https://b.example/hooks"}`), true)
	w.must(200, "POST", at+"/pause", "")
	got = w.must(200, "POST", at+"/consent", "")
	if held("a person's pause", got, false); got["status"] != "paused" || got["consent"].(map[string]any)["given_at"] == nil {
		t.Errorf("%v", got)
	}
	asked.fails = grapnel.Errorf(grapnel.CodeRateLimited, "too many")
	if r := w.ask(admin, "POST", at+"/consent", ""); r.StatusCode != 429 {
		t.Errorf("beyond the budget: %d", r.StatusCode)
	}
	held("a queue", w.must(201, "POST", "/v1/queues", `{"name":"q","tenant":"acme"}`), false)
}
