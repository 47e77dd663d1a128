package oidc

import (
	"encoding/json"
	"testing"

	"github.com/grapnelhq/grapnel"
)

func claimsOf(t *testing.T, text string) Claims {
	t.Helper()
	var c Claims
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestGrants: the first rule whose conditions a person meets counts, an address counts only if it
// is verified, and no person gets rights by default.
func TestGrants(t *testing.T) {
	m := Mapping{Groups: "realm.roles", Tenant: "https://example.com/tenant", Rules: []Rule{
		{Group: "admins", Role: grapnel.RoleAdmin, Tenant: AllTenants},
		{Group: "ops", Domain: "Example.com", Role: grapnel.RoleOperator, Tenant: "acme"},
		{Email: "kim@example.com", Role: grapnel.RoleViewer, Payloads: true, Tenant: "acme"},
		{Domain: "example.com", Role: grapnel.RoleViewer},
	}}
	for name, test := range map[string]struct {
		claims string
		want   Grant
		why    Why
	}{
		"admin":            {`{"realm":{"roles":["x","admins"]}}`, Grant{Role: grapnel.RoleAdmin}, ""},
		"one group":        {`{"realm":{"roles":"admins"}}`, Grant{Role: grapnel.RoleAdmin}, ""},
		"part of a group":  {`{"realm":{"roles":["admins2","my admins"]}}`, Grant{}, NoRole},
		"both":             {`{"realm":{"roles":["ops"]},"email":"a@EXAMPLE.com","email_verified":true}`, Grant{Role: grapnel.RoleOperator, Tenant: "acme"}, ""},
		"one of both":      {`{"realm":{"roles":["ops"]},"email":"a@other.com","email_verified":true}`, Grant{}, NoRole},
		"not verified":     {`{"email":"kim@example.com"}`, Grant{}, NoRole},
		"denied":           {`{"email":"kim@example.com","email_verified":false}`, Grant{}, NoRole},
		"two addresses":    {`{"email":"kim@evil.com@example.com","email_verified":true}`, Grant{}, NoRole},
		"a kelvin sign":    {"{\"email\":\"\u212aim@example.com\",\"email_verified\":true,\"https://example.com/tenant\":\"globex\"}", Grant{Role: grapnel.RoleViewer, Tenant: "globex"}, ""},
		"an address":       {`{"email":"Kim@example.com","email_verified":"true"}`, Grant{Role: grapnel.RoleViewer, Tenant: "acme", Payloads: true}, ""},
		"its tenant":       {`{"email":"a@example.com","email_verified":true,"https://example.com/tenant":"globex"}`, Grant{Role: grapnel.RoleViewer, Tenant: "globex"}, ""},
		"no tenant":        {`{"email":"a@example.com","email_verified":true}`, Grant{}, NoTenant},
		"all tenants":      {`{"email":"a@example.com","email_verified":true,"https://example.com/tenant":"*"}`, Grant{}, NoTenant},
		"tenants":          {`{"email":"a@example.com","email_verified":true,"https://example.com/tenant":["acme","globex"]}`, Grant{}, NoTenant},
		"an empty tenant":  {`{"email":"a@example.com","email_verified":true,"https://example.com/tenant":""}`, Grant{}, NoTenant},
		"below a domain":   {`{"email":"a@sub.example.com","email_verified":true}`, Grant{}, NoRole},
		"nothing":          {`{}`, Grant{}, NoRole},
		"null":             {`{"realm":null,"email":null,"email_verified":null}`, Grant{}, NoRole},
		"groups of groups": {`{"realm":{"roles":[["admins"]]}}`, Grant{}, NoRole},
	} {
		g, err := m.Grant(claimsOf(t, test.claims))
		if g != test.want || WhyOf(err) != test.why {
			t.Errorf("%s: %+v, %v", name, g, err)
		}
	}
	single := Mapping{Rules: []Rule{{Anyone: true, Role: grapnel.RoleViewer}}}
	if g, err := single.Grant(Claims{}); err != nil || g != (Grant{Role: grapnel.RoleViewer}) {
		t.Errorf("anyone: %+v, %v", g, err)
	}
	if _, err := (&Mapping{Rules: []Rule{{Role: grapnel.RoleAdmin}}}).Grant(Claims{}); WhyOf(err) != NoRole {
		t.Errorf("a rule without conditions: %v", err)
	}
}
