package store

import (
	"errors"
	"slices"
	"strings"

	"github.com/grapnelhq/grapnel"
)

// Scope limits a call to one tenant's data, or to none. It can only be made by Of, Everyone and
// Only; the zero Scope allows nothing, so a query that forgot its tenant finds nothing instead of
// everything.
type Scope struct {
	tenant   string
	everyone bool
	only     *[]string // sorted ids of endpoints; nil: all
	customer bool      // alerts and channels are hidden
}

// Of is the scope of one tenant.
func Of(tenant string) Scope { return Scope{tenant: tenant} }

// Everyone is the scope of callers that are bound to no tenant: the server itself and keys without
// tenant.
func Everyone() Scope { return Scope{everyone: true} }

// Only is the part of the scope of one tenant that some of its endpoints have. No store knows such
// scopes: one that gets it finds nothing, because it allows no tenant as a whole. Who wants to see
// something has to ask for its endpoint by Covers, and then goes on with Whole. So a query that
// forgot the endpoints finds nothing instead of everything.
func (s Scope) Only(endpoints []string) Scope {
	sorted := slices.Sorted(slices.Values(endpoints))
	s.only = &sorted
	return s
}

// WithoutAlerts is the scope of a customer: alerts, and the channels that they go to, are the
// tenant's own and look absent. Stores do not know of it. For hides channels, and readers of lists
// leave alerts out by Hides.
func (s Scope) WithoutAlerts() Scope {
	s.customer = true
	return s
}

// HidesAlerts says whether alerts and channels are hidden.
func (s Scope) HidesAlerts() bool { return s.customer }

// Hides says whether a delivery of an event type to an endpoint is hidden. A tenant's webhook may
// subscribe to alerts as well, so the type counts and not only the endpoint.
func (s Scope) Hides(eventType, endpoint string) bool {
	return s.customer && (grapnel.IsAlert(eventType) || isChannel(endpoint))
}

// isChannel says whether an id is a channel's: only channels get ids with the prefix.
func isChannel(id string) bool { return strings.HasPrefix(id, grapnel.ChannelPrefix+"_") }

// Limited returns the endpoints of a scope that was limited to some, sorted.
func (s Scope) Limited() (endpoints []string, limited bool) {
	if s.only == nil {
		return nil, false
	}
	return *s.only, true
}

// Whole is the scope without a limit to endpoints.
func (s Scope) Whole() Scope {
	s.only = nil
	return s
}

// For is the scope for a question about one endpoint; false: the scope is limited to others, or the
// endpoint is a channel that is hidden.
func (s Scope) For(endpoint string) (Scope, bool) {
	if s.customer && isChannel(endpoint) {
		return s.Whole(), false
	}
	if s.only == nil {
		return s, true
	}
	_, there := slices.BinarySearch(*s.only, endpoint)
	return s.Whole(), there
}

// Covers says whether an endpoint of a tenant is in scope.
func (s Scope) Covers(tenant, endpoint string) bool {
	whole, covered := s.For(endpoint)
	return covered && whole.Allows(tenant)
}

// Allows says whether the scope covers a tenant, with all that it has.
func (s Scope) Allows(tenant string) bool {
	return s.only == nil && (s.everyone || s.tenant != "" && s.tenant == tenant)
}

// One returns the tenant of a scope that covers only one. A zero Scope, or one that is limited to
// endpoints, covers only the tenant "", which no tenant has.
func (s Scope) One() (tenant string, one bool) {
	if s.only != nil {
		return "", true
	}
	return s.tenant, !s.everyone
}

// Narrow combines the scope with a tenant asked for; empty means any tenant, in the argument and in
// the result. false: the call may see nothing.
func (s Scope) Narrow(tenant string) (only string, some bool) {
	if mine, one := s.One(); one && tenant == "" {
		tenant = mine
	}
	return tenant, s.Allows(tenant)
}

// ErrStale is returned by Append, Record and PutEndpoint if the configuration has changed since a
// batch was matched. Nothing was written.
var ErrStale = errors.New("store: the configuration has changed")

// ErrSeveral is returned by Event if several tenants have an event with the id, and the call names
// none of them.
var ErrSeveral = grapnel.Invalid("?tenant", "must name a tenant, because several have an event with this id")

// ErrNotFound is the error for an object that is absent or out of scope; a caller cannot tell
// which.
func ErrNotFound(what string) error {
	return grapnel.Errorf(grapnel.CodeNotFound, "%s not found", what)
}
