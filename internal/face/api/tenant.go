package api

import (
	"cmp"
	"maps"
	"net/http"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/api/strict"
	"github.com/grapnelhq/grapnel/internal/send/egress"
	"github.com/grapnelhq/grapnel/internal/send/erase"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/wire"
)

const tenantTag = "Tenants"

func tenantRoutes() []route {
	return []route{
		{method: "GET", path: "/v1/tenants", scope: grapnel.ScopeRead, bound: errTenants, handle: listTenants,
			name: "list-tenants", tag: tenantTag, summary: "List tenants",
			about: "Tenants with an endpoint, queue, source, policy or key. Needs a key that is bound to no tenant.",
			query: pageOf(searchParam, numbersParam), gives: map[int]any{200: list[wire.Tenant]{}}},
		{method: "POST", path: "/v1/tenants", scope: grapnel.ScopeAdmin, bound: errTenants, handle: createTenant,
			name: "create-tenant", tag: tenantTag, summary: "Register a tenant",
			about: "Gives a tenant the name that people call it by. A tenant needs no registration to be used. 409 if it has such a name already. " +
				"Needs a key that is bound to no tenant.",
			body: jsonBody, takes: wire.NewTenant{}, gives: map[int]any{201: wire.Tenant{}}},
		{method: "GET", path: "/v1/tenants/{tenant}", scope: grapnel.ScopeRead, bound: errTenants, handle: getTenant,
			query: []param{numbersParam}, name: "get-tenant", tag: tenantTag, summary: "Get the operator's settings for a tenant",
			about: "A tenant that has nothing yet can have settings. Needs a key that is bound to no tenant.",
			gives: map[int]any{200: wire.Tenant{}}},
		{method: "PATCH", path: "/v1/tenants/{tenant}", scope: grapnel.ScopeAdmin, bound: errTenants, handle: patchTenant,
			name: "update-tenant", tag: tenantTag, summary: "Change the operator's settings for a tenant",
			about: "A JSON merge patch: null sets a field back to the server's own setting. Needs a key that is bound to no tenant.",
			query: []param{reasonParam}, body: patchBody, takes: wire.TenantTerms{}, gives: map[int]any{200: wire.Tenant{}}},
		{method: "DELETE", path: "/v1/tenants/{tenant}", scope: grapnel.ScopeAdmin, bound: errTenants, handle: deleteTenant,
			name: "delete-tenant", tag: tenantTag, summary: "Delete a tenant with all that it has",
			about: "Begins a durable job, which GET /v1/erasures/{id} shows. Once it is answered, the tenant's keys, passes and portal links " +
				"are refused with 403, and what would create something for it, such as a publish or a webhook to one of its sources, with 409 and the code " +
				"tenant_deleted; its endpoints get no new attempt. The job deletes the tenant's endpoints, and once their deliveries have ended all " +
				"else: events, deliveries, keys, sources, settings, audit, data key. When it is done, a tenant of the same name can begin anew. " +
				"Repeated, it answers with the running job. Tenant default cannot be deleted. Needs a key that is bound to no tenant.",
			query: []param{{name: reasonParam.name, form: reasonParam.form, required: true,
				doc: "why; kept in the audit, so leave names of people out; at most 500 characters"}},
			gives: map[int]any{202: wire.Erasure{}}},
	}
}

var numbersParam = param{name: "numbers", one: []string{"true"}, doc: "with health, pending deliveries and dead letters"}

// errTenants refuses callers that are bound to a tenant.
var errTenants = grapnel.Errorf(codeForbidden, "Tenants are the operator's business; the API key is bound to one tenant.")

func (a *api) viewTenant(name string) wire.Tenant {
	is := a.Engine.Terms(name)
	return viewTerms(name, &is)
}

func viewTerms(name string, is *grapnel.Terms) wire.Tenant {
	v := wire.Tenant{Tenant: name, TenantTerms: wire.TenantTerms{Name: is.Name, Labels: maps.Clone(is.Labels), PublishRate: is.PublishRate,
		EventsPerDay: is.EventsPerDay, MaxPending: is.MaxPending, Consent: is.Consent}}
	if is.Proxy.Text != "" {
		v.Proxy = egress.HiddenProxy(is.Proxy.Text)
	}
	v.CreatedAt, v.UpdatedAt = timeOf(is.CreatedAt), timeOf(is.UpdatedAt)
	return v
}

func namedTenant(c *call) (string, error) {
	name := c.PathValue("tenant")
	if !grapnel.BindsTenant(name) {
		return "", store.ErrNotFound("tenant")
	}
	return name, nil
}

func getTenant(a *api, c *call) (answer, error) {
	name, err := namedTenant(c)
	if err != nil {
		return answer{}, err
	}
	is, err := a.viewTenants(c)([]string{name})
	return shown(is, err, func(is *[]wire.Tenant) wire.Tenant { return (*is)[0] })
}

// tenantPrefix begins the names of tenants that are registered without one.
const tenantPrefix = "ten"

// createTenant gives a tenant its first name for people. Its other settings stay as they are.
func createTenant(a *api, c *call) (answer, error) {
	var f strict.Faults
	in := decode[wire.NewTenant](c.body, &f)
	name := cmp.Or(in.Tenant, a.newID(tenantPrefix, c.now))
	if f.Free("/tenant") && !grapnel.BindsTenant(name) {
		f.Add("/tenant", "is the operator's own")
	}
	if err := f.Err(); err != nil {
		return answer{}, err
	}
	reply := func(is grapnel.Terms) answer { return jsonAnswer(http.StatusCreated, viewTerms(name, &is)) }
	is, before, err := a.Engine.CreateTerms(c.Context(), c.scope, name, func(is *grapnel.Terms) (store.With, error) {
		if is.Name != "" {
			return store.With{}, grapnel.Errorf(grapnel.CodeConflict, "Tenant %s is registered already.", name)
		}
		is.Name, is.Labels, is.CreatedAt, is.UpdatedAt = in.Name, in.Labels, cmp.Or(is.CreatedAt, c.now), c.now
		return store.With{Once: withEffect(c, func(store.Put) answer { return reply(*is) }),
			Audit: c.entryOf(grapnel.VerbCreate, name, "tenant", in.Name)}, nil
	})
	return answered(is, before, err, reply)
}

// patchTenant merges a patch into the settings as they are when they are stored.
func patchTenant(a *api, c *call) (answer, error) {
	name, err := namedTenant(c)
	if err != nil {
		return answer{}, err
	}
	is, err := a.Engine.ChangeTerms(c.Context(), c.scope, name, func(is *grapnel.Terms) (*grapnel.AuditEntry, error) {
		var f strict.Faults
		in := patched(c, viewTerms(name, is).TenantTerms, &f)
		limitRate(in.PublishRate)
		if in.Proxy != viewTerms(name, is).Proxy { // else it is as it was, with its password
			if _, err := parseProxy(in.Proxy); err != nil && in.Proxy != "" {
				f.Add("/proxy", "%s", err)
			}
			is.Proxy = grapnel.Secret{Text: in.Proxy, CreatedAt: c.now}
		}
		is.Name, is.Labels = in.Name, in.Labels
		is.PublishRate, is.EventsPerDay, is.MaxPending, is.Consent = in.PublishRate, in.EventsPerDay, in.MaxPending, in.Consent
		is.CreatedAt, is.UpdatedAt = cmp.Or(is.CreatedAt, c.now), c.now
		return c.entryOf(grapnel.VerbChange, name, "tenant", c.reason()), f.Err()
	})
	return shown(is, err, func(is *grapnel.Terms) wire.Tenant { return viewTerms(name, is) })
}

func listTenants(a *api, c *call) (answer, error) {
	return listed(c, a.Engine.Tenants(), func(name *string) entry { return entry{id: *name, name: *name} },
		a.viewTenants(c))
}

// viewTenants shows tenants, with their numbers if the query asks for these. What it reads grows
// with the number of endpoints, and not with that of tenants: one question for all of a page.
func (a *api) viewTenants(c *call) func(names []string) ([]wire.Tenant, error) {
	return func(names []string) ([]wire.Tenant, error) {
		all := make([]wire.Tenant, len(names))
		by := make(map[string]*wire.TenantNumbers, len(names))
		for i, name := range names {
			all[i] = a.viewTenant(name)
			by[name] = new(wire.TenantNumbers)
		}
		if c.query.text("numbers") == "" || len(names) == 0 {
			return all, nil
		}
		counts, err := a.History.TenantCounts(c.Context(), names, a.Bounds.Counted)
		if err != nil {
			return nil, err
		}
		for i := range all {
			of, n := counts[all[i].Tenant], by[all[i].Tenant]
			n.Pending, n.DeadLetters, n.DeadLettersMore = of.Pending, of.Dead, of.DeadMore
			if !of.Active.IsZero() {
				n.ActiveAt = &of.Active
			}
			all[i].Numbers = n
		}
		eps, ids := a.wanted(c.scope, func(ep *grapnel.Endpoint) bool { return ep.Receives() && by[ep.Tenant] != nil })
		for i, health := range a.Engine.Healths(ids) {
			n := by[eps[i].Tenant]
			n.Endpoints.All++
			*n.Endpoints.State(cmp.Or(health.State, "unknown"))++
		}
		return all, nil
	}
}

// deleteTenant refuses the default tenant: callers that name none mean it, and it would be deleted
// while they publish.
func deleteTenant(a *api, c *call) (answer, error) {
	name, err := namedTenant(c)
	if err != nil {
		return answer{}, err
	}
	if name == grapnel.DefaultTenant {
		return answer{}, grapnel.Errorf(grapnel.CodeConflict, "Tenant %s cannot be deleted: objects that name no tenant belong to it. "+
			"Erase its events, and delete its endpoints, queues, sources and keys.", name)
	}
	j, before, err := a.Erasures.Tenant(c.Context(), name, c.by(c.reason()), func(j *erase.Job) *store.Once {
		return withEffect(c, func(store.Put) answer { return acceptedErasure(j) })
	})
	return answered(j, before, err, acceptedErasure)
}
