package api

import (
	"cmp"
	"errors"
	"math"
	"reflect"
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
	"github.com/grapnelhq/grapnel/policy"
	"github.com/grapnelhq/grapnel/sign"
)

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

type rateLimit struct {
	PerSecond float64 `json:"per_second" required:"true" minimum:"0.0001" maximum:"100000"`
	Burst     int     `json:"burst,omitempty" minimum:"1" maximum:"100000" doc:"one second's worth if not given"`
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

// rateLimitView is a limit or null.
type rateLimitView struct {
	PerSecond float64 `json:"per_second"`
	Burst     int     `json:"burst"`
}

// Schema says that it may be null.
func (rateLimitView) Schema(r huma.Registry) *huma.Schema {
	return huma.SchemaFromType(r, reflect.TypeFor[struct {
		PerSecond float64 `json:"per_second"`
		Burst     int     `json:"burst"`
	}]())
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

// policy finds the policy that an endpoint names, or reads the one that it brings.
func (a *api) policy(raw policyInput, tenant string, f *strict.Faults) (string, policy.Policy) {
	name := "standard"
	switch v := gjson.ParseBytes(raw); {
	case len(raw) == 0:
	case v.IsObject():
		p, err := policy.Parse(raw)
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
		f.Add("/policy", "there is no policy of this name")
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
