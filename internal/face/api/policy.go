package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/tidwall/gjson"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/api/openapi"
	"github.com/grapnelhq/grapnel/internal/face/api/strict"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
	"github.com/grapnelhq/grapnel/wire"
)

func policyRoutes() []route {
	return []route{
		{method: "GET", path: "/v1/policies", scope: grapnel.ScopeRead, portal: grapnel.ScopeRead, handle: listPolicies,
			name: "list-policies", tag: "Policies", summary: "List policies, presets first",
			query: pageOf(tenantParam, searchParam), gives: map[int]any{200: list[policyView]{}}},
		{method: "GET", path: "/v1/policies/{id}", scope: grapnel.ScopeRead, portal: grapnel.ScopeRead, handle: getPolicy,
			name: "get-policy", tag: "Policies", summary: "Get a policy by id, or a preset by name",
			gives: map[int]any{200: policyView{}}},
		{method: "POST", path: "/v1/policies", scope: grapnel.ScopeManage, handle: createPolicy,
			name: "create-policy", tag: "Policies", summary: "Create a policy that endpoints can name",
			about: "Fields that it leaves out come from the policy that preset names, else from the preset default. preset may also name a policy of the tenant.",
			body:  jsonBody, takes: newPolicy{}, gives: map[int]any{201: policyView{}}},
		{method: "PATCH", path: "/v1/policies/{id}", scope: grapnel.ScopeManage, handle: patchPolicy,
			name: "update-policy", tag: "Policies", summary: "Change a policy",
			about: "A JSON merge patch. Endpoints that name the policy use the change at once. The name, and the shape that its preset brings, cannot change while an endpoint names it.",
			body:  patchBody, takes: policyPatch{}, gives: map[int]any{200: policyView{}}},
		{method: "DELETE", path: "/v1/policies/{id}", scope: grapnel.ScopeManage, handle: deletePolicy,
			name: "delete-policy", tag: "Policies", summary: "Delete a policy that no endpoint names",
			gives: map[int]any{204: nil}},
	}
}

// policyView is a policy with its name. Presets have no id and no tenant.
type policyView struct {
	wire.Policy
	rules policy.Policy
}

// MarshalJSON writes the head and the policy as one object.
func (v policyView) MarshalJSON() ([]byte, error) {
	head, err := wire.Encode(v.Policy)
	if err != nil {
		return nil, err
	}
	v.rules.Name, v.rules.Preset = "", "" // the head has them
	body, err := json.Marshal(v.rules)
	if err != nil {
		return nil, err
	}
	return append(append(head[:len(head)-1], ','), body[1:]...), nil
}

func (a *api) viewPolicy(p *grapnel.NamedPolicy) policyView {
	return policyView{
		wire.Policy{ID: p.ID, Name: p.Name, Tenant: p.Tenant, Preset: p.Policy.Preset, Changes: p.Policy.Changes(a.base(p.Tenant, &p.Policy)),
			CreatedAt: p.CreatedAt, UpdatedAt: p.UpdatedAt},
		p.Policy,
	}
}

// showPolicy is the policy of an endpoint as JSON: a name, or the policy itself.
func showPolicy(ep *grapnel.Endpoint) json.RawMessage {
	if ep.PolicyName != "" {
		return json.RawMessage(strconv.Quote(ep.PolicyName))
	}
	return encode(ep.Policy)
}

// presets are the built-in policies as named policies without a tenant.
func presets() []grapnel.NamedPolicy {
	all := policy.Presets()
	named := make([]grapnel.NamedPolicy, len(all))
	for i, p := range all {
		named[i] = grapnel.NamedPolicy{Name: p.Name, Policy: p}
	}
	return named
}

// listPolicies lists presets by name, then own policies by id. Presets belong to every tenant.
func listPolicies(a *api, c *call) (answer, error) {
	all, only := presets(), c.query.text("tenant")
	slices.SortFunc(all, func(a, b grapnel.NamedPolicy) int { return strings.Compare(a.Name, b.Name) })
	return listed(c, append(all, a.Engine.Policies(c.scope)...), func(p *grapnel.NamedPolicy) entry {
		if p.ID == "" {
			return entry{id: "_" + p.Name, tenant: only, name: p.Name} // an underscore comes before any id
		}
		return entry{id: p.ID, tenant: p.Tenant, name: p.Name}
	}, each(a.viewPolicy))
}

// namedPolicy is the one that the path names: an own one by its id, a preset by its name.
func (a *api) namedPolicy(c *call) (grapnel.NamedPolicy, error) {
	id := c.PathValue("id")
	for _, p := range a.Engine.Policies(c.scope) {
		if p.ID == id {
			return p, nil
		}
	}
	for _, p := range presets() {
		if p.Name == id {
			return p, nil
		}
	}
	return grapnel.NamedPolicy{}, store.ErrNotFound("policy")
}

// ownPolicy is one that can be changed.
func (a *api) ownPolicy(c *call) (grapnel.NamedPolicy, error) {
	p, err := a.namedPolicy(c)
	if err == nil && p.ID == "" {
		return p, grapnel.Errorf(grapnel.CodeConflict, "%s is a preset; presets cannot be changed.", p.Name)
	}
	return p, err
}

func getPolicy(a *api, c *call) (answer, error) {
	p, err := a.namedPolicy(c)
	return shown(p, err, a.viewPolicy)
}

// splitPolicy takes name and tenant out of a policy's document; the rest is for package policy to
// read.
func splitPolicy(doc gjson.Result, f *strict.Faults) (name, tenant optional, rest []byte) {
	if !doc.IsObject() {
		f.Add("", "must be an object")
		return
	}
	own := strict.NewObject(gjson.Result{})
	strict.Members(doc, "/", f, func(v strict.Value) bool {
		into := &name
		switch v.Name {
		case "tenant":
			into = &tenant
		case "name":
		default:
			own.Set(v.Name, []byte(v.Raw))
			return true
		}
		if !v.Absent() {
			text, _ := v.Text()
			*into = optional{text, true}
		}
		return true
	})
	return name, tenant, own.Encode()
}

// readPolicy reads a named policy's document. was is the policy that it had, or empty.
func (a *api) readPolicy(doc gjson.Result, owner func(optional) string, was *policy.Policy, f *strict.Faults) grapnel.NamedPolicy {
	name, tenant, rest := splitPolicy(doc, f)
	switch {
	case !name.given:
		f.Add("/name", "is required")
	case !grapnel.ValidID(name.text):
		f.Add("/name", "must be 1 to 64 characters of [A-Za-z0-9_-]")
	}
	np := grapnel.NamedPolicy{Name: name.text, Tenant: owner(tenant)}
	if rest != nil {
		p, err := policy.ParseOn(rest, a.bases(np.Tenant, was))
		addPolicyErrors(f, "", err)
		np.Policy = p
	}
	np.Policy.Name = name.text
	return np
}

func taken(name string) error {
	if _, preset := policy.Preset(name); preset {
		return grapnel.Errorf(grapnel.CodeConflict, "%s is the name of a preset.", name)
	}
	return nil
}

// createPolicy makes a policy that endpoints of its tenant can name.
func createPolicy(a *api, c *call) (answer, error) {
	var f strict.Faults
	owner := func(tenant optional) string { return c.tenant(tenant, "/tenant", &f) }
	p := a.readPolicy(gjson.ParseBytes(c.body), owner, &policy.Policy{}, &f)
	if err := f.Err(); err != nil {
		return answer{}, err
	}
	if err := taken(p.Name); err != nil {
		return answer{}, err
	}
	if err := roomFor(p.Tenant, "policies", a.Bounds.Policies, a.Engine.Policies(store.Of(p.Tenant))); err != nil {
		return answer{}, err
	}
	p.ID, p.CreatedAt, p.UpdatedAt = a.newID(grapnel.PolicyPrefix, c.now), c.now, c.now
	return put(c, a.Engine.PutPolicy, p, c.entryOf(grapnel.VerbCreate, p.Tenant, p.ID, p.Name), func(store.Put) answer {
		return jsonAnswer(http.StatusCreated, a.viewPolicy(&p))
	})
}

// patchPolicy merges a patch into a policy as it is when it is stored, and reads the result as if
// it had been given as a whole.
func patchPolicy(a *api, c *call) (answer, error) {
	if _, err := a.ownPolicy(c); err != nil {
		return answer{}, err
	}
	patch := gjson.ParseBytes(c.body)
	p, err := a.Engine.ChangePolicy(c.Context(), c.scope, c.PathValue("id"), func(p *grapnel.NamedPolicy) (*grapnel.AuditEntry, error) {
		if err := a.mergePolicy(c, p, patch); err != nil {
			return nil, err
		}
		return c.entryOf(grapnel.VerbChange, p.Tenant, p.ID, p.Name), nil
	})
	return shown(p, err, a.viewPolicy)
}

func (a *api) mergePolicy(c *call, is *grapnel.NamedPolicy, patch gjson.Result) error {
	old := *is
	var f strict.Faults
	for _, fixed := range []string{"id", "tenant", "changes", "created_at", "updated_at"} {
		if patch.IsObject() && patch.Get(fixed).Exists() {
			f.Add("/"+fixed, "cannot be changed")
		}
	}
	doc := strict.NewObject(gjson.ParseBytes(a.mergedPolicy(old.Tenant, old.Policy, patch, "/", &f)))
	if patch.IsObject() && !patch.Get("name").Exists() {
		doc.Set("name", encode(old.Name))
	}
	p := a.readPolicy(gjson.ParseBytes(doc.Encode()), func(optional) string { return old.Tenant }, &old.Policy, &f)
	if err := f.Err(); err != nil {
		return err
	}
	// An event keeps the shape of its acceptance, which only a change of its endpoint puts on record.
	if p.Name != old.Name || !reflect.DeepEqual(p.Policy.RequestShape(), old.Policy.RequestShape()) {
		if err := unnamed(a, old); err != nil {
			return err
		}
	}
	if p.Name != old.Name {
		if err := taken(p.Name); err != nil {
			return err
		}
	}
	p.ID, p.Tenant, p.CreatedAt, p.UpdatedAt, p.Revision = old.ID, old.Tenant, old.CreatedAt, c.now, old.Revision
	*is = p
	return nil
}

// unnamed says whether no endpoint knows a policy by its name.
func unnamed(a *api, p grapnel.NamedPolicy) error {
	for _, ep := range a.Engine.Endpoints(store.Of(p.Tenant)) {
		if ep.PolicyName == p.Name {
			return grapnel.Errorf(grapnel.CodeConflict, "Endpoint %s names this policy.", ep.ID)
		}
	}
	return nil
}

func deletePolicy(a *api, c *call) (answer, error) {
	p, err := a.ownPolicy(c)
	if err == nil {
		err = a.Engine.DeletePolicy(c.Context(), c.scope, p.ID, store.With{Audit: c.entryOf(grapnel.VerbDelete, p.Tenant, p.ID, p.Name)})
	}
	return nothing(), err
}

// policy finds the policy that an endpoint names, or reads the one that it brings. was is the one
// that it had.
func (a *api) policy(given any, tenant string, was *policy.Policy, f *strict.Faults) (string, policy.Policy) {
	raw, _ := given.(json.RawMessage) // as strict.Decode leaves it; nil: none
	name := policy.DefaultPreset
	switch v := gjson.ParseBytes(raw); {
	case len(raw) == 0:
	case v.IsObject():
		p, err := policy.ParseOn(raw, a.bases(tenant, was))
		addPolicyErrors(f, "/policy", err)
		return "", p
	case v.Type == gjson.String:
		name = v.Str
	default:
		f.Add("/policy", "must be the name of a policy, or a policy")
		return "", policy.Policy{}
	}
	p, ok := a.policyNamed(tenant, name)
	if !ok {
		f.Add("/policy", "policy not found")
	}
	return name, p
}

// policyNamed finds a tenant's own policy, or a preset.
func (a *api) policyNamed(tenant, name string) (policy.Policy, bool) {
	own := a.Engine.Policies(store.Of(tenant))
	if i := slices.IndexFunc(own, func(p grapnel.NamedPolicy) bool { return p.Name == name }); i >= 0 {
		return own[i].Policy, true
	}
	return policy.Preset(name)
}

// bases finds what a policy may be based on: a preset, or another policy of the tenant. A policy
// whose base was deleted goes on as it is.
func (a *api) bases(tenant string, was *policy.Policy) func(string) (policy.Policy, bool) {
	return func(name string) (policy.Policy, bool) {
		p, ok := a.policyNamed(tenant, name)
		if !ok && was.Preset == name {
			return *was, true
		}
		return p, ok
	}
}

// base is the policy that this one is based on.
func (a *api) base(tenant string, p *policy.Policy) policy.Policy {
	if base, ok := a.bases(tenant, p)(p.Preset); ok {
		return base
	}
	base, _ := policy.Preset(policy.DefaultPreset)
	return base
}

// mergedPolicy is a merge patch applied to a policy. A field that differs from the base stays, and
// any other comes from the base that the result names. An absent limit of attempts belongs to the
// schedule, so a patch with another schedule replaces both.
func (a *api) mergedPolicy(tenant string, is policy.Policy, patch gjson.Result, at string, f *strict.Faults) []byte {
	changes, rebased := is.Changes(a.base(tenant, &is)), patch.Get("preset").Exists()
	is.Name = ""
	if is.MaxAttempts == 0 && patch.Get("schedule").Exists() {
		changes = slices.DeleteFunc(changes, func(name string) bool { return name == "max_attempts" })
	}
	own := strict.NewObject(gjson.Result{})
	gjson.ParseBytes(encode(is)).ForEach(func(name, v gjson.Result) bool {
		if name.Str == "preset" || slices.Contains(changes, name.Str) || !rebased && patch.Get(name.Str).Exists() {
			own.Set(name.Str, []byte(v.Raw))
		}
		return true
	})
	return strict.Merge(gjson.ParseBytes(own.Encode()), patch, at, f)
}

// policyPatched merges an object for the policy into the one that the endpoint has. If that one has
// a name, the name becomes the base of the result. whole are the settings, all else merged.
func (a *api) policyPatched(c *call, ep *grapnel.Endpoint, whole []byte, f *strict.Faults) []byte {
	patch := gjson.GetBytes(c.body, "policy")
	if !patch.IsObject() {
		return whole
	}
	is := ep.Policy
	if ep.PolicyName != "" {
		is = is.Copy(ep.PolicyName)
	}
	settings := strict.NewObject(gjson.ParseBytes(whole))
	settings.Set("policy", a.mergedPolicy(ep.Tenant, is, patch, "/policy/", f))
	return settings.Encode()
}

func addPolicyErrors(f *strict.Faults, pointer string, err error) {
	var wrong policy.Errors
	switch {
	case err == nil:
	case errors.As(err, &wrong):
		for _, e := range wrong.Under(pointer) {
			f.Add(e.Pointer, "%s", e.Detail)
		}
	default:
		f.Add(pointer, "%s", err)
	}
}

// The bodies that package policy reads.
type (
	newPolicy   struct{} // creates a policy
	policyPatch struct{} // changes a policy
)

// Schema is that of a policy that has to have a name.
func (newPolicy) Schema(r huma.Registry) *huma.Schema {
	return openapi.NewPolicySchema(r, forms["id"], forms["tenant"])
}

// Schema is that of a policy of which all may be left out.
func (policyPatch) Schema(r huma.Registry) *huma.Schema {
	return openapi.PolicyPatchSchema(r, forms["id"])
}

// Schema is that of a policy with its name.
func (policyView) Schema(r huma.Registry) *huma.Schema {
	return openapi.NamedPolicy(r, reflect.TypeFor[wire.Policy]())
}
