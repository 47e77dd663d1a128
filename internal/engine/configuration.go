package engine

import (
	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/core"
	"github.com/grapnelhq/grapnel/internal/match"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// configuration is everything operators have set, at one version. It is never changed: a change makes a new one.
type configuration struct {
	version   int64
	newest    int64              // delivery when it was read
	endpoints []grapnel.Endpoint // sorted by id, policies resolved; the deleted ones included until they are forgotten
	policies  []grapnel.NamedPolicy
	keys      []grapnel.Key
	byID      map[string]*grapnel.Endpoint
	byHash    map[[32]byte]int        // into keys
	targets   map[string]store.Target // what an event makes for each endpoint
	router    *match.Router
}

// newConfiguration resolves policies and prepares matching, reusing what the configuration before has prepared. The error is
// about filters that do not compile any more; the configuration is complete even so, those endpoints match nothing.
func newConfiguration(c store.Config, before *configuration) (*configuration, error) {
	conf := &configuration{
		version: c.Version, newest: c.Newest, endpoints: c.Endpoints, policies: c.Policies, keys: c.Keys,
		byID: make(map[string]*grapnel.Endpoint, len(c.Endpoints)), byHash: make(map[[32]byte]int, len(c.Keys)),
		targets: make(map[string]store.Target, len(c.Endpoints)),
	}
	for i := range c.Endpoints {
		ep := &c.Endpoints[i]
		conf.resolve(ep)
		conf.byID[ep.ID] = ep
		conf.targets[ep.ID] = store.Target{
			Endpoint: ep.ID, Ordered: ep.Ordering == grapnel.OrderByKey, Trigger: grapnel.TriggerSchedule,
			Delay: core.FirstDelay(&ep.Policy), Drop: ep.DropReason(),
		}
	}
	for i := range c.Keys {
		conf.byHash[c.Keys[i].Hash] = i
	}
	var err error
	if before == nil {
		conf.router, err = match.NewRouter(conf.endpoints)
	} else {
		conf.router, err = before.router.Next(conf.endpoints)
	}
	return conf, err
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

// endpoint returns one that is not deleted and in scope, or nil.
func (c *configuration) endpoint(scope store.Scope, id string) *grapnel.Endpoint {
	ep := c.byID[id]
	if ep == nil || !ep.DeletedAt.IsZero() || !scope.Allows(ep.Tenant) {
		return nil
	}
	return ep
}

// match returns the deliveries that an event makes.
func (c *configuration) match(ev *grapnel.Event) []store.Target {
	wanted := c.router.Match(ev)
	targets := make([]store.Target, len(wanted))
	for i, ep := range wanted {
		targets[i] = c.targets[ep.ID]
	}
	return targets
}
