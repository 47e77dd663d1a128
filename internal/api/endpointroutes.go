package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/api/openapi"
	"github.com/grapnelhq/grapnel/internal/api/strict"
	"github.com/grapnelhq/grapnel/internal/store"
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
		{method: "POST", path: "/v1/endpoints/{id}/rotate-secret", scope: grapnel.ScopeManage, handle: rotateSecret,
			name: "rotate-secret", tag: "Endpoints", summary: "Give an endpoint a new secret",
			about: "Deliveries are signed with the new secret and, until overlap has passed, with those before. At most 5 sign at once.",
			body:  &intake{types: []string{grapnel.JSONType}, optional: true}, takes: newRotation{},
			gives: map[int]any{200: endpointView{}}},
		{method: "POST", path: "/v1/endpoints/{id}/test", also: []string{"/webhooks/{id}/test"}, scope: grapnel.ScopeManage,
			handle: testEndpoint,
			name:   "test-endpoint", tag: "Endpoints", summary: "Send a test event to one endpoint",
			about: "Makes an event of its own and one delivery of it, whatever the endpoint subscribes to. Never replays anything.",
			body:  &intake{types: []string{grapnel.JSONType}, limit: perEvent, deep: true, optional: true}, takes: newTest{},
			gives: map[int]any{200: deliveryView{}}},
	}
}

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

// stateOf is the health of an endpoint that nothing was sent to yet.
func stateOf(ep *grapnel.Endpoint) grapnel.Health {
	h := grapnel.Health{State: "healthy", Reason: ep.DisabledReason, Since: ep.DisabledAt}
	if ep.Status != grapnel.EndpointEnabled {
		h.State = grapnel.HealthState(ep.Status)
	}
	return h
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

// notOnce is for changes that come to the same however often they are made.
func notOnce(grapnel.Endpoint) *store.Once { return nil }

// changeEndpoint applies edit to the endpoint as it is now, and again if somebody else changed it meanwhile. The slices and maps of
// what edit gets belong to the engine: it replaces them. What was changed is told to the audit, with the caller's words about it.
func (a *api) changeEndpoint(c *call, reason string, edit func(*grapnel.Endpoint) error, once func(grapnel.Endpoint) *store.Once) (grapnel.Endpoint, error) {
	return a.change(c, (*api).pushed, reason, edit, once)
}

// change is changeEndpoint for whatever find finds.
func (a *api) change(c *call, find func(*api, *call) (grapnel.Endpoint, error), reason string, edit func(*grapnel.Endpoint) error,
	once func(grapnel.Endpoint) *store.Once) (grapnel.Endpoint, error) {
	for tries := 1; ; tries++ {
		ep, err := find(a, c)
		if err != nil {
			return ep, err
		}
		before := ep
		if err := edit(&ep); err != nil {
			return ep, err
		}
		ep.UpdatedAt = c.now
		with := store.With{Once: once(ep), Audit: c.entry(verbOf(&before, &ep), &ep, reason)}
		done, err := a.Engine.PutEndpoint(c.Context(), c.scope, ep, with)
		if grapnel.CodeOf(err) == grapnel.CodeConflict && tries < 5 {
			continue
		}
		if err == nil {
			err = first(done.Answer)
		}
		ep.Revision = done.Revision
		return ep, err
	}
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

// needed drops the former shapes of an endpoint that no delivery has, once there are many of them.
func needed(a *api, c *call, ep *grapnel.Endpoint) error {
	if len(ep.Former) <= a.Bounds.FormerShapes {
		return nil
	}
	var kept []grapnel.Shape
	var from time.Time
	for i, s := range ep.Former {
		q := store.DeliveryQuery{Endpoint: ep.ID, From: from, To: s.Until, Limit: 1}
		found, err := a.History.DeliveryList(c.Context(), store.Of(ep.Tenant), q)
		if err != nil {
			return err
		}
		// What was accepted under the last of them may not be in the store yet.
		if len(found) > 0 || i == len(ep.Former)-1 {
			kept = append(kept, s)
		}
		from = s.Until
	}
	if len(kept) > a.Bounds.FormerShapes {
		return grapnel.Errorf(grapnel.CodeConflict, "%d former values of format and transform are stored, each for deliveries that have it. "+
			"Change it again when some are purged, or make another endpoint.", a.Bounds.FormerShapes)
	}
	ep.Former = kept
	return nil
}

// checkPatch refuses what a patch may not name. It looks at the patch and not at what becomes of it, in which a member that is null
// would not show.
func checkPatch[T any](patch gjson.Result, f *strict.Faults) {
	if !patch.IsObject() {
		f.Add("", "must be an object")
		return
	}
	fields := strict.JsonFields(reflect.TypeFor[T]())
	patch.ForEach(func(name, v gjson.Result) bool {
		if _, known := fields[name.Str]; !known {
			f.Add("/"+strict.Escape(name.Str), "is not known here, or cannot be changed")
		}
		return !f.Full()
	})
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

// newRotation is how a secret is rotated.
type newRotation struct {
	Overlap *string `json:"overlap,omitempty" form:"overlap" doc:"how long the secrets before go on signing: 0s to 720h; 24h if not given"`
	Secret  string  `json:"secret,omitempty" minLength:"1" form:"secret" doc:"whsec_… or whsk_…; none: one is made, of the kind that there is"`
	Reason  string  `json:"reason,omitempty" minLength:"1" maxLength:"500" doc:"why; kept in the audit"`
}

// Limits of rotation.
const (
	defaultOverlap = 24 * time.Hour
	longestOverlap = 720 * time.Hour
	mostSecrets    = 5
)

// overlapOf is how long the secrets before go on counting after a rotation.
func overlapOf(text *string) time.Duration {
	if text == nil {
		return defaultOverlap
	}
	return duration(*text)
}

// rotateSecret puts a new secret before those that there are, which go on signing for a while.
func rotateSecret(a *api, c *call) (answer, error) {
	var f strict.Faults
	in := decode[newRotation](c.body, &f)
	overlap := overlapOf(in.Overlap)
	var secret string
	edit := func(ep *grapnel.Endpoint) error {
		kind := sign.SymmetricPrefix
		if len(ep.Secrets) > 0 && strings.HasPrefix(ep.Secrets[0].Text, sign.PrivatePrefix) {
			kind = sign.PrivatePrefix
		}
		var err error
		secret, err = a.secret(in.Secret, kind, &f)
		if err := errors.Join(err, f.Err()); err != nil {
			return err
		}
		ep.Secrets, err = rotated(ep.Secrets, secret, c.now, overlap)
		return err
	}
	reply := func(ep grapnel.Endpoint, secret string, h healthView) func(store.Put) answer {
		return func(done store.Put) answer {
			ep.Revision = done.Revision
			v := viewEndpoint(c, &ep, h)
			v.Secret = secret
			return jsonAnswer(http.StatusOK, v)
		}
	}
	ep, err := a.pushed(c)
	if err != nil {
		return answer{}, err
	}
	// Asked before the transaction, in which nothing may wait for anything.
	health, err := a.health(c, a.Bounds.HeldMost, ep)
	if err != nil {
		return answer{}, err
	}
	once := func(ep grapnel.Endpoint) *store.Once { return withEffect(c, reply(ep, secret, health[0])) }
	if ep, err = a.changeEndpoint(c, in.Reason, edit, once); err != nil {
		return answer{}, err
	}
	return reply(ep, secret, health[0])(store.Put{Revision: ep.Revision}), nil
}

// rotated are the secrets after a new one was put first. Those before it keep their own end if that is nearer.
func rotated(before []grapnel.Secret, text string, now time.Time, overlap time.Duration) ([]grapnel.Secret, error) {
	secrets := []grapnel.Secret{{Text: text, CreatedAt: now}}
	for _, s := range before {
		if s.Text == text {
			return nil, grapnel.Invalid("/secret", "is in use already")
		}
		if end := now.Add(overlap); s.ExpiresAt.IsZero() || end.Before(s.ExpiresAt) {
			s.ExpiresAt = end
		}
		if s.Live(now) {
			secrets = append(secrets, s)
		}
	}
	if len(secrets) > mostSecrets {
		return nil, grapnel.Errorf(grapnel.CodeConflict, "%d secrets sign already. Wait until one expires, or rotate with overlap 0s.", mostSecrets)
	}
	return secrets, nil
}

// newTest is what a test event carries.
type newTest struct {
	Type string          `json:"type,omitempty" form:"type" doc:"grapnel.test if not given"`
	Data json.RawMessage `json:"data,omitempty" doc:"any JSON"`

	// Of an event as a receiver got it, which can be given as it is. A test is an event of its own all the same.
	ID        string `json:"id,omitempty" maxLength:"64" doc:"not used: the test gets an id of its own"`
	Timestamp string `json:"timestamp,omitempty" maxLength:"64" doc:"not used"`
	Occurred  string `json:"occurredAt,omitempty" maxLength:"64" doc:"not used; as the preset parseo writes it"`
}

// testEndpoint sends one endpoint an event of its own.
func testEndpoint(a *api, c *call) (answer, error) {
	var f strict.Faults
	in := decode[newTest](c.body, &f)
	d := draft{kind: optional{in.Type, true}, data: in.Data, hasData: true, contentType: grapnel.JSONType}
	if in.Type == "" {
		d.kind.text = "grapnel.test"
	}
	if in.Data == nil {
		d.data = []byte(`{"message":"This is a test of this endpoint."}`)
	}
	ep, err := a.endpoint(c)
	if err != nil {
		return answer{}, err
	}
	if err := a.tooMuchData(d.data); err != nil {
		return answer{}, err
	}
	d.tenant = optional{ep.Tenant, true}
	ev := a.event(c, &d, "/", &f).Event
	if err := f.Err(); err != nil {
		return answer{}, err
	}
	was := situation{endpoint: &ep, now: c.now, ids: c.ids, urgent: true}
	reply := func(done store.Accepted) answer { return tested(was, ev, done) }
	done, err := a.Engine.Test(c.Context(), c.scope, ep.ID, ev, withEffect(c, reply))
	if err == nil {
		err = first(done.Answer)
	}
	if err != nil {
		return answer{}, err
	}
	noteTest(a, c, &ep, done)
	return reply(done), nil
}

// tested shows the delivery of a test event. Without a key it is the head of its own line, so the engine names it.
func tested(s situation, ev *grapnel.Event, done store.Accepted) answer {
	d := grapnel.Delivery{
		EventID: ev.ID, EndpointID: s.endpoint.ID, Tenant: ev.Tenant, Type: ev.Type, Status: grapnel.Pending, CreatedAt: done.Events[0].AcceptedAt,
	}
	for _, h := range done.Heads {
		d.Seq, d.Waiting = h.Delivery, grapnel.Waiting{Head: true, Due: h.Due, Anchor: h.Anchor}
	}
	s.delivery = &d
	return jsonAnswer(http.StatusOK, viewDelivery(s, nil).with(s))
}
