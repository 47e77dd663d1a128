package issue

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// index is what a Keeper knows of the stored issues: enough to hold the limits, and to see which of
// them may be resolved. It is a cache: other nodes and people change issues as well.
type index struct {
	entries map[string]*entry
	at      map[string]int             // unresolved issues of an endpoint, without its other failures
	of      map[string]int             // the same, of a tenant
	all     map[string]map[string]bool // by tenant and id: all that are stored
}

type entry struct {
	id, tenant, endpoint string
	other                bool // see ClassOther
	resolved             bool
	regressions          int
	last                 time.Time // its last failure, or when it was resolved
	streak               int64     // successes of the endpoint before the last failure
}

func (e *entry) needs(b Bounds) int64 { return (&Issue{Regressions: e.regressions}).Needs(b) }

func newIndex() index {
	return index{entries: map[string]*entry{}, at: map[string]int{}, of: map[string]int{}, all: map[string]map[string]bool{}}
}

// put notes an issue as it is stored.
func (x *index) put(i *Issue, streak int64) {
	x.remove(i.ID)
	e := &entry{id: i.ID, tenant: i.Tenant, endpoint: i.Endpoint, other: i.Class == ClassOther, resolved: i.State == Resolved,
		regressions: i.Regressions, last: i.Last, streak: streak}
	x.entries[i.ID] = e
	x.count(e, 1)
}

func (x *index) remove(id string) {
	if e := x.entries[id]; e != nil {
		x.count(e, -1)
		delete(x.entries, id)
	}
}

func (x *index) count(e *entry, by int) {
	ids := x.all[e.tenant]
	switch {
	case by < 0:
		if delete(ids, e.id); len(ids) == 0 {
			delete(x.all, e.tenant)
		}
	case ids == nil:
		x.all[e.tenant] = map[string]bool{e.id: true}
	default:
		ids[e.id] = true
	}
	if e.resolved || e.other {
		return
	}
	if x.at[e.endpoint] += by; x.at[e.endpoint] == 0 {
		delete(x.at, e.endpoint)
	}
	if x.of[e.tenant] += by; x.of[e.tenant] == 0 {
		delete(x.of, e.tenant)
	}
}

// counts are the unresolved issues of a group's endpoint and tenant, and all of the tenant.
func (x *index) counts(g Group) (atEndpoint, ofTenant, stored int) {
	return x.at[g.Endpoint], x.of[g.Tenant], len(x.all[g.Tenant])
}

// watched are the endpoints with unresolved issues.
func (x *index) watched() map[string]bool {
	endpoints := map[string]bool{}
	for _, e := range x.entries {
		if !e.resolved {
			endpoints[e.endpoint] = true
		}
	}
	return endpoints
}

// unresolved are the entries that can be resolved, sorted.
func (x *index) unresolved() (list []*entry) {
	for _, e := range x.entries {
		if !e.resolved {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b *entry) int { return strings.Compare(a.id, b.id) })
	return list
}

// resolved are the ids of a tenant's resolved issues, the oldest failure first.
func (x *index) resolved(tenant string) (ids []string) {
	for id := range x.all[tenant] {
		if x.entries[id].resolved {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b string) int {
		return cmp.Or(x.entries[a].last.Compare(x.entries[b].last), strings.Compare(a, b))
	})
	return ids
}
