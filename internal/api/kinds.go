package api

import (
	"net/http"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/api/strict"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/wire"
)

// Webhook endpoints, queues and channels are kinds of endpoints. All are created and listed here.

// newEndpoint begins an endpoint of the kind that the prefix of ids says, for the tenant that the
// body names.
func (a *api) newEndpoint(c *call, prefix, tenant string, f *strict.Faults) grapnel.Endpoint {
	return grapnel.Endpoint{ID: a.newID(prefix, c.now), CreatedAt: c.now, UpdatedAt: c.now,
		Tenant: c.tenant(optional{tenant, tenant != ""}, "/tenant", f)}
}

// create stores a new endpoint; view shows it in the answer.
func (a *api) create(c *call, ep grapnel.Endpoint, view func(*grapnel.Endpoint) any) (answer, error) {
	reply := func(done store.Put) answer {
		ep := ep
		ep.Revision = done.Revision
		return jsonAnswer(http.StatusCreated, view(&ep))
	}
	done, err := a.Engine.PutEndpoint(c.Context(), c.scope, ep,
		store.With{Once: withEffect(c, reply), Audit: c.entry(grapnel.VerbCreate, &ep, "")})
	return answered(done, done.Answer, err, reply)
}

// listOf lists endpoints of one kind in scope, by id, which is by age.
func listOf[V any](a *api, c *call, is func(*grapnel.Endpoint) bool, view func([]grapnel.Endpoint) ([]V, error)) (answer, error) {
	return listed(c, a.Engine.Endpoints(c.scope), func(ep *grapnel.Endpoint) (id, tenant string) {
		if !is(ep) {
			return "", ""
		}
		return ep.ID, ep.Tenant
	}, view)
}

// withHealth shows endpoints with their health.
func withHealth[V any](a *api, c *call, view func(*grapnel.Endpoint, wire.Health) V) func([]grapnel.Endpoint) ([]V, error) {
	return func(eps []grapnel.Endpoint) ([]V, error) {
		health, err := a.health(c, mostHeldListed, eps...)
		all := make([]V, len(health))
		for i := range health {
			all[i] = view(&eps[i], health[i])
		}
		return all, err
	}
}
