package api

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/pass"
)

// person makes a pass of a person of acme, as the dashboard does for each request.
func (w *world) person(role grapnel.Role, more ...grapnel.Scope) string {
	w.t.Helper()
	rights, known := grapnel.RightsOf(role)
	if !known {
		w.t.Fatalf("no role %s", role)
	}
	text, err := w.options.Passes.Seal(pass.Pass{Subject: "person/" + string(role), Name: "Kim", Tenant: "acme",
		Role: role, Scopes: append(rights.Scopes, more...), Begins: w.clock, Ends: w.clock.Add(time.Minute)})
	if err != nil {
		w.t.Fatal(err)
	}
	return text
}

// TestRolesAtTheAPI: the least role that may do a thing, and no lesser one, is let through; whoami
// says the role and whether payloads are shown.
func TestRolesAtTheAPI(t *testing.T) {
	w := newWorld(t)
	mine := w.settle(acmeAdmin, "mine")
	w.as(acmeAdmin, 201, "POST", "/v1/queues", `{"name":"orders"}`)
	order := map[grapnel.Role]int{}
	for i, r := range grapnel.Roles() {
		order[r.Role] = i
	}
	for _, test := range []struct {
		least                grapnel.Role
		method, target, body string
	}{
		{grapnel.RoleViewer, "GET", "/v1/endpoints/" + mine.endpoint, ""},
		{grapnel.RoleViewer, "GET", "/v1/audit", ""},
		{grapnel.RoleOperator, "POST", "/v1/endpoints/" + mine.endpoint + "/resume", `{}`},
		{grapnel.RoleOperator, "POST", "/v1/endpoints/" + mine.endpoint + "/pause", `{}`},
		{grapnel.RoleOperator, "POST", "/v1/endpoints/" + mine.endpoint + "/probe", `{}`},
		{grapnel.RoleOperator, "POST", "/v1/endpoints/" + mine.endpoint + "/test", `{}`},
		{grapnel.RoleOperator, "POST", "/v1/queues/orders/pause", `{}`},
		{grapnel.RoleOperator, "POST", "/v1/queues/orders/resume", `{}`},
		{grapnel.RoleOperator, "PATCH", "/v1/deliveries/" + mine.dead, `{"note":"seen"}`},
		{grapnel.RoleDeveloper, "POST", "/v1/queues/orders/purge", `{"confirm":"orders"}`},
		{grapnel.RoleDeveloper, "PATCH", "/v1/endpoints/" + mine.endpoint, `{"description":"x"}`},
		{grapnel.RoleDeveloper, "POST", "/v1/endpoints", `{"url":"https://b.example/"}`},
		{grapnel.RoleDeveloper, "POST", "/v1/policies", `{"name":"mine"}`},
		{grapnel.RoleDeveloper, "POST", "/v1/events", `{"type":"a.b","data":1}`},
		{grapnel.RoleDeveloper, "DELETE", "/v1/tenants/acme/portal-links", ""},
		{grapnel.RoleAdmin, "GET", "/v1/keys", ""},
		{grapnel.RoleAdmin, "POST", "/v1/keys", `{"name":"k","scopes":["read"]}`},
	} {
		for _, r := range grapnel.Roles() {
			got := w.ask(w.person(r.Role), test.method, test.target, test.body)
			if (got.StatusCode != 403) != (order[r.Role] >= order[test.least]) || got.StatusCode == 401 || got.StatusCode == 500 {
				t.Errorf("%s: %s %s: answered %d %s", r.Role, test.method, test.target, got.StatusCode, got.body)
			}
		}
	}
	for _, test := range []struct {
		pass string
		want string
	}{
		{w.person(grapnel.RoleViewer), `"role":"viewer","payloads":false`},
		{w.person(grapnel.RoleViewer, grapnel.ScopePayloadRead), `"role":"viewer","payloads":true`},
		{w.person(grapnel.RoleOperator), `"role":"operator","payloads":true`},
		{acmeAdmin, `"payloads":true`},
	} {
		if got := w.ask(test.pass, "GET", "/v1/whoami", ""); got.StatusCode != 200 || !strings.Contains(string(got.body), test.want) {
			t.Errorf("whoami: %d %s; want %s", got.StatusCode, got.body, test.want)
		}
	}
	if got := w.ask(acmeAdmin, "GET", "/v1/whoami", ""); strings.Contains(string(got.body), `"role"`) {
		t.Errorf("a key has a role: %s", got.body)
	}
}

// TestTheAuditNamesThePerson: by the subject of the pass, whichever of its passes it was.
func TestTheAuditNamesThePerson(t *testing.T) {
	w := newWorld(t)
	mine := w.settle(acmeAdmin, "mine")
	w.as(w.person(grapnel.RoleOperator), 200, "POST", "/v1/endpoints/"+mine.endpoint+"/resume", `{"reason":"mended"}`)
	var found struct {
		Data []struct{ Actor, Verb, Reason string }
	}
	if err := json.Unmarshal(w.ask(acmeAdmin, "GET", "/v1/audit?limit=1", "").body, &found); err != nil {
		t.Fatal(err)
	}
	if len(found.Data) != 1 || found.Data[0].Actor != "person/operator" || found.Data[0].Reason != "mended" {
		t.Errorf("the audit has %+v", found.Data)
	}
}
