package api

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
)

// town is where tenants are, for one server with the cells home and west: globex is on its way,
// initech has gone to a cell that is not served.
type town struct{ moved []string }

func (*town) List(context.Context) ([]grapnel.Residence, error) {
	return []grapnel.Residence{
		{Tenant: "acme", Cell: "home", State: grapnel.TenancyHere},
		{Tenant: "globex", Cell: "home", State: grapnel.TenancySealed, To: "west", Move: "mov_1", Rows: 1200},
		{Tenant: "initech", Cell: "far", State: grapnel.TenancyGone, From: "home", Move: "mov_2"},
	}, nil
}

func (o *town) Where(tenant string) grapnel.Residence {
	all, _ := o.List(context.Background())
	for _, r := range all {
		if r.Tenant == tenant {
			return r
		}
	}
	return grapnel.Residence{Tenant: tenant, Cell: "home", State: grapnel.TenancyHere}
}

func (o *town) Move(_ context.Context, tenant, to string, by grapnel.By) (grapnel.Residence, error) {
	if to != "west" {
		return grapnel.Residence{}, grapnel.Invalid("/to", "there is no cell %q", to)
	}
	o.moved = append(o.moved, strings.Join([]string{"move", tenant, to, by.Actor, by.Reason}, " "))
	return grapnel.Residence{Tenant: tenant, Cell: "home", State: grapnel.TenancyClosing, To: to, Move: "mov_3"}, nil
}

func (o *town) Stay(_ context.Context, tenant string, by grapnel.By) (grapnel.Residence, error) {
	o.moved = append(o.moved, strings.Join([]string{"stay", tenant, by.Actor, by.Reason}, " "))
	return grapnel.Residence{Tenant: tenant, Cell: "home", State: grapnel.TenancyHere, Move: "mov_1"}, nil
}

func TestTenants(t *testing.T) {
	var o town
	w := newWorld(t, func(options *Options) { options.Tenants = &o })
	for _, c := range []struct {
		method, target, body string
		status               int
		want                 string
	}{
		{"GET", "/v1/tenants?limit=1", "", 200,
			`{"tenant":"acme","cell":"home","state":"here","to":null,"from":null,"move":null,"since":null,"rows":0,"trouble":null}`},
		{"GET", "/v1/tenants", "", 200, `"next":null`},
		{"GET", "/v1/tenants/globex", "", 200, `"state":"sealed","to":"west","from":null,"move":"mov_1","since":null,"rows":1200`},
		{"GET", "/v1/tenants/initech", "", 200, `"cell":"far","state":"gone"`},
		{"GET", "/v1/tenants/nobody", "", 200, `"cell":"home","state":"here"`},
		{"GET", "/v1/tenants/no%20body", "", 404, `"not_found"`},
		{"POST", "/v1/tenants/acme/move", `{"to":"west","reason":"it is large"}`, 202, `"state":"closing","to":"west"`},
		{"POST", "/v1/tenants/acme/move", `{"to":"east"}`, 422, `"pointer":"/to"`},
		{"POST", "/v1/tenants/acme/move", `{}`, 422, `"pointer":"/to"`},
		{"DELETE", "/v1/tenants/globex/move?reason=not+today", "", 200, `"state":"here"`},
	} {
		if r := w.ask(admin, c.method, c.target, c.body); r.StatusCode != c.status || !strings.Contains(string(r.body), c.want) {
			t.Errorf("%s %s: answered %d %s, want %d with %s", c.method, c.target, r.StatusCode, r.body, c.status, c.want)
		}
		if r := w.ask(acmeAdmin, c.method, c.target, c.body); r.StatusCode != 403 {
			t.Errorf("%s %s with a key of one tenant: answered %d %s", c.method, c.target, r.StatusCode, r.body)
		}
	}
	if got, want := strings.Join(o.moved, "; "), "move acme west key_admin it is large; stay globex key_admin not today"; got != want {
		t.Errorf("asked for %s, want %s", got, want)
	}
}

// A server that has no other cell has no cells to ask.
func TestTenantsOfNobody(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Tenants = nil })
	if r := w.ask(admin, "GET", "/v1/tenants", ""); r.StatusCode != 503 {
		t.Errorf("answered %d %s", r.StatusCode, r.body)
	}
}

// elsewhere has acme in the cell west, and keys that are bound to no tenant there as well.
func elsewhere(o *Options) {
	o.Away = func(tenant string) error {
		if tenant == "acme" || tenant == "" {
			return &grapnel.Error{Code: grapnel.CodeMoved, Detail: "Tenant " + tenant + " is in cell west.", Cell: "west"}
		}
		return nil
	}
}

// Whatever a request says of a tenant that is in another cell, it is told where, and nothing has
// happened. A request that is wrong as well is told the same: there it may be right.
func TestTenantInAnotherCell(t *testing.T) {
	gone, judged := false, 0
	w := newWorld(t, func(o *Options) {
		elsewhere(o)
		o.Published = func(bool, time.Duration, string) { judged++ }
		o.Served = func(bool, time.Duration) { judged++ }
		away := o.Away
		o.Away = func(tenant string) error {
			if !gone {
				return nil
			}
			return away(tenant)
		}
	})
	// What it has left behind is found there no more.
	left := w.must(202, "POST", "/v1/events", `{"type":"a","data":1,"tenant":"acme"}`)["id"].(string)
	ep := w.must(201, "POST", "/v1/endpoints", `{"url":"https://a.example","tenant":"acme"}`)
	d := w.must(200, "POST", "/v1/endpoints/"+ep["id"].(string)+"/test", `{}`)["id"].(string)
	gone, judged = true, 0
	before := w.dump()
	for _, c := range []struct{ key, method, target, body string }{
		{admin, "POST", "/v1/events", `{"type":"a","data":1,"tenant":"acme"}`},
		{admin, "POST", "/v1/events/raw?type=a&tenant=acme", `1`},
		{admin, "POST", "/v1/events/batch", `{"events":[{"type":"a","data":1},{"type":"a","data":1,"tenant":"acme"}]}`},
		{admin, "POST", "/v1/endpoints", `{"url":"https://a.example","tenant":"acme"}`},
		{admin, "POST", "/v1/endpoints", `{"url":"https://a.example","tenant":"acme","policy":"of-acme"}`},
		{admin, "POST", "/v1/queues", `{"name":"q","tenant":"acme"}`},
		{admin, "POST", "/v1/sources", `{"name":"s","verify":{"scheme":"none"},"tenant":"acme"}`},
		{admin, "POST", "/v1/policies", `{"name":"p","tenant":"acme"}`},
		{admin, "POST", "/v1/keys", `{"name":"k","scopes":["read"],"tenant":"acme"}`},
		{admin, "POST", "/v1/keys", `{"name":"k","scopes":["read"]}`},
		{admin, "DELETE", "/v1/sessions?subject=person/jane", ""},
		{admin, "GET", "/v1/deliveries?tenant=acme", ""},
		{admin, "GET", "/v1/endpoints?tenant=acme", ""},
		{admin, "GET", "/v1/queues/orders?tenant=acme", ""},
		{admin, "GET", "/v1/events/" + left, ""},
		{admin, "GET", "/v1/deliveries/" + d, ""},
		{admin, "POST", "/v1/deliveries/" + d + "/retry", ""},
		{acmeAdmin, "GET", "/v1/endpoints", ""},
		{acmeAdmin, "GET", "/v1/deliveries/dlv_none", ""},
		{acmeAdmin, "POST", "/v1/events", `{"type":"a","data":1}`},
		{acmeAdmin, "POST", "/v1/events", `not JSON at all`},
	} {
		for range 2 { // the second time with the same idempotency key
			r := w.ask(c.key, c.method, c.target, c.body, "Idempotency-Key", "once")
			if r.StatusCode != 421 || r.Header.Get("Grapnel-Cell") != "west" || r.object(t)["code"] != "moved" ||
				r.Header.Get("Idempotency-Replayed") != "" {
				t.Errorf("%s %s %s: answered %d %v %s", c.method, c.target, c.body, r.StatusCode, r.Header, r.body)
			}
		}
	}
	if after := w.dump(); after != before {
		t.Errorf("something has changed: %s", after)
	}
	if judged > 0 {
		t.Errorf("%d answers are judged that another cell gives", judged)
	}
	// Others are here.
	w.must(202, "POST", "/v1/events", `{"type":"a","data":1,"tenant":"globex"}`)
	ep = w.must(201, "POST", "/v1/endpoints", `{"url":"https://a.example","tenant":"globex"}`)
	w.must(200, "POST", "/v1/endpoints/"+ep["id"].(string)+"/test", `{}`)
}

// A test of an endpoint is its tenant's, whatever key asks for it.
func TestTestIsOfTheEndpointsTenant(t *testing.T) {
	w := newWorld(t, func(o *Options) {
		o.Away = func(tenant string) error {
			if tenant != "acme" {
				return &grapnel.Error{Code: grapnel.CodeMoved, Cell: "home"}
			}
			return nil
		}
	})
	ep := w.must(201, "POST", "/v1/endpoints", `{"url":"https://a.example","tenant":"acme"}`)
	w.must(200, "POST", "/v1/endpoints/"+ep["id"].(string)+"/test", `{}`)
}

func TestCellThatIsNamed(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Cell = "west" })
	for _, c := range []struct {
		key, name string
		status    int
	}{{admin, "west", 200}, {admin, "", 200}, {admin, "home", 400}, {admin, "nowhere", 400}, {acmeAdmin, "nowhere", 200}} {
		r := w.ask(c.key, http.MethodGet, "/v1/endpoints", "", "Grapnel-Cell", c.name)
		if r.StatusCode != c.status {
			t.Errorf("%s with %q: answered %d %s", c.key, c.name, r.StatusCode, r.body)
		}
		if c.status == 400 && !strings.Contains(string(r.body), `"pointer":"Grapnel-Cell"`) {
			t.Errorf("the problem does not name the header: %s", r.body)
		}
	}
}
