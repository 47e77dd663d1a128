package api

import (
	"errors"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/match"
	"github.com/grapnelhq/grapnel/internal/face/api/strict"
	"github.com/grapnelhq/grapnel/internal/send/egress"
	"github.com/grapnelhq/grapnel/internal/send/transform"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/sign"
	"github.com/grapnelhq/grapnel/wire"
)

func endpointRoutes() []route {
	return []route{
		{method: "POST", path: "/v1/endpoints",
			scope: grapnel.ScopeManage, portal: grapnel.ScopeEndpointsWrite, whole: true, handle: createEndpoint,
			name: "create-endpoint", tag: "Endpoints", summary: "Create an endpoint",
			about: "The answer shows the secret; no other answer does. Where the tenant requires consent, the endpoint is paused until its address " +
				"has answered a challenge, and so it is after an update of url, proxy or oauth2.token_url.",
			body: jsonBody, takes: wire.NewEndpoint{}, gives: map[int]any{201: wire.Endpoint{}}},
		{method: "GET", path: "/v1/endpoints", scope: grapnel.ScopeRead, portal: grapnel.ScopeRead, handle: listEndpoints,
			name: "list-endpoints", tag: "Endpoints", summary: "List endpoints",
			query: pageOf(tenantParam, idsParam, searchParam, param{name: "label", doc: "only endpoints with this label: NAME=VALUE, or NAME for any value"}),
			gives: map[int]any{200: list[wire.Endpoint]{}}},
		{method: "GET", path: "/v1/endpoints/{id}", scope: grapnel.ScopeRead, portal: grapnel.ScopeRead,
			handle: getting((*api).pushed, (*api).showEndpoint),
			name:   "get-endpoint", tag: "Endpoints", summary: "Get an endpoint", gives: map[int]any{200: wire.Endpoint{}}},
		{method: "PATCH", path: "/v1/endpoints/{id}", scope: grapnel.ScopeManage, portal: grapnel.ScopeEndpointsWrite,
			handle: patching((*api).pushed, (*api).showEndpoint, settings, reset),
			name:   "update-endpoint", tag: "Endpoints", summary: "Change an endpoint",
			about: "A JSON merge patch: null sets a field back to its default. When pausing or disabling is answered, no further attempt starts. " +
				"Enabling a disabled endpoint resets the count towards disabling it and delivers its held deliveries.",
			query: []param{reasonParam}, body: patchBody, takes: wire.NewEndpoint{}, gives: map[int]any{200: wire.Endpoint{}}},
		{method: "DELETE", path: "/v1/endpoints/{id}", scope: grapnel.ScopeManage, portal: grapnel.ScopeEndpointsWrite,
			handle: deleting((*api).pushed),
			name:   "delete-endpoint", tag: "Endpoints", summary: "Delete an endpoint",
			about: "Its pending deliveries end as dropped. Its history stays.", query: []param{reasonParam}, gives: map[int]any{204: nil}},
	}
}

// The fields of endpoints that answers and requests copy.
var (
	endpointFields = pairOf[grapnel.Endpoint, wire.Endpoint]("Policy", "PolicyChanges", "Headers", "PresetShape", "Secret", "Secrets",
		"Health", "OAuth2", "TLS", "Proxy", "Target", "ClientCertEnds", "JWKSURL", "Consent")
	settingFields = pairOf[grapnel.Endpoint, wire.NewEndpoint]("Tenant", "Policy", "Secret", "OAuth2", "TLS", "Proxy", "Target")
)

// viewPreset is the part of an endpoint's request that its policy's preset says.
func viewPreset(ep *grapnel.Endpoint) *wire.PresetShape {
	preset := ep.Policy.RequestShape()
	v := wire.PresetShape{Headers: map[string]string{}}
	if ep.Transform == "" {
		v.Transform = ep.Shape().Transform
	}
	if ep.Format == "" {
		v.Format = preset.Format
	}
	if ep.Ordering == "" {
		v.Ordering = preset.Ordering
	}
	for name, value := range ep.SentHeaders() {
		if _, own := ep.Headers[name]; !own {
			v.Headers[name] = value
		}
	}
	if v.Transform == "" && v.Format == "" && v.Ordering == "" && len(v.Headers) == 0 {
		return nil
	}
	return &v
}

// viewChanges are the fields of an endpoint's own policy that differ from the policy's base.
func (a *api) viewChanges(ep *grapnel.Endpoint) []string {
	if ep.PolicyName != "" {
		return nil
	}
	return ep.Policy.Changes(a.base(ep.Tenant, &ep.Policy))
}

// createEndpoint makes an endpoint, with a secret that is shown in this answer only.
func createEndpoint(a *api, c *call) (answer, error) {
	var f strict.Faults
	in := decode[wire.NewEndpoint](c.body, &f)
	ep := a.newEndpoint(c, grapnel.EndpointPrefix, in.Tenant, &f)
	a.setWhere(c, &ep, &in, &f)
	a.set(c, &ep, &in, &f)
	secret, err := a.secret(in.Secret, sign.SymmetricPrefix, &f)
	if err := errors.Join(err, f.Err()); err != nil {
		return answer{}, err
	}
	ep.Secrets = []grapnel.Secret{{Text: secret, CreatedAt: c.now}}
	return a.create(c, ep, func(ep *grapnel.Endpoint) any {
		v := a.viewEndpoint(c, ep, viewHealth(stateOf(ep), 0, c.now))
		if c.mayReveal() {
			v.Secret = secret
		}
		return v
	})
}

func listEndpoints(a *api, c *call) (answer, error) {
	label, ids := c.query.text("label"), c.query.all("id")
	return listOf(a, c, func(ep *grapnel.Endpoint) bool {
		return ep.Receives() && (label == "" || labelled(ep, label)) && (len(ids) == 0 || slices.Contains(ids, ep.ID))
	}, withHealth(a, c, func(ep *grapnel.Endpoint, h wire.Health) wire.Endpoint { return a.viewEndpoint(c, ep, h) }))
}

// idsParam lets a page with the names of some endpoints ask for these, however many there are.
var idsParam = param{name: "id", form: "id", repeat: true, doc: "only these endpoints; repeated or separated by commas"}

// labelled says whether an endpoint has a label: NAME=VALUE, or NAME with any value.
func labelled(ep *grapnel.Endpoint, label string) bool {
	name, value, exact := strings.Cut(label, "=")
	is, has := ep.Labels[name]
	return has && (!exact || is == value)
}

// endpoint is the one that the path names, a queue or not: what becomes of deliveries is the same
// for both.
func (a *api) endpoint(c *call) (grapnel.Endpoint, error) {
	ep, ok := a.Engine.Endpoint(c.scope, c.PathValue("id"))
	if !ok {
		return ep, store.ErrNotFound("endpoint")
	}
	return ep, nil
}

// pushed is the one that the path names if it is neither a queue nor a channel. How these are
// changed has routes of its own.
func (a *api) pushed(c *call) (grapnel.Endpoint, error) {
	ep, err := a.endpoint(c)
	if err == nil && !ep.Receives() {
		err = store.ErrNotFound("endpoint")
	}
	return ep, err
}

func (a *api) showEndpoint(c *call, ep grapnel.Endpoint) (answer, error) {
	health, err := a.health(c, a.Bounds.HeldMost, ep)
	if err != nil {
		return answer{}, err
	}
	return jsonAnswer(http.StatusOK, a.viewEndpoint(c, &ep, health[0])), nil
}

// reset puts changed settings on an endpoint. Events accepted before keep the former shape.
func reset(a *api, c *call, ep *grapnel.Endpoint, in *wire.NewEndpoint, f *strict.Faults) {
	was := ep.Shape()
	a.setWhere(c, ep, in, f)
	a.set(c, ep, in, f)
	if f.Err() == nil {
		ep.Reshaped(was, a.Clock())
		f.Instead = needed(a, c, ep)
	}
}

// viewEndpoint is an endpoint as its caller may see it.
func (a *api) viewEndpoint(c *call, ep *grapnel.Endpoint, h wire.Health) wire.Endpoint {
	v := wire.Endpoint{Policy: showPolicy(ep), PolicyChanges: a.viewChanges(ep), PresetShape: viewPreset(ep), Health: h}
	endpointFields.show(ep, &v)
	v.Ordering, v.Format = ep.Order(), ep.Shape().Format
	strict.Defaults(&v)
	v.URL = c.address(v.URL)
	v.OAuth2, v.TLS, v.Proxy = viewReach(c.address, ep)
	v.Target, v.Consent = viewTarget(ep.Target), viewConsent(ep)
	v.ClientCertEnds, v.JWKSURL = timeOf(egress.ClientCertUntil(ep.TLS)), a.jwksURL(c, ep)
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
		v.Secrets = append(v.Secrets, wire.Secret{CreatedAt: s.CreatedAt, ExpiresAt: timeOf(s.ExpiresAt), PublicKey: public})
	}
	return v
}

// viewConsent shows an endpoint's consent; nil: its address was asked for none.
func viewConsent(ep *grapnel.Endpoint) *wire.Consent {
	is := ep.Consent
	if is == nil {
		return nil
	}
	return &wire.Consent{Since: is.Since, Asked: is.Asked, AskedAt: timeOf(is.AskedAt), NextAt: timeOf(is.Next), Cause: is.Cause,
		GivenAt: timeOf(is.GivenAt)}
}

// settings are an endpoint's settings as they would be given to make one like it.
func settings(ep *grapnel.Endpoint) wire.NewEndpoint {
	in := wire.NewEndpoint{Policy: showPolicy(ep)}
	settingFields.show(ep, &in)
	in.OAuth2, in.TLS, in.Proxy = viewReach(func(url string) string { return url }, ep)
	if in.Target = viewTarget(ep.Target); in.Target != nil {
		in.URL = "" // it is made of the target
	}
	return in
}

// set puts settings on an endpoint, or adds their faults.
func (a *api) set(c *call, ep *grapnel.Endpoint, in *wire.NewEndpoint, f *strict.Faults) {
	// Values that were saved before are not judged again, see setWhere.
	if in.Filter != "" && in.Filter != ep.Filter {
		if err := match.Check(in.Filter); err != nil {
			f.Add("/filter", "%s", err)
		}
	}
	if in.Transform != "" && in.Transform != ep.Transform {
		if err := transform.Check(in.Transform); err != nil {
			f.Add("/transform", "%s", err)
		}
	}
	for name, value := range in.Headers {
		is, stored := ep.Headers[name]
		switch {
		case value != redacted:
		case stored:
			in.Headers[name] = is // a value as answers redact it stays what it is
		default:
			f.Add("/headers/"+strict.Escape(name), "must not be %s, unless the endpoint has a value of this header", redacted)
		}
	}
	if err := a.CheckHeaders(in.Headers); err != nil && !maps.Equal(in.Headers, ep.Headers) {
		named, _ := errors.AsType[egress.HeaderErrors](err)
		for _, wrong := range named {
			f.Add("/headers/"+strict.Escape(wrong.Name), "%s", wrong.Detail)
		}
		if named == nil {
			f.Add("/headers", "%s", err)
		}
	}
	if _, ok := a.Engine.Source(store.Of(ep.Tenant), in.Source); in.Source != "" && !ok {
		f.Add("/source", "source not found")
	}
	for i, pattern := range in.EventTypes {
		// alerts are the tenant's own, so a customer keeps such a pattern and cannot add one
		if c.scope.HidesAlerts() && grapnel.WantsAlerts(pattern) && !slices.Contains(ep.EventTypes, pattern) {
			f.Add("/event_types/"+strconv.Itoa(i), "is a type that a portal cannot subscribe to")
		}
	}
	ep.PolicyName, ep.Policy = a.policy(in.Policy, ep.Tenant, &ep.Policy, f)
	if in.Signing == grapnel.SigningSvix {
		for name := range in.Headers {
			if strings.HasPrefix(strings.ToLower(name), "svix-") {
				f.Add("/headers/"+strict.Escape(name), "is reserved, since signature_headers is svix")
			}
		}
	}
	limitRate(in.RateLimit)
	a.setReach(c, ep, in, f)
	setStatus(ep, in.Status, c) // before the status is copied, since it compares
	settingFields.set(in, ep)
}

// limitRate gives a rate without a burst one of a second's worth.
func limitRate(r *grapnel.RateLimit) {
	if r != nil && r.Burst == 0 {
		r.Burst = int(math.Ceil(r.PerSecond))
	}
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
