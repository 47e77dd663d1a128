package configuration

import (
	"iter"
	"slices"
	"sync"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/match"
)

// next returns the routes of a later configuration.
func (r *routes) next(c *Snapshot) *routes {
	before := r.ready.Load()
	if before == nil {
		before = r.before
	}
	return newRoutes(before, c.endpoints, r.broken)
}

func newRoutes(before *match.Router, endpoints []*Placed, broken func(error)) *routes {
	return &routes{before: before, endpoints: endpoints, broken: broken,
		audiences: sync.OnceValue(func() map[string]*audience { return audiences(endpoints) })}
}

func (r *routes) router() *match.Router {
	r.once.Do(func() {
		endpoints := make([]*grapnel.Endpoint, len(r.endpoints))
		for i, ep := range r.endpoints {
			endpoints[i] = &ep.Endpoint
		}
		router, err := r.before.Next(endpoints)
		if err != nil {
			r.broken(err)
		}
		r.ready.Store(router)
	})
	return r.ready.Load()
}

// audiences finds the audience of every tenant that has one. It reads subscriptions only; filters
// run when there is an event.
func audiences(endpoints []*Placed) map[string]*audience {
	all := map[string]*audience{}
	for _, ep := range endpoints {
		if ep.Status != grapnel.EndpointEnabled || !ep.DeletedAt.IsZero() || ep.Source != "" {
			continue
		}
		for n, kind := range operational {
			subscribes := func(pattern string) bool { return grapnel.MatchType(pattern, kind) }
			if len(ep.EventTypes) > 0 && !slices.ContainsFunc(ep.EventTypes, subscribes) {
				continue
			}
			a := all[ep.Tenant]
			if a == nil {
				a = &audience{}
				all[ep.Tenant] = a
			}
			if a[n].one == "" {
				a[n].one = ep.ID
			} else {
				a[n].another = ep.ID
			}
		}
	}
	return all
}

// Wanted says whether another endpoint of the tenant, or a queue, subscribes to any of the types of
// news about an endpoint.
func (c *Snapshot) Wanted(ep *grapnel.Endpoint, types iter.Seq[string]) bool {
	a := c.routes.audiences()[ep.Tenant]
	if a == nil || ep.Quiet() {
		return false
	}
	for kind := range types {
		n := slices.Index(operational[:], kind)
		if n >= 0 && (a[n].another != "" || a[n].one != "" && a[n].one != ep.ID) {
			return true
		}
	}
	return false
}
