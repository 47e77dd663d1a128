package oidc

import (
	"slices"
	"strings"

	"github.com/grapnelhq/grapnel"
)

// AllTenants as the tenant of a rule binds a person to no tenant.
const AllTenants = "*"

// Grant is what a person gets.
type Grant struct {
	Role     grapnel.Role
	Tenant   string // empty: all tenants
	Payloads bool
}

// claims lists the claims that the rules read.
func (m *Mapping) claims() []string {
	var names []string
	for _, r := range m.Rules {
		if r.Group != "" {
			names = append(names, m.Groups)
		}
		if r.Email != "" || r.Domain != "" {
			names = append(names, "email", "email_verified")
		}
		if r.Tenant == "" && m.Tenant != "" {
			names = append(names, m.Tenant)
		}
	}
	return names
}

// Grant finds the rights of a person. Its faults are NoRole and NoTenant: no person gets rights by
// default.
func (m *Mapping) Grant(c Claims) (Grant, error) {
	i := slices.IndexFunc(m.Rules, func(r Rule) bool { return r.meets(c, m.Groups) })
	if i < 0 {
		return Grant{}, fault(NoRole, "no rule gives the person a role")
	}
	r := &m.Rules[i]
	g := Grant{Role: r.Role, Tenant: r.Tenant, Payloads: r.Payloads}
	switch {
	case r.Tenant == AllTenants, r.Tenant == "" && m.Tenant == "":
		g.Tenant = ""
	case r.Tenant == "":
		tenant, _ := c.Text(m.Tenant)
		if !grapnel.BindsTenant(tenant) {
			return Grant{}, fault(NoTenant, "the claim with the person's tenant is missing, or is no tenant")
		}
		g.Tenant = tenant
	}
	return g, nil
}

func (r *Rule) meets(c Claims, groups string) bool {
	email, verified := c.Email()
	domain := email[strings.LastIndexByte(email, '@')+1:]
	switch {
	case r.Group == "" && r.Email == "" && r.Domain == "":
		return r.Anyone
	case r.Group != "" && !slices.Contains(c.Texts(groups), r.Group):
		return false
	case r.Email != "" && !(verified && lower(email) == lower(r.Email)):
		return false
	}
	return r.Domain == "" || verified && lower(domain) == lower(r.Domain)
}

// lower is for ASCII letters only: in Unicode other letters than k and s have k and s as lower
// case, so the address of another person could be equal.
func lower(text string) string {
	return strings.Map(func(c rune) rune {
		if 'A' <= c && c <= 'Z' {
			return c + 'a' - 'A'
		}
		return c
	}, text)
}
