package api

import (
	"fmt"
	"strings"
	"testing"
)

// TestTenants: the list is of those that have anything, page by page, for keys of all tenants.
func TestTenants(t *testing.T) {
	w := newWorld(t)
	for _, tenant := range []string{"globex", "acme", "initech", "acme"} {
		w.must(201, "POST", "/v1/endpoints", fmt.Sprintf(`{"url":"https://a.example","tenant":%q}`, tenant))
	}
	var names []string
	for at := "/v1/tenants?limit=2"; at != ""; {
		page := w.must(200, "GET", at, "")
		for _, one := range page["data"].([]any) {
			names = append(names, one.(map[string]any)["tenant"].(string))
		}
		at = ""
		if next, more := page["next"].(string); more {
			at = "/v1/tenants?limit=2&cursor=" + next
		}
	}
	if got := strings.Join(names, " "); got != "acme globex initech" {
		t.Errorf("listed as %s", got)
	}
	if r := w.ask(acmeAdmin, "GET", "/v1/tenants", ""); r.StatusCode != 403 {
		t.Errorf("with a key of one tenant: answered %d %s", r.StatusCode, r.body)
	}
}

// A test of an endpoint is its tenant's, whatever key asks for it.
func TestTestIsOfTheEndpointsTenant(t *testing.T) {
	w := newWorld(t)
	ep := w.must(201, "POST", "/v1/endpoints", `{"url":"https://a.example","tenant":"acme"}`)
	w.must(200, "POST", "/v1/endpoints/"+ep["id"].(string)+"/test", `{}`)
	if d := w.only(); d.Tenant != "acme" {
		t.Errorf("it is a delivery of %s", d.Tenant)
	}
}
