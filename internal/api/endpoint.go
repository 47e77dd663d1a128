package api

import (
	"cmp"
	"errors"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/tidwall/gjson"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/api/openapi"
	"github.com/grapnelhq/grapnel/internal/api/strict"
	"github.com/grapnelhq/grapnel/internal/egress"
	"github.com/grapnelhq/grapnel/internal/match"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/transform"
	"github.com/grapnelhq/grapnel/sign"
)

func endpointRoutes() []route {
	return []route{
		{method: "POST", path: "/v1/endpoints", scope: grapnel.ScopeManage, handle: createEndpoint,
			name: "create-endpoint", tag: "Endpoints", summary: "Create an endpoint",
			about: "The answer shows the secret; no other answer does.",
			body:  &intake{types: []string{grapnel.JSONType}}, takes: newEndpoint{},
			gives: map[int]any{201: endpointView{}}},
		{method: "GET", path: "/v1/endpoints", scope: grapnel.ScopeRead, handle: listEndpoints,
			name: "list-endpoints", tag: "Endpoints", summary: "List endpoints",
			query: pageOf(tenantParam), gives: map[int]any{200: list[endpointView]{}}},
		{method: "GET", path: "/v1/endpoints/{id}", scope: grapnel.ScopeRead, handle: getEndpoint,
			name: "get-endpoint", tag: "Endpoints", summary: "Get an endpoint", gives: map[int]any{200: endpointView{}}},
		{method: "PATCH", path: "/v1/endpoints/{id}", scope: grapnel.ScopeManage, handle: patchEndpoint,
			name: "update-endpoint", tag: "Endpoints", summary: "Change an endpoint",
			about: "A JSON merge patch: null sets a field back to its default. When pausing or disabling is answered, no further attempt starts. " +
				"Enabling a disabled endpoint forgets what counted towards disabling it, and what was held is delivered.",
			query: []param{reasonParam},
			body:  &intake{types: []string{openapi.TypeMergePatch, grapnel.JSONType}}, takes: EndpointSettings{},
			gives: map[int]any{200: endpointView{}}},
		{method: "DELETE", path: "/v1/endpoints/{id}", scope: grapnel.ScopeManage, handle: deleteEndpoint,
			name: "delete-endpoint", tag: "Endpoints", summary: "Delete an endpoint",
			about: "What waits for it ends as dropped. Its history stays.", query: []param{reasonParam}, gives: map[int]any{204: nil}},
	}
}

// EndpointSettings are what can be set on an endpoint, and changed later.
type EndpointSettings struct {
	URL            string            `json:"url" required:"true" minLength:"1" maxLength:"2048" form:"url" doc:"where deliveries are sent as POST requests"`
	Description    string            `json:"description,omitempty" maxLength:"1000"`
	EventTypes     []string          `json:"event_types,omitempty" maxItems:"100" form:"pattern" nullable:"false" doc:"patterns in which a whole segment may be *; none: every type"`
	Filter         string            `json:"filter,omitempty" maxLength:"4096" doc:"a CEL expression over event (type, key, data, metadata)"`
	Source         string            `json:"source,omitempty" form:"id" doc:"the id of a source: only what came in through it; none: from anywhere"`
	Policy         policyInput       `json:"policy,omitempty" doc:"the name of a policy, or a policy; none: standard"`
	Ordering       string            `json:"ordering,omitempty" enum:"key,none" doc:"none: events of one key do not wait for each other; key if not given"`
	RateLimit      *rateLimit        `json:"rate_limit,omitempty" doc:"none: no limit"`
	MaxConcurrency int               `json:"max_concurrency,omitempty" minimum:"1" maximum:"1024" doc:"requests at once; 32 if not given"`
	Headers        map[string]string `json:"headers,omitempty" maxProperties:"32" names:"header-name" form:"header-value" doc:"sent with every delivery; {event.id}, {event.type}, {event.key}, {event.timestamp}, {delivery.id}, {attempt} and {retry} stand for their values, {{ and }} for braces"`
	Format         string            `json:"format,omitempty" enum:"standard,raw,cloudevents" doc:"the shape of the request; standard if not given"`
	Transform      string            `json:"transform,omitempty" maxLength:"4096" doc:"a jq expression over the standard body (id, type, timestamp, data) whose one result is the body to send, as JSON; none: the preset's, or the body of the format"`
	Signing        string            `json:"signature_headers,omitempty" enum:"standard,svix" doc:"svix: svix-id, svix-timestamp and svix-signature besides webhook-id and so on; standard if not given"`
	Status         string            `json:"status,omitempty" enum:"enabled,paused,disabled" doc:"paused: deliveries are held; enabled if not given"`
}

// newEndpoint is how an endpoint is created.
type newEndpoint struct {
	EndpointSettings
	Tenant string `json:"tenant,omitempty" form:"tenant" doc:"the key's tenant, else default"`
	Secret string `json:"secret,omitempty" minLength:"1" form:"secret" doc:"whsec_… or whsk_…; none: one is made"`
}

// endpointView is an endpoint as it is shown.
type endpointView struct {
	ID             string            `json:"id"`
	Tenant         string            `json:"tenant"`
	URL            string            `json:"url"`
	Description    string            `json:"description"`
	EventTypes     []string          `json:"event_types" nullable:"false"`
	Filter         *string           `json:"filter"`
	Source         *string           `json:"source" doc:"only what came in through this source; null: from anywhere"`
	Policy         policyRef         `json:"policy"`
	Ordering       string            `json:"ordering" enum:"key,none"`
	RateLimit      *rateLimitView    `json:"rate_limit" nullable:"true"`
	MaxConcurrency int               `json:"max_concurrency"`
	Headers        map[string]string `json:"headers" doc:"their values are [redacted] for a key without the scope manage"`
	Format         string            `json:"format" enum:"standard,raw,cloudevents"`
	Transform      *string           `json:"transform" doc:"null: none of its own"`
	Preset         *presetView       `json:"preset_shape" nullable:"true" doc:"what the preset that the policy names adds to each request where the endpoint says nothing itself; null: nothing"`
	Signing        string            `json:"signature_headers" enum:"standard,svix"`
	Secret         string            `json:"secret,omitempty" doc:"shown in the answer that makes it, and never again"`
	Secrets        []secretView      `json:"secrets" nullable:"false" doc:"those that sign at present, the newest first"`
	Status         string            `json:"status" enum:"enabled,paused,disabled"`
	DisabledReason *string           `json:"disabled_reason"`
	DisabledAt     *stamp            `json:"disabled_at" nullable:"true"`
	Health         healthView        `json:"health"`
	CreatedAt      stamp             `json:"created_at"`
	UpdatedAt      stamp             `json:"updated_at"`
	Revision       int64             `json:"revision" doc:"grows with every change"`
}

// presetView is what a preset says of the request.
type presetView struct {
	Headers   map[string]string `json:"headers"`
	Transform *string           `json:"transform"`
}

// Schema says how it looks; a reference could not say that it may be null.
func (presetView) Schema(huma.Registry) *huma.Schema {
	s := openapi.Object(map[string]*huma.Schema{
		"headers":   {Type: huma.TypeObject, AdditionalProperties: &huma.Schema{Type: huma.TypeString}},
		"transform": {Type: huma.TypeString, Nullable: true},
	}, "headers", "transform")
	s.AdditionalProperties = nil
	return s
}

// viewPreset is the part of an endpoint's request that its preset says.
func viewPreset(ep *grapnel.Endpoint) *presetView {
	transform := ""
	if ep.Transform == "" {
		transform = ep.Shape().Transform
	}
	headers := map[string]string{}
	for name, value := range ep.SentHeaders() {
		if _, own := ep.Headers[name]; !own {
			headers[name] = value
		}
	}
	if transform == "" && len(headers) == 0 {
		return nil
	}
	return &presetView{headers, orNull(transform)}
}

// secretView is what may be known of a secret.
type secretView struct {
	CreatedAt stamp   `json:"created_at"`
	ExpiresAt *stamp  `json:"expires_at" nullable:"true"`
	PublicKey *string `json:"public_key" doc:"whpk_…, for receivers, when the secret is an Ed25519 key"`
}

// redacted stands for the value of an endpoint's own header, which may be a credential of its
// receiver.
const redacted = "[redacted]"

// createEndpoint makes an endpoint, with a secret that is shown in this answer only.
func createEndpoint(a *api, c *call) (answer, error) {
	var f strict.Faults
	in := decode[newEndpoint](c.body, &f)
	ep := grapnel.Endpoint{
		ID: a.newID(grapnel.EndpointPrefix, c.now), CreatedAt: c.now, UpdatedAt: c.now,
		Tenant: c.tenant(optional{in.Tenant, in.Tenant != ""}, "/tenant", &f),
	}
	a.set(c, &ep, in.EndpointSettings, &f)
	secret, err := a.secret(in.Secret, sign.SymmetricPrefix, &f)
	if err := errors.Join(err, f.Err()); err != nil {
		return answer{}, err
	}
	ep.Secrets = []grapnel.Secret{{Text: secret, CreatedAt: c.now}}
	reply := func(done store.Put) answer {
		ep := ep
		ep.Revision = done.Revision
		v := viewEndpoint(c, &ep, viewHealth(stateOf(&ep), 0, c.now))
		v.Secret = secret
		return jsonAnswer(http.StatusCreated, v)
	}
	done, err := a.Engine.PutEndpoint(c.Context(), c.scope, ep,
		store.With{Once: withEffect(c, reply), Audit: c.entry(grapnel.VerbCreate, &ep, "")})
	return answered(done, done.Answer, err, reply)
}

// listEndpoints lists those in scope, by id, which is by age.
func listEndpoints(a *api, c *call) (answer, error) {
	limit, after, tenant := c.query.limit(), c.position(), c.query.text("tenant")
	if err := c.query.faults.Err(); err != nil {
		return answer{}, err
	}
	found := slices.DeleteFunc(slices.Clone(a.Engine.Endpoints(c.scope)), func(ep grapnel.Endpoint) bool {
		return ep.ID <= after || ep.Queue != nil || tenant != "" && ep.Tenant != tenant
	})
	part := page(c, found, limit, func(ep *grapnel.Endpoint) string { return ep.ID })
	health, err := a.health(c, mostHeldListed, part.Data...)
	if err != nil {
		return answer{}, err
	}
	out := list[endpointView]{Data: make([]endpointView, len(part.Data)), Next: part.Next}
	for i := range part.Data {
		out.Data[i] = viewEndpoint(c, &part.Data[i], health[i])
	}
	return jsonAnswer(http.StatusOK, out), nil
}

// endpoint is the one that the path names, a queue or not: what becomes of deliveries is the same for both.
func (a *api) endpoint(c *call) (grapnel.Endpoint, error) {
	ep, ok := a.Engine.Endpoint(c.scope, c.PathValue("id"))
	if !ok {
		return ep, store.ErrNotFound("endpoint")
	}
	return ep, nil
}

// pushed is the one that the path names if it is no queue. What queues are and how they are changed has routes of its own.
func (a *api) pushed(c *call) (grapnel.Endpoint, error) {
	ep, err := a.endpoint(c)
	if err == nil && ep.Queue != nil {
		err = store.ErrNotFound("endpoint")
	}
	return ep, err
}

func getEndpoint(a *api, c *call) (answer, error) {
	ep, err := a.pushed(c)
	if err != nil {
		return answer{}, err
	}
	return a.showEndpoint(c, ep)
}

func (a *api) showEndpoint(c *call, ep grapnel.Endpoint) (answer, error) {
	health, err := a.health(c, a.Bounds.HeldMost, ep)
	if err != nil {
		return answer{}, err
	}
	return jsonAnswer(http.StatusOK, viewEndpoint(c, &ep, health[0])), nil
}

// patchEndpoint merges a patch into the settings and reads the result as if it had been given as a whole.
func patchEndpoint(a *api, c *call) (answer, error) {
	patch := gjson.ParseBytes(c.body)
	reason := c.reason()
	edit := func(ep *grapnel.Endpoint) error {
		var f strict.Faults
		checkPatch[EndpointSettings](patch, &f)
		merged := strict.Merge(gjson.ParseBytes(encode(settings(ep))), patch, "/", &f)
		if err := f.Err(); err != nil {
			return err
		}
		in := decode[EndpointSettings](merged, &f)
		was := ep.Shape()
		a.set(c, ep, in, &f)
		if err := f.Err(); err != nil {
			return err
		}
		ep.Reshaped(was, a.Clock())
		return needed(a, c, ep)
	}
	ep, err := a.changeEndpoint(c, reason, edit, notOnce)
	if err != nil {
		return answer{}, err
	}
	return a.showEndpoint(c, ep)
}

// changeEndpoint applies edit to the endpoint as it is now, and again if somebody else changed it meanwhile. The slices and maps of
// what edit gets belong to the engine: it replaces them. What was changed is told to the audit, with the caller's words about it.
func (a *api) changeEndpoint(c *call, reason string, edit func(*grapnel.Endpoint) error, once func(grapnel.Endpoint) *store.Once) (grapnel.Endpoint, error) {
	return a.change(c, (*api).pushed, reason, edit, once)
}

// deleteEndpoint stops an endpoint for good.
func deleteEndpoint(a *api, c *call) (answer, error) {
	reason := c.reason()
	ep, err := a.pushed(c)
	if err != nil {
		return answer{}, err
	}
	by := grapnel.By{Actor: c.key.ID, Reason: reason}
	if err := a.Engine.DeleteEndpoint(c.Context(), c.scope, ep.ID, by); err != nil {
		return answer{}, err
	}
	return nothing(), nil
}

// viewEndpoint is an endpoint as its caller may see it.
func viewEndpoint(c *call, ep *grapnel.Endpoint, h healthView) endpointView {
	v := endpointView{
		ID: ep.ID, Tenant: ep.Tenant, URL: ep.URL, Description: ep.Description, EventTypes: ep.EventTypes, Filter: orNull(ep.Filter), Source: orNull(ep.Source),
		Policy: policyRef{ep.PolicyName, ep.Policy}, Ordering: string(ep.Ordering), RateLimit: (*rateLimitView)(ep.RateLimit),
		MaxConcurrency: ep.MaxConcurrency, Format: string(ep.Format), Transform: orNull(ep.Transform), Preset: viewPreset(ep), Secrets: []secretView{},
		Signing: cmp.Or(string(ep.Signing), string(grapnel.SigningStandard)),
		Status:  string(ep.Status), DisabledReason: orNull(ep.DisabledReason), DisabledAt: stampOf(ep.DisabledAt),
		Health: h, CreatedAt: stamp(ep.CreatedAt), UpdatedAt: stamp(ep.UpdatedAt), Revision: ep.Revision,
	}
	if v.EventTypes == nil {
		v.EventTypes = []string{}
	}
	v.Headers = make(map[string]string, len(ep.Headers))
	for name, value := range ep.Headers {
		if !c.key.May(grapnel.ScopeManage) {
			value = redacted
		}
		v.Headers[name] = value
	}
	for _, s := range ep.Secrets {
		if !s.Live(c.now) {
			continue
		}
		public, _ := sign.PublicKey(s.Text) // a symmetric secret has none
		v.Secrets = append(v.Secrets, secretView{stamp(s.CreatedAt), stampOf(s.ExpiresAt), orNull(public)})
	}
	return v
}

// settings are an endpoint's settings as they would be given to make one like it.
func settings(ep *grapnel.Endpoint) EndpointSettings {
	in := EndpointSettings{
		URL: ep.URL, Description: ep.Description, EventTypes: ep.EventTypes, Filter: ep.Filter, Source: ep.Source,
		Policy: encode(policyRef{ep.PolicyName, ep.Policy}), Ordering: string(ep.Ordering), MaxConcurrency: ep.MaxConcurrency,
		Headers: ep.Headers, Format: string(ep.Format), Transform: ep.Transform, Signing: string(ep.Signing), Status: string(ep.Status),
	}
	if ep.RateLimit != nil {
		in.RateLimit = &rateLimit{ep.RateLimit.PerSecond, ep.RateLimit.Burst}
	}
	return in
}

// set puts settings on an endpoint, or says what is wrong with them. What is left out is the default.
func (a *api) set(c *call, ep *grapnel.Endpoint, in EndpointSettings, f *strict.Faults) {
	if in.URL != "" {
		if err := a.CheckURL(in.URL); err != nil {
			f.Add("/url", "%s", err)
		}
	}
	if in.Filter != "" {
		if _, err := match.Compile(in.Filter); err != nil {
			f.Add("/filter", "%s", err)
		}
	}
	if in.Transform != "" {
		if err := transform.Check(in.Transform); err != nil {
			f.Add("/transform", "%s", err)
		}
	}
	if err := a.CheckHeaders(in.Headers); err != nil {
		pointer, detail := "/headers", err.Error()
		if named := (*egress.HeaderError)(nil); errors.As(err, &named) {
			pointer, detail = "/headers/"+strict.Escape(named.Name), named.Detail
		}
		f.Add(pointer, "%s", detail)
	}
	if _, ok := a.Engine.Source(store.Of(ep.Tenant), in.Source); in.Source != "" && !ok {
		f.Add("/source", "there is no such source of the tenant")
	}
	ep.Source = in.Source
	ep.URL, ep.Description, ep.EventTypes, ep.Filter, ep.Headers = in.URL, in.Description, in.EventTypes, in.Filter, in.Headers
	ep.PolicyName, ep.Policy = a.policy(in.Policy, ep.Tenant, f)
	ep.Ordering = grapnel.Ordering(cmp.Or(in.Ordering, string(grapnel.OrderByKey)))
	ep.Transform = in.Transform
	ep.Format = grapnel.Format(cmp.Or(in.Format, string(grapnel.FormatStandard)))
	ep.Signing = grapnel.Signing(cmp.Or(in.Signing, string(grapnel.SigningStandard)))
	if ep.Signing == grapnel.SigningSvix {
		for name := range in.Headers {
			if strings.HasPrefix(strings.ToLower(name), "svix-") {
				f.Add("/headers/"+strict.Escape(name), "is reserved, since signature_headers is svix")
			}
		}
	}
	ep.MaxConcurrency = cmp.Or(in.MaxConcurrency, grapnel.DefaultMaxConcurrency)
	ep.RateLimit = nil
	if r := in.RateLimit; r != nil {
		ep.RateLimit = &grapnel.RateLimit{PerSecond: r.PerSecond, Burst: cmp.Or(r.Burst, int(math.Ceil(r.PerSecond)))}
	}
	setStatus(ep, grapnel.EndpointStatus(cmp.Or(in.Status, string(grapnel.EndpointEnabled))), c)
}

// secret is the one given, if it can sign, or a new one of the same kind.
func (a *api) secret(given, kind string, f *strict.Faults) (string, error) {
	switch {
	case given != "":
		if err := sign.CheckSecret(given); err != nil {
			f.Add("/secret", "%s", err)
		}
		return given, nil
	case kind == sign.PrivatePrefix:
		return sign.NewPrivateKey(a.Random)
	}
	return sign.NewSecret(a.Random)
}

// setStatus notes when and why an endpoint became disabled.
func setStatus(ep *grapnel.Endpoint, status grapnel.EndpointStatus, c *call) {
	switch {
	case status != grapnel.EndpointDisabled:
		ep.DisabledReason, ep.DisabledAt = "", time.Time{}
	case ep.Status != grapnel.EndpointDisabled:
		ep.DisabledReason, ep.DisabledAt = "a person disabled it", c.now
		if why := c.query.text(reasonParam.name); why != "" {
			ep.DisabledReason += ": " + why
		}
	}
	ep.Status = status
}
