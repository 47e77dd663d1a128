package svix

import (
	"net/http"
	"net/url"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/wire"
)

func applications() []operation {
	return []operation{
		{pattern: "POST /app", handle: createApplication},
		{pattern: "GET /app", handle: listApplications},
		{pattern: "GET /app/{app}", handle: getApplication},
		{pattern: "PUT /app/{app}", handle: upsertApplication, alone: true},
		{pattern: "PATCH /app/{app}", handle: patchApplication},
		{pattern: "DELETE /app/{app}", handle: deleteApplication},
	}
}

// viewTenant is a tenant as an application.
func viewTenant(t *wire.Tenant) applicationOut {
	id, uid := appID(t.Tenant)
	out := applicationOut{ID: id, UID: uid, Name: t.Name, Metadata: metadata(t.Labels)}
	if t.CreatedAt != nil {
		out.CreatedAt = t.CreatedAt.UTC()
	}
	if t.UpdatedAt != nil {
		out.UpdatedAt = t.UpdatedAt.UTC()
	}
	return out
}

// viewTerms is the same from memory: a caller that is bound to a tenant may not ask the API for the
// operator's settings, and sees these parts of them only.
func viewTerms(tenant string, is grapnel.Terms) applicationOut {
	return viewTenant(&wire.Tenant{Tenant: tenant, TenantTerms: wire.TenantTerms{Name: is.Name, Labels: is.Labels},
		CreatedAt: &is.CreatedAt, UpdatedAt: &is.UpdatedAt})
}

// check refuses what an application cannot have. tenant is the one in the path; empty: none.
func (in *applicationIn) check(g given, tenant string, whole bool) error {
	whole = whole || g.sets("name")
	if g.has("throttleRate", "rateLimit") {
		return invalid("applications have no rate of deliveries here; set it at their endpoints", "body", "throttleRate")
	}
	if whole && in.Name == "" {
		return invalid("is required", "body", "name")
	}
	if in.UID != nil {
		if _, uid := appID(tenant); tenant != "" && *in.UID != uid {
			return invalid("cannot be changed: it is the name of the tenant", "body", "uid")
		}
		if why := uidFault(*in.UID); why != "" {
			return invalid(why, "body", "uid")
		}
	}
	return checkMetadata(in.Metadata)
}

// register gives a tenant its name.
func (a *ask) register(in *applicationIn, tenant string) (out applicationOut, err error) {
	if in.UID != nil {
		tenant = *in.UID
	}
	var made wire.Tenant
	err = a.api(http.MethodPost, "/v1/tenants", nil, wire.NewTenant{Tenant: tenant, Name: in.Name, Labels: in.Metadata}, &made)
	return viewTenant(&made), err
}

// application reads the body; tenant is the one in the path, and whole says that nothing may lack.
func (a *ask) application(tenant string, whole bool) (in applicationIn, g given, err error) {
	if g, err = a.decode(&in); err == nil {
		err = in.check(g, tenant, whole)
	}
	return in, g, err
}

func createApplication(a *ask) (reply, error) {
	in, _, err := a.application("", true)
	if err != nil {
		return reply{}, err
	}
	if a.truth("get_if_exists", false) && in.UID != nil && a.mine(*in.UID) && a.room.exists(*in.UID) {
		return reply{http.StatusOK, viewTerms(*in.UID, a.room.Tenants.Terms(*in.UID))}, nil
	}
	out, err := a.register(&in, "")
	return reply{http.StatusCreated, out}, err
}

// mine says whether the caller may see a tenant.
func (a *ask) mine(tenant string) bool { return a.who.Tenant == "" || a.who.Tenant == tenant }

// listApplications lists all, or the caller's own.
func listApplications(a *ask) (reply, error) {
	q := a.URL.Query()
	for _, name := range []string{"exclude_apps_with_no_endpoints", "exclude_apps_with_disabled_endpoints", "exclude_apps_with_svix_play_endpoints"} {
		if a.truth(name, false) {
			return reply{}, invalid("this server cannot exclude applications", "query", name)
		}
	}
	if a.who.Tenant != "" {
		var own []applicationOut
		if a.room.exists(a.who.Tenant) {
			own = append(own, viewTerms(a.who.Tenant, a.room.Tenants.Terms(a.who.Tenant)))
		}
		out, err := window(a, own, func(v *applicationOut) string { return v.ID })
		return reply{http.StatusOK, out}, err
	}
	if q.Get("order") == "descending" {
		return reply{}, invalid("must be ascending: applications are listed by the names of their tenants", "query", "order")
	}
	out, err := gather(a, "/v1/tenants", url.Values{}, func(t *wire.Tenant) (*applicationOut, error) {
		if !a.room.exists(t.Tenant) {
			return nil, nil
		}
		return new(viewTenant(t)), nil
	})
	return reply{http.StatusOK, out}, err
}

func getApplication(a *ask) (reply, error) {
	return reply{http.StatusOK, viewTerms(a.tenant, a.room.Tenants.Terms(a.tenant))}, nil
}

// upsertApplication replaces an application, or registers one whose uid is in the path.
func upsertApplication(a *ask) (reply, error) {
	in, _, err := a.application(a.tenant, true)
	if err != nil {
		return reply{}, err
	}
	if a.room.exists(a.tenant) {
		return a.change(map[string]any{"name": in.Name, "labels": relabelled(a.room.Tenants.Terms(a.tenant).Labels, in.Metadata)})
	}
	if id := a.PathValue("app"); uidFault(id) != "" {
		return reply{}, notFound("application")
	}
	out, err := a.register(&in, a.tenant)
	return reply{http.StatusCreated, out}, err
}

func patchApplication(a *ask) (reply, error) {
	in, g, err := a.application(a.tenant, false)
	if err != nil {
		return reply{}, err
	}
	changes := map[string]any{}
	if g.has("name") {
		changes["name"] = in.Name
	}
	if g.sets("metadata") {
		changes["labels"] = relabelled(a.room.Tenants.Terms(a.tenant).Labels, in.Metadata)
	}
	return a.change(changes)
}

// change changes the settings of the application's tenant.
func (a *ask) change(changes map[string]any) (reply, error) {
	var out wire.Tenant
	err := a.api(http.MethodPatch, at("/v1/tenants", a.tenant), nil, changes, &out)
	return reply{http.StatusOK, viewTenant(&out)}, err
}

func deleteApplication(a *ask) (reply, error) {
	return reply{status: http.StatusNoContent},
		a.api(http.MethodDelete, at("/v1/tenants", a.tenant), url.Values{"reason": {"deleted as an application of the Svix API"}}, nil, nil)
}

// ensure registers the application in the path, if it does not exist and the body of another
// request brings it.
func (a *ask) ensure(in *applicationIn) error {
	switch {
	case a.room.exists(a.tenant):
		return nil
	case in == nil:
		return notFound("application")
	}
	if err := in.check(given{}, "", true); err != nil {
		return err
	}
	id := a.PathValue("app")
	if uidFault(id) != "" || in.UID != nil && *in.UID != id {
		return invalid("must be the uid in the path", "body", "application", "uid")
	}
	_, err := a.register(in, a.tenant)
	return err
}
