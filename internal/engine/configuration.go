package engine

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/core"
	"github.com/grapnelhq/grapnel/internal/match"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// configuration is everything operators have set, at one version. It is never changed: a change makes the next one, which
// costs copying a list and not reading and decoding all of it again.
type configuration struct {
	version   int64
	newest    int64     // delivery when it was made
	endpoints []*placed // sorted by id; the deleted ones included until they are forgotten
	sources   []grapnel.Source
	policies  []grapnel.NamedPolicy
	keys      []grapnel.Key
	byHash    map[[32]byte]int // into keys
	routes    *routes
	queues    int // endpoints that are one
	tenancies map[string]grapnel.Tenancy
}

// placed is an endpoint as it stands in configurations, ready for use. It is never changed, and shared by all configurations in which it is the
// same: so one change among thousands of endpoints costs a copy of their addresses.
type placed struct {
	grapnel.Endpoint              // its policy is resolved
	target           store.Target // what an event makes for it
}

// newConfiguration makes the first one. broken hears of filters that do not compile any more: their endpoints match nothing.
func newConfiguration(c store.Config, broken func(error)) *configuration {
	none := &configuration{routes: newRoutes(&match.Router{}, nil, broken)}
	return none.next(whole(c))
}

// whole is a configuration as changes of an empty one.
func whole(c store.Config) store.ConfigChanges {
	d := store.ConfigChanges{Version: c.Version, Newest: c.Newest, Tenancies: c.Tenancies}
	d.Endpoints.Written, d.Sources.Written, d.Policies.Written, d.Keys.Written = c.Endpoints, c.Sources, c.Policies, c.Keys
	return d
}

// replaced is the configuration that was read anew. What is the same in both was prepared before.
func (c *configuration) replaced(by store.Config) *configuration {
	d := whole(by)
	d.Endpoints.Removed = lacking(c.endpoints, by.Endpoints, placedID, endpointID)
	d.Sources.Removed = lacking(c.sources, by.Sources, sourceID, sourceID)
	d.Policies.Removed = lacking(c.policies, by.Policies, policyID, policyID)
	d.Keys.Removed = lacking(c.keys, by.Keys, keyID, keyID)
	if d.Tenancies == nil {
		d.Tenancies = []grapnel.Tenancy{}
	}
	return c.next(d)
}

// lacking are the ids of a sorted list that another one does not have.
func lacking[T, U any](list []T, in []U, id func(*T) string, other func(*U) string) (ids []string) {
	for i := range list {
		if _, there := slices.BinarySearchFunc(in, id(&list[i]), byID(other)); !there {
			ids = append(ids, id(&list[i]))
		}
	}
	return ids
}

// next is the configuration after some changes. What they do not touch is taken over as it was prepared.
func (c *configuration) next(d store.ConfigChanges) *configuration {
	n := *c
	n.version, n.newest = d.Version, d.Newest
	n.sources, n.policies = d.Sources.Merge(c.sources, sourceID), d.Policies.Merge(c.policies, policyID)
	if keys := d.Keys; len(keys.Written)+len(keys.Removed) > 0 {
		n.setKeys(keys.Merge(c.keys, keyID))
	}
	if d.Tenancies != nil {
		n.setTenancies(d.Tenancies)
	}
	turned := c.policiesThat(&d.Policies)
	if len(d.Endpoints.Written)+len(d.Endpoints.Removed)+len(turned) > 0 {
		n.setEndpoints(&d.Endpoints, turned)
	}
	return &n
}

// policyName is a policy as endpoints name it.
type policyName struct{ tenant, name string }

// policiesThat are the policies that mean something else after some changes, by the names that they have or had.
func (c *configuration) policiesThat(changed *store.Edits[grapnel.NamedPolicy]) map[policyName]bool {
	all := map[policyName]bool{}
	was := func(id string) {
		if at, there := slices.BinarySearchFunc(c.policies, id, byID(policyID)); there {
			all[policyName{c.policies[at].Tenant, c.policies[at].Name}] = true
		}
	}
	for i := range changed.Written {
		p := &changed.Written[i]
		was(p.ID)
		all[policyName{p.Tenant, p.Name}] = true
	}
	for _, id := range changed.Removed {
		was(id)
	}
	return all
}

// setEndpoints makes the changes of the endpoints, and has them follow policies that have changed.
func (c *configuration) setEndpoints(d *store.Edits[grapnel.Endpoint], turned map[policyName]bool) {
	before := c.endpoints
	later := store.Edits[*placed]{Removed: d.Removed}
	for i := range d.Written {
		later.Written = append(later.Written, c.place(d.Written[i]))
	}
	if len(turned) > 0 {
		for _, ep := range before {
			_, written := slices.BinarySearchFunc(d.Written, ep.ID, byID(endpointID))
			_, removed := slices.BinarySearch(d.Removed, ep.ID)
			if turned[policyName{ep.Tenant, ep.PolicyName}] && !written && !removed {
				later.Written = append(later.Written, c.place(ep.Endpoint))
			}
		}
		slices.SortFunc(later.Written, func(a, b *placed) int { return strings.Compare(a.ID, b.ID) })
	}
	for _, id := range later.Removed {
		c.count(c.at(id), -1)
	}
	for _, ep := range later.Written {
		c.count(c.at(ep.ID), -1)
		c.count(&ep.Endpoint, 1)
	}
	c.endpoints = later.Merge(before, placedID)
	c.routes = c.routes.next(c)
}

// place makes an endpoint ready for use.
func (c *configuration) place(ep grapnel.Endpoint) *placed {
	p := &placed{Endpoint: ep}
	c.resolve(&p.Endpoint)
	p.target = target(&p.Endpoint)
	return p
}

// differs are the endpoints of which the core has to take in another configuration, because they or their policies have changed or their tenants
// have opened, and the queues that may hand out again, or not any more.
func (c *configuration) differs(before *configuration, opened map[string]bool) (changed []*grapnel.Endpoint, queues []string) {
	turned := c.policiesSince(before)
	quiet := len(opened)+len(turned) == 0
	was := 0
	gone := func() {
		if ep := before.endpoints[was]; ep.Queue != nil {
			queues = append(queues, ep.ID)
		}
		was++
	}
	for _, ep := range c.endpoints {
		if quiet && was < len(before.endpoints) && before.endpoints[was] == ep {
			was++
			continue // as are nearly all
		}
		for was < len(before.endpoints) && before.endpoints[was].ID < ep.ID {
			gone()
		}
		there := was < len(before.endpoints) && before.endpoints[was].ID == ep.ID
		same := there && before.endpoints[was].Revision == ep.Revision
		if !same || opened[ep.Tenant] || turned[policyName{ep.Tenant, ep.PolicyName}] {
			changed = append(changed, &ep.Endpoint)
		}
		if !same && ep.Queue != nil {
			queues = append(queues, ep.ID)
		}
		if there {
			was++
		}
	}
	for was < len(before.endpoints) {
		gone()
	}
	return changed, queues
}

// policiesSince are the policies that differ from another configuration's, by the names that they have or had.
func (c *configuration) policiesSince(before *configuration) map[policyName]bool {
	var d store.Edits[grapnel.NamedPolicy]
	for i := range c.policies {
		p := &c.policies[i]
		at, there := slices.BinarySearchFunc(before.policies, p.ID, byID(policyID))
		if !there || before.policies[at].Revision != p.Revision {
			d.Written = append(d.Written, *p)
		}
	}
	d.Removed = lacking(before.policies, c.policies, policyID, policyID)
	return before.policiesThat(&d)
}

// count adds an endpoint to the number of queues, or takes it away, if it is one. nil is none.
func (c *configuration) count(ep *grapnel.Endpoint, by int) {
	if ep != nil && ep.Queue != nil {
		c.queues += by
	}
}

// routes find the endpoints that want an event. They are prepared when the first event asks: while many changes follow each other nobody does.
type routes struct {
	before    *match.Router // of an earlier configuration, whose filters are compiled
	endpoints []*placed
	broken    func(error)
	once      sync.Once
	ready     atomic.Pointer[match.Router]
	audiences func() map[string]*audience // by tenant: who subscribes to operational events
}

// next are the routes of a later configuration.
func (r *routes) next(c *configuration) *routes {
	before := r.ready.Load()
	if before == nil {
		before = r.before
	}
	return newRoutes(before, c.endpoints, r.broken)
}

func newRoutes(before *match.Router, endpoints []*placed, broken func(error)) *routes {
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

func byID[T any](id func(*T) string) func(T, string) int {
	return func(one T, wanted string) int { return strings.Compare(id(&one), wanted) }
}

func endpointID(ep *grapnel.Endpoint) string { return ep.ID }
func placedID(p **placed) string             { return (*p).ID }
func sourceID(s *grapnel.Source) string      { return s.ID }
func policyID(p *grapnel.NamedPolicy) string { return p.ID }
func keyID(k *grapnel.Key) string            { return k.ID }

func (c *configuration) setKeys(keys []grapnel.Key) {
	c.keys, c.byHash = keys, make(map[[32]byte]int, len(keys))
	for i := range keys {
		c.byHash[keys[i].Hash] = i
	}
}

func target(ep *grapnel.Endpoint) store.Target {
	return store.Target{
		Endpoint: ep.ID, Ordered: ep.Ordering == grapnel.OrderByKey, Trigger: grapnel.TriggerSchedule,
		Delay: core.FirstDelay(&ep.Policy), Drop: ep.DropReason(), Uncounted: ep.Quiet(),
	}
}

// resolve puts the policy that an endpoint names into it. A name that means nothing any more (its policy was deleted by
// other means than the API, which refuses that) leaves the endpoint with the default policy rather than with none.
func (c *configuration) resolve(ep *grapnel.Endpoint) {
	if ep.PolicyName == "" {
		return
	}
	for i := range c.policies {
		if c.policies[i].Name == ep.PolicyName && c.policies[i].Tenant == ep.Tenant {
			ep.Policy = c.policies[i].Policy
			return
		}
	}
	if p, ok := policy.Preset(ep.PolicyName); ok {
		ep.Policy = p
		return
	}
	ep.Policy, _ = policy.Preset("standard")
}

// at returns an endpoint, deleted or not, or nil.
func (c *configuration) at(id string) *grapnel.Endpoint {
	at, there := slices.BinarySearchFunc(c.endpoints, id, byID(placedID))
	if !there {
		return nil
	}
	return &c.endpoints[at].Endpoint
}

// endpoint returns one that is not deleted and in scope, or nil.
func (c *configuration) endpoint(scope store.Scope, id string) *grapnel.Endpoint {
	ep := c.at(id)
	if ep == nil || !ep.DeletedAt.IsZero() || !scope.Allows(ep.Tenant) {
		return nil
	}
	return ep
}

// match returns the deliveries that an event makes at the endpoints that want it and may have it; nil:
// all may. With an error some are missing: see match.Router.
func (c *configuration) match(ev *grapnel.Event, may func(*grapnel.Endpoint) bool, b *match.Budget) ([]store.Target, error) {
	wanted, err := c.routes.router().Match(ev, b)
	targets := make([]store.Target, 0, len(wanted))
	for _, ep := range wanted {
		if may != nil && !may(ep) {
			continue
		}
		if at, there := slices.BinarySearchFunc(c.endpoints, ep.ID, byID(placedID)); there {
			targets = append(targets, c.endpoints[at].target)
		}
	}
	return targets, err
}
