package engine

import (
	"slices"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/core"
	"github.com/grapnelhq/grapnel/internal/match"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// configuration is everything operators have set, at one version. It is never changed: a change makes a new one.
type configuration struct {
	version   int64
	newest    int64               // delivery when it was read
	endpoints []*grapnel.Endpoint // sorted by id, policies resolved; the deleted ones included until they are forgotten
	policies  []grapnel.NamedPolicy
	keys      []grapnel.Key
	byID      map[string]*grapnel.Endpoint
	byHash    map[[32]byte]int // into keys
	router    *match.Router
}

// newConfiguration resolves policies and prepares matching.
func newConfiguration(c store.Config) (*configuration, error) {
	conf := &configuration{
		version: c.Version, newest: c.Newest, policies: c.Policies, keys: c.Keys,
		byID: make(map[string]*grapnel.Endpoint, len(c.Endpoints)), byHash: make(map[[32]byte]int, len(c.Keys)),
	}
	var wanted []grapnel.Endpoint
	for i := range c.Endpoints {
		ep := &c.Endpoints[i]
		conf.resolve(ep)
		conf.endpoints = append(conf.endpoints, ep)
		conf.byID[ep.ID] = ep
		if ep.DeletedAt.IsZero() {
			wanted = append(wanted, *ep)
		}
	}
	slices.SortFunc(conf.endpoints, func(a, b *grapnel.Endpoint) int { return strings.Compare(a.ID, b.ID) })
	for i := range c.Keys {
		conf.byHash[c.Keys[i].Hash] = i
	}
	var err error
	conf.router, err = match.NewRouter(wanted)
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

func (c *configuration) all() []*grapnel.Endpoint { return c.endpoints }

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
		targets[i] = store.Target{
			Endpoint: ep.ID, Ordered: ep.Ordering == grapnel.OrderByKey, Trigger: grapnel.TriggerSchedule,
			Delay: core.FirstDelay(&ep.Policy), Drop: ep.DropReason(),
		}
	}
	return targets
}
