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

// configuration is everything operators have set, at one version. It is never changed: a change makes the next one, which
// costs copying a list and not reading and decoding all of it again.
type configuration struct {
	version   int64
	newest    int64              // delivery when it was made
	endpoints []grapnel.Endpoint // sorted by id, policies resolved; the deleted ones included until they are forgotten
	targets   []store.Target     // parallel to endpoints: what an event makes for each
	sources   []grapnel.Source
	policies  []grapnel.NamedPolicy
	keys      []grapnel.Key
	byHash    map[[32]byte]int // into keys
	router    *match.Router
	enabled   map[string]int // by tenant: endpoints that are
	queues    int            // endpoints that are one
	tenancies map[string]grapnel.Tenancy
}

// newConfiguration makes the first one. The error is about filters that do not compile any more; the configuration is
// complete even so, those endpoints match nothing.
func newConfiguration(c store.Config) (*configuration, error) {
	conf := &configuration{version: c.Version, newest: c.Newest, endpoints: c.Endpoints, sources: c.Sources, policies: c.Policies, router: &match.Router{}}
	for i := range conf.endpoints {
		conf.resolve(&conf.endpoints[i])
		conf.targets = append(conf.targets, target(&conf.endpoints[i]))
	}
	conf.setKeys(c.Keys)
	conf.setTenancies(c.Tenancies)
	return conf, conf.route()
}

// next is a copy to make one change to.
func (c *configuration) next(version, newest int64) *configuration {
	n := *c
	n.version, n.newest = version, newest
	return &n
}

// route prepares matching once the endpoints are as they shall be, reusing what was prepared before.
func (c *configuration) route() (err error) {
	c.enabled, c.queues = map[string]int{}, 0
	for i := range c.endpoints {
		if c.endpoints[i].Queue != nil {
			c.queues++
		}
		if ep := &c.endpoints[i]; ep.Status == grapnel.EndpointEnabled && ep.DeletedAt.IsZero() {
			c.enabled[ep.Tenant]++
		}
	}
	c.router, err = c.router.Next(c.endpoints)
	return err
}

func byID[T any](id func(*T) string) func(T, string) int {
	return func(one T, wanted string) int { return strings.Compare(id(&one), wanted) }
}

func endpointID(ep *grapnel.Endpoint) string { return ep.ID }
func sourceID(s *grapnel.Source) string      { return s.ID }
func policyID(p *grapnel.NamedPolicy) string { return p.ID }
func keyID(k *grapnel.Key) string            { return k.ID }

// with returns a copy of a sorted list in which one is new or replaced.
func with[T any](list []T, one T, id func(*T) string) []T {
	at, there := slices.BinarySearchFunc(list, id(&one), byID(id))
	list = slices.Clone(list)
	if there {
		list[at] = one
		return list
	}
	return slices.Insert(list, at, one)
}

// without returns a copy of a sorted list that lacks one.
func without[T any](list []T, wanted string, id func(*T) string) []T {
	at, there := slices.BinarySearchFunc(list, wanted, byID(id))
	if !there {
		return list
	}
	return slices.Delete(slices.Clone(list), at, at+1)
}

// setEndpoints replaces the endpoints, of which only the one named has changed.
func (c *configuration) setEndpoints(endpoints []grapnel.Endpoint, changed string) error {
	c.endpoints = endpoints
	targets := make([]store.Target, len(endpoints))
	for i := range endpoints {
		if ep := &c.endpoints[i]; ep.ID == changed {
			c.resolve(ep)
		}
		targets[i] = target(&c.endpoints[i])
	}
	c.targets = targets
	return c.route()
}

func (c *configuration) setKeys(keys []grapnel.Key) {
	c.keys, c.byHash = keys, make(map[[32]byte]int, len(keys))
	for i := range keys {
		c.byHash[keys[i].Hash] = i
	}
}

// setPolicies replaces the policies, of which one has changed, in the endpoints that name it as well. It returns their ids.
func (c *configuration) setPolicies(policies []grapnel.NamedPolicy, p grapnel.NamedPolicy) (followers []string, err error) {
	c.policies = policies
	c.endpoints, c.targets = slices.Clone(c.endpoints), slices.Clone(c.targets)
	for i := range c.endpoints {
		if ep := &c.endpoints[i]; ep.PolicyName == p.Name && ep.Tenant == p.Tenant {
			c.resolve(ep)
			c.targets[i] = target(ep)
			followers = append(followers, ep.ID)
		}
	}
	return followers, c.route()
}

func target(ep *grapnel.Endpoint) store.Target {
	return store.Target{
		Endpoint: ep.ID, Ordered: ep.Ordering == grapnel.OrderByKey, Trigger: grapnel.TriggerSchedule,
		Delay: core.FirstDelay(&ep.Policy), Drop: ep.DropReason(),
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
	at, there := slices.BinarySearchFunc(c.endpoints, id, byID(endpointID))
	if !there {
		return nil
	}
	return &c.endpoints[at]
}

// endpoint returns one that is not deleted and in scope, or nil.
func (c *configuration) endpoint(scope store.Scope, id string) *grapnel.Endpoint {
	ep := c.at(id)
	if ep == nil || !ep.DeletedAt.IsZero() || !scope.Allows(ep.Tenant) {
		return nil
	}
	return ep
}

// match returns the deliveries that an event makes at the endpoints that want it and may have it; nil: all may.
func (c *configuration) match(ev *grapnel.Event, may func(*grapnel.Endpoint) bool) []store.Target {
	wanted := c.router.Match(ev)
	targets := make([]store.Target, 0, len(wanted))
	for _, ep := range wanted {
		if may != nil && !may(ep) {
			continue
		}
		if at, there := slices.BinarySearchFunc(c.endpoints, ep.ID, byID(endpointID)); there {
			targets = append(targets, c.targets[at])
		}
	}
	return targets
}
