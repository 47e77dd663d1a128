package store

import (
	"errors"
	"time"

	"github.com/grapnelhq/grapnel"
)

// Scope says whose data a call may touch. It can only be made by Of and Everyone; the zero Scope allows nothing, so a query
// that forgot its tenant finds nothing instead of everything.
type Scope struct {
	tenant   string
	everyone bool
}

// Of is the scope of one tenant.
func Of(tenant string) Scope { return Scope{tenant: tenant} }

// Everyone is the scope of callers that are bound to no tenant: the server itself and keys without tenant.
func Everyone() Scope { return Scope{everyone: true} }

// Allows says whether the scope covers a tenant.
func (s Scope) Allows(tenant string) bool {
	return s.everyone || s.tenant != "" && s.tenant == tenant
}

// One returns the tenant of a scope that covers only one. A zero Scope covers only the tenant "", which nobody is.
func (s Scope) One() (tenant string, one bool) { return s.tenant, !s.everyone }

// Narrow is the tenant whose things a call may see that asks for those of the given one; empty is any, on both sides. false: it may see
// nothing.
func (s Scope) Narrow(tenant string) (only string, some bool) {
	if mine, one := s.One(); one && tenant == "" {
		tenant = mine
	}
	return tenant, s.Allows(tenant)
}

// ErrStale is returned by Append, Record and PutEndpoint when the configuration has changed since a batch was matched. Nothing was
// written.
var ErrStale = errors.New("store: the configuration has changed")

// ErrSealed is returned by writes of what is of a tenant that is on its way to another cell, or has gone there (Moving). Nothing was written.
// Callers are told to come again: by then it is known where to.
var ErrSealed = &grapnel.Error{Code: grapnel.CodeUnavailable, Detail: "the tenant is on its way to another cell: try again", RetryAfter: time.Second}

// ErrSeveral is returned by Event when several tenants have an event with the id, and the call
// names none of them.
var ErrSeveral = grapnel.Invalid("?tenant", "must name a tenant, because several have an event with this id")

// ErrNotFound makes the error for something that is absent or out of scope; the two cannot be told apart.
func ErrNotFound(what string) error {
	return grapnel.Errorf(grapnel.CodeNotFound, "there is no such %s", what)
}
