package configuration

import (
	"slices"
	"sort"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/match"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// replaced returns the configuration that was read as a whole. Unchanged parts keep their
// preparation.
func (c *Snapshot) replaced(by store.Config) *Snapshot {
	d := store.ConfigChanges{Version: by.Version, Newest: by.Newest,
		Endpoints: store.Edits[grapnel.Endpoint]{Written: by.Endpoints, Removed: lacking(c.endpoints, by.Endpoints, placedID, endpointID)},
		Sources:   store.Edits[grapnel.Source]{Written: by.Sources, Removed: lacking(c.sources, by.Sources, sourceID, sourceID)},
		Policies:  store.Edits[grapnel.NamedPolicy]{Written: by.Policies, Removed: lacking(c.policies, by.Policies, policyID, policyID)},
		Types:     store.Edits[grapnel.EventType]{Written: by.Types, Removed: lacking(c.types, by.Types, typeID, typeID)},
		Keys:      store.Edits[grapnel.Key]{Written: by.Keys, Removed: lacking(c.keys, by.Keys, keyID, keyID)},
		Access:    store.Edits[grapnel.AccessRecord]{Written: by.Access, Removed: lacking(c.access, by.Access, accessID, accessID)}}
	return c.next(d)
}

// lacking returns the ids of a sorted list that another list lacks.
func lacking[T, U any](list []T, in []U, id func(*T) string, other func(*U) string) (ids []string) {
	for i := range list {
		if find(in, id(&list[i]), other) == nil {
			ids = append(ids, id(&list[i]))
		}
	}
	return ids
}

// next is the configuration after some changes. Untouched parts keep their preparation.
func (c *Snapshot) next(d store.ConfigChanges) *Snapshot {
	n := *c
	n.Version, n.Newest = d.Version, d.Newest
	n.sources, n.policies = d.Sources.Merge(c.sources, sourceID), d.Policies.Merge(c.policies, policyID)
	if access := d.Access; len(access.Written)+len(access.Removed) > 0 {
		n.setAccess(access.Merge(c.access, accessID))
	}
	if keys := d.Keys; len(keys.Written)+len(keys.Removed) > 0 {
		n.setKeys(keys.Merge(c.keys, keyID))
	}
	if types := d.Types; len(types.Written)+len(types.Removed) > 0 {
		n.setTypes(types.Merge(c.types, typeID))
	}
	turned, ends := c.policiesThat(&d.Policies), n.endsSince(c)
	if len(d.Endpoints.Written)+len(d.Endpoints.Removed)+len(turned)+len(ends) > 0 {
		var again func(ep *grapnel.Endpoint) bool
		if len(turned)+len(ends) > 0 {
			again = func(ep *grapnel.Endpoint) bool {
				return turned[policyName{ep.Tenant, ep.PolicyName}] || slices.Contains(ends, ep.Tenant)
			}
		}
		n.setEndpoints(&d.Endpoints, again)
	}
	return &n
}

// policyName identifies a policy as endpoints do.
type policyName struct{ tenant, name string }

// policiesThat returns the names, old and new, of policies whose meaning some changes alter.
func (c *Snapshot) policiesThat(changed *store.Edits[grapnel.NamedPolicy]) map[policyName]bool {
	all := map[policyName]bool{}
	was := func(id string) {
		if p := find(c.policies, id, policyID); p != nil {
			all[policyName{p.Tenant, p.Name}] = true
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

// setEndpoints applies the changes of the endpoints, and prepares the others anew for which again
// is true, because their policy has changed or their tenant is being deleted; nil: none.
func (c *Snapshot) setEndpoints(d *store.Edits[grapnel.Endpoint], again func(*grapnel.Endpoint) bool) {
	before := c.endpoints
	later := store.Edits[*Placed]{Removed: d.Removed}
	for i := range d.Written {
		later.Written = append(later.Written, c.place(d.Written[i]))
	}
	if again != nil {
		for _, ep := range before {
			_, removed := slices.BinarySearch(d.Removed, ep.ID)
			if again(&ep.Endpoint) && !removed && find(d.Written, ep.ID, endpointID) == nil {
				later.Written = append(later.Written, c.place(ep.Endpoint))
			}
		}
		slices.SortFunc(later.Written, func(a, b *Placed) int { return strings.Compare(a.ID, b.ID) })
	}
	for _, id := range later.Removed {
		c.count(c.At(id), -1)
	}
	for _, ep := range later.Written {
		c.count(c.At(ep.ID), -1)
		c.count(&ep.Endpoint, 1)
	}
	c.endpoints = later.Merge(before, placedID)
	c.routes = c.routes.next(c)
}

// place prepares an endpoint for use.
func (c *Snapshot) place(ep grapnel.Endpoint) *Placed {
	p := &Placed{Endpoint: ep}
	c.resolve(&p.Endpoint)
	if c.Accepts(ep.Tenant) != nil && p.Status != grapnel.EndpointDisabled {
		p.Status, p.DisabledReason = grapnel.EndpointDisabled, "the tenant is being deleted"
	}
	p.Target = target(&p.Endpoint)
	return p
}

// Differs returns the endpoints that the core has to configure again, because they or their
// policies changed, the ids of those that were removed, and the queues that changed, were added or
// removed.
func (c *Snapshot) Differs(before *Snapshot) (changed []*grapnel.Endpoint, removed, queues []string) {
	turned := c.policiesSince(before)
	quiet := len(turned) == 0
	was := 0
	gone := func() {
		ep := before.endpoints[was]
		removed = append(removed, ep.ID)
		if ep.Queue != nil {
			queues = append(queues, ep.ID)
		}
		was++
	}
	for _, ep := range c.endpoints {
		if quiet && was < len(before.endpoints) && before.endpoints[was] == ep {
			was++
			continue // the case of nearly all
		}
		for was < len(before.endpoints) && before.endpoints[was].ID < ep.ID {
			gone()
		}
		there := was < len(before.endpoints) && before.endpoints[was].ID == ep.ID
		same := there && before.endpoints[was].Revision == ep.Revision && before.endpoints[was].Status == ep.Status
		if !same || turned[policyName{ep.Tenant, ep.PolicyName}] {
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
	return changed, removed, queues
}

// policiesSince returns the names of policies that differ from another configuration's.
func (c *Snapshot) policiesSince(before *Snapshot) map[policyName]bool {
	var d store.Edits[grapnel.NamedPolicy]
	for i := range c.policies {
		p := &c.policies[i]
		if was := find(before.policies, p.ID, policyID); was == nil || was.Revision != p.Revision {
			d.Written = append(d.Written, *p)
		}
	}
	d.Removed = lacking(before.policies, c.policies, policyID, policyID)
	return before.policiesThat(&d)
}

// count adds by to the number of queues if the endpoint is a queue. nil is none.
func (c *Snapshot) count(ep *grapnel.Endpoint, by int) {
	if ep != nil && ep.Queue != nil {
		c.queues += by
	}
}

// find returns the record of a sorted list with an id, or nil.
func find[R any](list []R, id string, of func(*R) string) *R {
	at, there := sort.Find(len(list), func(i int) int { return strings.Compare(id, of(&list[i])) })
	if !there {
		return nil
	}
	return &list[at]
}

// those returns the records of a list for which is is true.
func those[R any](list []R, is func(*R) bool) (all []R) {
	for i := range list {
		if is(&list[i]) {
			all = append(all, list[i])
		}
	}
	return all
}

func endpointID(ep *grapnel.Endpoint) string { return ep.ID }
func placedID(p **Placed) string             { return (*p).ID }
func sourceID(s *grapnel.Source) string      { return s.ID }
func policyID(p *grapnel.NamedPolicy) string { return p.ID }
func keyID(k *grapnel.Key) string            { return k.ID }

func accessID(r *grapnel.AccessRecord) string { return r.ID }

func (c *Snapshot) setKeys(keys []grapnel.Key) {
	c.keys, c.byHash = keys, make(map[[32]byte]int, len(keys))
	for i := range keys {
		c.byHash[keys[i].Hash] = i
	}
}

func (c *Snapshot) setAccess(access []grapnel.AccessRecord) {
	c.access, c.terms, c.ends = access, map[string]*grapnel.Terms{}, nil
	for i := range access {
		if is := access[i].End; is != nil {
			if c.ends == nil {
				c.ends = map[string]*grapnel.TenantEnd{}
			}
			c.ends[is.Tenant] = is
		}
		if is := access[i].Terms; is != nil {
			c.terms[access[i].Tenant] = is
		}
	}
}

// Terms are the operator's settings for a tenant; none of them is set if there are none.
func (c *Snapshot) Terms(tenant string) grapnel.Terms {
	if is := c.terms[tenant]; is != nil {
		return *is
	}
	return grapnel.Terms{}
}

func target(ep *grapnel.Endpoint) store.Target {
	return store.Target{
		Endpoint: ep.ID, Ordered: ep.Ordered(), Trigger: grapnel.TriggerSchedule,
		Delay: ep.Policy.FirstDelay(), Drop: ep.DropReason(), Uncounted: ep.Uncounted(),
	}
}

// resolve replaces an endpoint's policy name by the policy. If no policy has the name any more (it
// was deleted by other means than the API, which refuses that), the endpoint gets the default
// policy.
func (c *Snapshot) resolve(ep *grapnel.Endpoint) {
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
	ep.Policy, _ = policy.Preset(policy.DefaultPreset)
}

// Endpoints returns all endpoints, sorted by id, with deleted ones until they are removed.
func (c *Snapshot) Endpoints() []*Placed { return c.endpoints }

// Pulling says whether there is a queue.
func (c *Snapshot) Pulling() bool { return c.queues > 0 }

// Pulled separates heads: it returns the heads of pushed endpoints, and the ids of the queues of
// the others.
func (c *Snapshot) Pulled(heads []store.Head) (pushed []store.Head, queues []string) {
	if c.queues == 0 {
		return heads, nil
	}
	for i := range heads {
		if id := heads[i].Endpoint; !c.Pulls(id) {
			pushed = append(pushed, heads[i])
		} else if !slices.Contains(queues, id) {
			queues = append(queues, id)
		}
	}
	return pushed, queues
}

// Pulls says whether an endpoint is a queue.
func (c *Snapshot) Pulls(endpoint string) bool {
	ep := c.At(endpoint)
	return ep != nil && ep.Queue != nil
}

// At returns an endpoint, deleted or not, or nil.
func (c *Snapshot) At(id string) *grapnel.Endpoint {
	if ep := find(c.endpoints, id, placedID); ep != nil {
		return &(*ep).Endpoint
	}
	return nil
}

// Endpoint returns an endpoint that is not deleted and in scope, or nil.
func (c *Snapshot) Endpoint(scope store.Scope, id string) *grapnel.Endpoint {
	ep := c.At(id)
	if ep == nil || !ep.DeletedAt.IsZero() || !scope.Covers(ep.Tenant, id) {
		return nil
	}
	return ep
}

// TargetAt returns the delivery that an event of a tenant creates at one of its endpoints, whatever
// that subscribes to; false: there is no such endpoint.
func (c *Snapshot) TargetAt(tenant, endpoint string) (store.Target, bool) {
	at := find(c.endpoints, endpoint, placedID)
	if at == nil || (*at).Tenant != tenant || !(*at).DeletedAt.IsZero() {
		return store.Target{}, false
	}
	return (*at).Target, true
}

// Filters says whether an endpoint of the tenant has a filter.
func (c *Snapshot) Filters(tenant string) bool { return c.routes.router().Filters(tenant) }

// Match returns the deliveries that an event creates: at the endpoints that want it and that may
// accepts; may nil: all. The budget may be nil if the tenant has no Filters. With an error some are
// missing: see match.Router.
func (c *Snapshot) Match(ev *grapnel.Event, may func(*grapnel.Endpoint) bool, b *match.Budget) ([]store.Target, error) {
	wanted, err := c.routes.router().Match(ev, b)
	targets := make([]store.Target, 0, len(wanted))
	for _, ep := range wanted {
		if may != nil && !may(ep) {
			continue
		}
		if at := find(c.endpoints, ep.ID, placedID); at != nil {
			targets = append(targets, (*at).Target)
		}
	}
	return targets, err
}

// setTypes replaces the event types.
func (c *Snapshot) setTypes(types []grapnel.EventType) {
	c.types, c.checked, c.passing = types, nil, nil
	for i := range types {
		t := &types[i]
		if t.Retain == grapnel.RetainNone {
			c.passing.add(t)
		}
		if t.Check != grapnel.CheckOff && len(t.Versions) > 0 {
			c.checked.add(t)
		}
	}
}

func (n *namedTypes) add(t *grapnel.EventType) {
	if *n == nil {
		*n = namedTypes{}
	}
	if (*n)[t.Tenant] == nil {
		(*n)[t.Tenant] = map[string]*grapnel.EventType{}
	}
	(*n)[t.Tenant][t.Name] = t
}
