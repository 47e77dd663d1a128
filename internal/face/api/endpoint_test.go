package api

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/api/openapi"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/sign"
)

func (w *world) stored(endpoint any) grapnel.Endpoint {
	w.t.Helper()
	ep, ok := w.engine.Endpoint(store.Everyone(), endpoint.(string))
	if !ok {
		w.t.Fatalf("there is no endpoint %v", endpoint)
	}
	return ep
}

// JSON has no integers of its own: a number without a fraction is one, however it is written.
func TestIntegersMayHavePoints(t *testing.T) {
	w := newWorld(t)
	got := w.as(admin, 201, "POST", "/v1/endpoints",
		`{"url":"https://a.example","max_concurrency":32.0,"policy":{"max_attempts":1e1,"schedule":{"delays":["0s","1m"],"tail":"repeat"}}}`)
	if got["max_concurrency"] != 32.0 || got["policy"].(map[string]any)["max_attempts"] != 10.0 {
		t.Errorf("it is %v", got)
	}
	w.as(admin, 422, "POST", "/v1/endpoints", `{"url":"https://a.example","max_concurrency":32.5}`)
}

func TestDefaultsOfAnEndpoint(t *testing.T) {
	w := newWorld(t)
	made := w.must(201, "POST", "/v1/endpoints",
		`{"url":"https://a.example/x?y=z","event_types":null,"policy":null,"rate_limit":null,"secret":null,"tenant":null}`)
	want := map[string]any{
		"url": "https://a.example/x?y=z", "tenant": "default", "description": "", "event_types": []any{}, "filter": nil,
		"policy": "default", "ordering": "key", "rate_limit": nil,
		"max_concurrency": 32.0, "headers": map[string]any{}, "format": "standard", "signature_headers": "standard",
		"status": "enabled", "disabled_reason": nil, "disabled_at": nil, "revision": 1.0,
	}
	for field, v := range want {
		if d := cmp.Diff(v, made[field]); d != "" {
			t.Errorf("%s: %s", field, d)
		}
	}
	if sign.CheckSecret(made["secret"].(string)) != nil {
		t.Error("the secret that was made cannot sign")
	}
	ep := w.stored(made["id"])
	if ep.PolicyName != "default" || ep.Policy.MaxAttempts == 0 || len(ep.Secrets) != 1 || ep.Secrets[0].Text != made["secret"] {
		t.Errorf("stored %+v", ep)
	}
	got := w.must(200, "GET", "/v1/endpoints/"+ep.ID, "")
	if _, shown := got["secret"]; shown {
		t.Error("the secret came back")
	}
	delete(made, "secret")
	if d := cmp.Diff(made, got); d != "" {
		t.Errorf("made and got differ: %s", d)
	}
}

const everything = `{"url":"https://a.example","tenant":"acme","description":"d\nd","event_types":["invoice.*","*"],"filter":"event.type == \"a\" && event.data.n > 1",
	"policy":{"timeout":"3s","max_attempts":4},"ordering":"none","rate_limit":{"per_second":2.5},"max_concurrency":7,"headers":{"X-A":"1","x.b":"2"},"format":"raw","transform":"{id, n: .data.n}","signature_headers":"svix",
	"secret":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw","status":"disabled"}`

func TestEverythingOfAnEndpoint(t *testing.T) {
	w := newWorld(t)
	made := w.must(201, "POST", "/v1/endpoints", everything)
	ep := w.stored(made["id"])
	if made["secret"] != "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" || ep.Tenant != "acme" || ep.Description != "d\nd" ||
		!slices.Equal(ep.EventTypes, []string{"invoice.*", "*"}) ||
		ep.Policy.MaxAttempts != 4 || ep.PolicyName != "" || ep.Ordering != grapnel.Unordered ||
		*ep.RateLimit != (grapnel.RateLimit{PerSecond: 2.5, Burst: 3}) ||
		ep.MaxConcurrency != 7 || ep.Headers["x.b"] != "2" || ep.Format != grapnel.FormatRaw ||
		ep.Transform != "{id, n: .data.n}" || ep.Signing != grapnel.SigningSvix || ep.Status != grapnel.EndpointDisabled ||
		ep.DisabledAt != w.clock || ep.DisabledReason == "" {
		t.Errorf("stored %+v", ep)
	}
	if p := made["policy"].(map[string]any); p["timeout"] != "3s" || p["jitter"] != 0.1 {
		t.Errorf("the policy is shown as %v", p)
	}
}

func TestMergePatchOfAnEndpoint(t *testing.T) {
	for _, c := range []struct {
		patch string
		check func(grapnel.Endpoint) bool
	}{
		{`{"url":"https://b.example"}`, func(ep grapnel.Endpoint) bool { return ep.URL == "https://b.example" && ep.MaxConcurrency == 7 }},
		{`{"description":null,"filter":null,"ordering":null,"format":null,"max_concurrency":null}`, func(ep grapnel.Endpoint) bool {
			return ep.Description == "" && ep.Filter == "" && ep.Ordering == "" && ep.Ordered() &&
				ep.Format == "" && ep.Shape().Format == grapnel.FormatStandard && ep.MaxConcurrency == 32
		}},
		{`{"event_types":["b"]}`, func(ep grapnel.Endpoint) bool { return slices.Equal(ep.EventTypes, []string{"b"}) }},
		{`{"event_types":null}`, func(ep grapnel.Endpoint) bool { return len(ep.EventTypes) == 0 }},
		{`{"headers":{"X-A":null,"X-C":"3"}}`, func(ep grapnel.Endpoint) bool {
			return cmp.Equal(ep.Headers, map[string]string{"x.b": "2", "X-C": "3"})
		}},
		{`{"transform":null}`, func(ep grapnel.Endpoint) bool {
			return ep.Transform == "" && len(ep.Former) == 1 && ep.Former[0].Transform == "{id, n: .data.n}" &&
				ep.Former[0].Format == grapnel.FormatRaw
		}},
		{`{"format":"standard"}`, func(ep grapnel.Endpoint) bool { return len(ep.Former) == 1 && ep.Transform == "{id, n: .data.n}" }},
		{`{"description":"e","headers":null,"transform":"{id, n: .data.n}"}`, func(ep grapnel.Endpoint) bool { return len(ep.Former) == 0 }},
		{`{"headers":null}`, func(ep grapnel.Endpoint) bool { return len(ep.Headers) == 0 }},
		{`{"rate_limit":{"burst":9}}`, func(ep grapnel.Endpoint) bool { return *ep.RateLimit == grapnel.RateLimit{PerSecond: 2.5, Burst: 9} }},
		{`{"rate_limit":null}`, func(ep grapnel.Endpoint) bool { return ep.RateLimit == nil }},
		{`{"policy":{"timeout":"4s"}}`, func(ep grapnel.Endpoint) bool {
			return ep.Policy.Timeout.String() == "4s" && ep.Policy.MaxAttempts == 4
		}},
		{`{"policy":{"timeout":null}}`, func(ep grapnel.Endpoint) bool {
			return ep.Policy.Timeout.String() == "15s" && ep.Policy.MaxAttempts == 4
		}},
		{`{"policy":"paylera"}`, func(ep grapnel.Endpoint) bool {
			return ep.PolicyName == "paylera" && ep.Policy.Timeout.String() == "10s"
		}},
		{`{"policy":null}`, func(ep grapnel.Endpoint) bool { return ep.PolicyName == "default" }},
		{`{"status":"enabled"}`, func(ep grapnel.Endpoint) bool {
			return ep.Status == "enabled" && ep.DisabledReason == "" && ep.DisabledAt.IsZero()
		}},
		{`{"status":"disabled","description":"still"}`, func(ep grapnel.Endpoint) bool {
			return ep.DisabledAt.Year() == 2026 &&
				ep.DisabledAt.Hour() == 3
		}},
		{`{}`, func(ep grapnel.Endpoint) bool { return ep.Description == "d\nd" }},
	} {
		t.Run(c.patch, func(t *testing.T) {
			w := newWorld(t)
			made := w.must(201, "POST", "/v1/endpoints", everything)
			id := made["id"].(string)
			before := w.stored(id)
			w.clock = w.clock.Add(time.Hour)
			got := w.must(200, "PATCH", "/v1/endpoints/"+id, c.patch, "Content-Type", openapi.TypeMergePatch)
			ep := w.stored(id)
			if !c.check(ep) {
				t.Errorf("stored %+v", ep)
			}
			if ep.Revision != 2 || !ep.UpdatedAt.Equal(w.clock) || got["revision"] != 2.0 || !cmp.Equal(ep.Secrets, before.Secrets) ||
				ep.Tenant != "acme" || ep.CreatedAt != before.CreatedAt {
				t.Errorf("what is not a setting has changed: %+v", ep)
			}
			if d := cmp.Diff(got, w.must(200, "GET", "/v1/endpoints/"+id, "")); d != "" {
				t.Errorf("answered and got differ: %s", d)
			}
			// The same patch again changes nothing more.
			again := w.must(200, "PATCH", "/v1/endpoints/"+id, c.patch)
			delete(again, "revision")
			delete(got, "revision")
			if d := cmp.Diff(got, again); d != "" {
				t.Errorf("twice is not the same as once: %s", d)
			}
		})
	}
}

// racing changes the endpoint under a patch as often as it is told to.
type racing struct {
	*fakeEngine
	times int
}

func (r *racing) Endpoint(scope store.Scope, id string) (grapnel.Endpoint, bool) {
	ep, ok := r.fakeEngine.Endpoint(scope, id)
	if ok && r.times > 0 {
		r.times--
		other := ep
		other.Description = fmt.Sprint("changed ", r.times)
		if _, err := r.PutEndpoint(r.fakeEngine.t.Context(), store.Everyone(), other, store.With{}); err != nil {
			r.fakeEngine.t.Error(err)
		}
	}
	return ep, ok
}

func TestPatchesThatMeetLoseNothing(t *testing.T) {
	for times, status := range map[int]int{0: 200, 3: 200, 9: 409} {
		w := newWorld(t)
		id := w.endpoint(admin, "")
		race := &racing{w.engine, times}
		w.options.Engine = race
		w.handler = New(w.options)
		w.must(status, "PATCH", "/v1/endpoints/"+id, `{"max_concurrency":5}`)
		if ep := w.stored(id); status == 200 && (ep.MaxConcurrency != 5 || times > 0 && ep.Description != "changed 0") {
			t.Errorf("%d races: stored %+v", times, ep)
		}
	}
}

// TestSavedExpressionsDoNotStandInTheWay: a filter, or a source's expression, that was saved when
// more patterns were allowed works on. So does every change of another field, such as the status.
func TestSavedExpressionsDoNotStandInTheWay(t *testing.T) {
	w := newWorld(t)
	many := strings.Repeat(`"a".matches("^(a{990})") || `, 6) + "true"
	ep := w.stored(w.endpoint(admin, ""))
	ep.Filter = many
	src, _ := w.engine.Source(store.Everyone(), w.shop(""))
	src.Type, src.Key = many+` ? "x" : "y"`, many+` ? "k" : "l"`
	_, one := w.engine.PutEndpoint(t.Context(), store.Everyone(), ep, store.With{})
	_, other := w.engine.PutSource(t.Context(), store.Everyone(), src, store.With{})
	if err := errors.Join(one, other); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{"/v1/endpoints/" + ep.ID, "/v1/sources/" + src.ID} {
		w.must(200, "PATCH", at, `{"status":"paused"}`)
		w.must(200, "PATCH", at, `{"description":"x","status":"enabled"}`)
	}
	w.must(422, "PATCH", "/v1/endpoints/"+ep.ID, `{"filter":`+strconv.Quote(" "+many)+`}`)
	w.must(422, "PATCH", "/v1/sources/"+src.ID, `{"type":`+strconv.Quote(" "+src.Type)+`}`)
	w.must(422, "PATCH", "/v1/sources/"+src.ID, `{"key":`+strconv.Quote(src.Type)+`}`)
}

func TestRotation(t *testing.T) {
	w := newWorld(t)
	made := w.must(201, "POST", "/v1/endpoints", `{"url":"https://a.example"}`)
	id := made["id"].(string)
	rotate := func(status int, body string) map[string]any {
		t.Helper()
		return w.must(status, "POST", "/v1/endpoints/"+id+"/rotate-secret", body)
	}
	texts := func() (all []string) {
		for _, s := range w.stored(id).Secrets {
			all = append(all, s.Text)
		}
		return all
	}
	first := rotate(200, "")
	if got := texts(); !slices.Equal(got, []string{first["secret"].(string), made["secret"].(string)}) {
		t.Fatalf("the secrets are %v", got)
	}
	if ends := w.stored(id).Secrets[1].ExpiresAt; !ends.Equal(w.clock.Add(24 * time.Hour)) {
		t.Errorf("the old one ends at %v", ends)
	}
	if s := first["secrets"].([]any); len(s) != 2 || s[0].(map[string]any)["expires_at"] != nil {
		t.Errorf("shown as %v", s)
	}
	// A longer overlap does not lengthen what ends sooner.
	w.clock = w.clock.Add(time.Hour)
	rotate(200, `{"overlap":"720h"}`)
	if s := w.stored(id).Secrets; len(s) != 3 || !s[2].ExpiresAt.Equal(w.clock.Add(23*time.Hour)) {
		t.Errorf("the secrets are %+v", s)
	}
	rotate(200, `{"overlap":"1h"}`)
	rotate(200, `{"overlap":"1h"}`)
	if p := rotate(409, `{"overlap":"1h"}`); p["code"] != "conflict" || len(texts()) != 5 {
		t.Errorf("a sixth: %v", p)
	}
	w.clock = w.clock.Add(time.Hour)
	rotate(200, `{"secret":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}`)
	if got := texts(); got[0] != "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" || len(got) != 2 {
		t.Errorf("expired ones are kept: %v", got)
	}
	rotate(422, `{"secret":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}`)
	only := rotate(200, `{"overlap":"0s"}`)
	if got := texts(); !slices.Equal(got, []string{only["secret"].(string)}) {
		t.Errorf("after overlap 0 the secrets are %v", got)
	}
	if r := w.ask(admin, "GET", "/v1/endpoints", ""); strings.Contains(string(r.body), "whsec_") || strings.Contains(string(r.body), "whsk_") {
		t.Errorf("a secret came back: %s", r.body)
	}
}

// TestRotationToASecretThatHasEnded: a rotation can be undone after its overlap, too. A secret that
// has ended is not in use.
func TestRotationToASecretThatHasEnded(t *testing.T) {
	w := newWorld(t)
	made := w.must(201, "POST", "/v1/endpoints", `{"url":"https://a.example"}`)
	id, first := made["id"].(string), made["secret"].(string)
	w.must(200, "POST", "/v1/endpoints/"+id+"/rotate-secret", `{"overlap":"1h"}`)
	w.must(422, "POST", "/v1/endpoints/"+id+"/rotate-secret", `{"secret":"`+first+`"}`)
	w.clock = w.clock.Add(time.Hour)
	w.must(200, "POST", "/v1/endpoints/"+id+"/rotate-secret", `{"secret":"`+first+`"}`)
	if s := w.stored(id).Secrets; len(s) != 2 || s[0].Text != first || !s[0].ExpiresAt.IsZero() || s[1].Text == first {
		t.Errorf("the secrets are %+v", s)
	}
}

func TestAsymmetricSecretsStayOfTheirKind(t *testing.T) {
	w := newWorld(t)
	private, err := sign.NewPrivateKey(w.options.Random)
	if err != nil {
		t.Fatal(err)
	}
	id := w.must(201, "POST", "/v1/endpoints", `{"url":"https://a.example","secret":"`+private+`"}`)["id"].(string)
	rotated := w.must(200, "POST", "/v1/endpoints/"+id+"/rotate-secret", "")
	public, err := sign.PublicKey(rotated["secret"].(string))
	if err != nil {
		t.Fatalf("the new secret is of another kind: %v", err)
	}
	if shown := w.must(200, "GET", "/v1/endpoints/"+id, "")["secrets"].([]any)[0].(map[string]any)["public_key"]; shown != public {
		t.Errorf("the public key is shown as %v, want %s", shown, public)
	}
}

// TestPublicKeys: anybody who knows an endpoint's id gets its live Ed25519 keys and can verify with
// them; one without such keys cannot be told from one that does not exist.
func TestPublicKeys(t *testing.T) {
	w := newWorld(t)
	private, err := sign.NewPrivateKey(w.options.Random)
	if err != nil {
		t.Fatal(err)
	}
	made := w.must(201, "POST", "/v1/endpoints", `{"url":"https://a.example","secret":"`+private+`"}`)
	id, url := made["id"].(string), "/v1/endpoints/"+made["id"].(string)+"/jwks.json"
	if made["jwks_url"] != url {
		t.Errorf("jwks_url is %v", made["jwks_url"])
	}
	keys := func() (all []string) {
		t.Helper()
		r := w.ask("", "GET", url, "")
		if r.StatusCode != 200 || r.Header.Get("Cache-Control") != "public, max-age=300" {
			t.Fatalf("%d, %v: %s", r.StatusCode, r.Header, r.body)
		}
		for _, k := range r.object(t)["keys"].([]any) {
			k := k.(map[string]any)
			if len(k) != 6 || k["kty"] != "OKP" || k["crv"] != "Ed25519" || k["use"] != "sig" || k["alg"] != "EdDSA" || len(k["kid"].(string)) != 43 {
				t.Errorf("the key is %v", k)
			}
			raw, err := base64.RawURLEncoding.DecodeString(k["x"].(string))
			if err != nil {
				t.Error(err)
			}
			all = append(all, sign.PublicPrefix+base64.StdEncoding.EncodeToString(raw))
		}
		return all
	}
	verifies := func(secret string, by []string) {
		t.Helper()
		header, err := sign.Sign("evt_1", w.clock, []byte("{}"), secret)
		if err != nil {
			t.Fatal(err)
		}
		h := http.Header{}
		h.Set(sign.HeaderID, "evt_1")
		h.Set(sign.HeaderTimestamp, strconv.FormatInt(w.clock.Unix(), 10))
		h.Set(sign.HeaderSignature, header)
		v, err := sign.NewVerifier(sign.VerifierOptions{Secrets: by, Now: func() time.Time { return w.clock }})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := v.Verify(h, []byte("{}")); err != nil {
			t.Errorf("a signature does not verify: %v", err)
		}
	}
	first := keys()
	verifies(private, first)
	next := w.must(200, "POST", "/v1/endpoints/"+id+"/rotate-secret", `{"overlap":"1h"}`)["secret"].(string)
	if both := keys(); len(both) != 2 || both[1] != first[0] {
		t.Errorf("during the overlap there are %v", both)
	} else {
		verifies(next, both[:1])
	}
	w.clock = w.clock.Add(time.Hour)
	if now := keys(); len(now) != 1 || now[0] == first[0] {
		t.Errorf("after the overlap there are %v", now)
	}

	symmetric := w.must(201, "POST", "/v1/endpoints", `{"url":"https://a.example"}`)
	if symmetric["jwks_url"] != nil {
		t.Errorf("jwks_url is %v", symmetric["jwks_url"])
	}
	w.must(204, "DELETE", "/v1/endpoints/"+id, "")
	queue := w.must(201, "POST", "/v1/queues", `{"name":"orders"}`)
	none := w.ask("", "GET", "/v1/endpoints/ep_none/jwks.json", "")
	for _, other := range []string{id, symmetric["id"].(string), queue["id"].(string), "%00"} {
		r := w.ask("", "GET", "/v1/endpoints/"+other+"/jwks.json", "")
		if r.StatusCode != 404 || r.object(t)["detail"] != none.object(t)["detail"] || r.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %s", other, r.StatusCode, r.body)
		}
	}
}

func TestTestEventsGoToOneEndpoint(t *testing.T) {
	w := newWorld(t)
	id := w.endpoint(acmeAdmin, `,"event_types":["never"]`)
	w.endpoint(acmeAdmin, "")
	got := w.must(200, "POST", "/v1/endpoints/"+id+"/test", `{"type":"x.y","data": {"a" : 1.0 }}`)
	d := w.only()
	if got["id"] != storeIDs.Of(d) || d.EndpointID != id || got["status"] != "pending" {
		t.Errorf("answered %v, made %+v", got, d)
	}
	if ev := w.event(d.EventID); string(ev.Data) != `{"a" : 1.0 }` || ev.Tenant != "acme" || ev.Type != "x.y" || ev.Key != "" {
		t.Errorf("the event is %+v", ev)
	}
	if d := cmp.Diff(got, w.must(200, "GET", "/v1/deliveries/"+storeIDs.Of(d), "")); d != "" {
		t.Errorf("answered and got differ: %s", d)
	}
	late := w.must(200, "POST", "/v1/endpoints/"+id+"/test", `{"delay":"90s"}`)
	if at := late["next_attempt_at"]; at != w.clock.Add(90*time.Second).Format(time.RFC3339Nano) {
		t.Errorf("a test with a delay of 90 s is attempted at %v", at)
	}
}

func TestDeleteEndpoint(t *testing.T) {
	w := newWorld(t)
	id := w.endpoint(admin, "")
	if r := w.ask(admin, "DELETE", "/v1/endpoints/"+id, ""); r.StatusCode != 204 || len(r.body) != 0 {
		t.Errorf("answered %d %s", r.StatusCode, r.body)
	}
	w.must(404, "DELETE", "/v1/endpoints/"+id, "")
	w.must(404, "GET", "/v1/endpoints/"+id, "")
	w.must(404, "GET", "/v1/endpoints/"+id+"/deliveries", "")
}

func TestHTTPSOnly(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.HTTPSOnly = true })
	w.must(422, "POST", "/v1/endpoints", `{"url":"http://a.example"}`)
	w.must(201, "POST", "/v1/endpoints", `{"url":"https://a.example"}`)
	w = newWorld(t, func(o *Options) { o.CheckURL = func(url string) error { return fmt.Errorf("is not liked") } })
	if p := w.must(422, "POST", "/v1/endpoints",
		`{"url":"https://a.example"}`); p["errors"].([]any)[0].(map[string]any)["detail"] != "is not liked" {
		t.Errorf("answered %v", p)
	}
	// An endpoint from before the server was that strict can be changed otherwise.
	strict := false
	w = newWorld(t, func(o *Options) {
		o.CheckURL = func(url string) error {
			if strict {
				return fmt.Errorf("is not liked")
			}
			return nil
		}
	})
	id := w.must(201, "POST", "/v1/endpoints", `{"url":"http://a.example"}`)["id"].(string)
	strict = true
	w.must(200, "PATCH", "/v1/endpoints/"+id, `{"status":"disabled"}`)
	w.must(422, "PATCH", "/v1/endpoints/"+id, `{"url":"http://b.example"}`)
}

// What an endpoint's own headers say may be a credential of its receiver: who may only read does
// not see it.
func TestReadersDoNotSeeHeaderValues(t *testing.T) {
	w := newWorld(t)
	id := w.endpoint(admin, `,"headers":{"Authorization":"Bearer of-the-receiver"}`)
	shown := func(key, target string) string { return string(w.ask(key, "GET", target, "").body) }
	for _, target := range []string{"/v1/endpoints", "/v1/endpoints/" + id, "/v1/webhook-endpoints/" + id} {
		if got := shown(scoped(grapnel.ScopeRead), target); strings.Contains(got, "of-the-receiver") ||
			!strings.Contains(got, `"Authorization":"[redacted]"`) {
			t.Errorf("%s shows a reader %s", target, got)
		}
		if got := shown(admin, target); !strings.Contains(got, "Bearer of-the-receiver") {
			t.Errorf("%s shows an admin %s", target, got)
		}
	}
	w.key("key_both", "grp_both", "", grapnel.ScopeRead, grapnel.ScopeManage)
	if got := shown("grp_both", "/v1/endpoints/"+id); !strings.Contains(got, "Bearer of-the-receiver") {
		t.Errorf("who may change it is shown %s", got)
	}
}

// TestARedactedHeaderStays: a portal changes an endpoint by what it was shown of it.
func TestARedactedHeaderStays(t *testing.T) {
	w := newWorld(t)
	id := w.as(acmeAdmin, 201, "POST", "/v1/endpoints", `{"url":"https://a.example","headers":{"Authorization":"Bearer x"}}`)["id"].(string)
	me := w.pass([]grapnel.Scope{grapnel.ScopeRead, grapnel.ScopeEndpointsWrite})
	shown := w.as(me, 200, "GET", "/v1/endpoints/"+id, "")["headers"].(map[string]any)
	shown["X-Own"] = "1"
	patch, _ := json.Marshal(map[string]any{"headers": shown})
	w.as(me, 200, "PATCH", "/v1/endpoints/"+id, string(patch))
	if got := w.as(acmeAdmin, 200, "GET", "/v1/endpoints/"+id, "")["headers"]; fmt.Sprint(got) != "map[Authorization:Bearer x X-Own:1]" {
		t.Errorf("the headers are %v", got)
	}
	w.as(me, 422, "PATCH", "/v1/endpoints/"+id, `{"headers":{"X-New":"[redacted]"}}`)
}

// TestShapesOfPresets: what a preset adds is shown where the endpoint says nothing itself.
func TestShapesOfPresets(t *testing.T) {
	w := newWorld(t)
	shape := func(transform, format, ordering any, headers map[string]any) any {
		return map[string]any{"headers": headers, "transform": transform, "format": format, "ordering": ordering}
	}
	none := map[string]any{}
	for body, want := range map[string]any{
		`{"url":"https://a.example"}`:                                                            nil,
		`{"url":"https://a.example","policy":"parseo"}`:                                          shape(". + {occurredAt: .timestamp}", nil, "none", none),
		`{"url":"https://a.example","policy":"sent"}`:                                            shape(nil, "raw", "none", map[string]any{"X-Webhook-ID": "{event.id}"}),
		`{"url":"https://a.example","policy":"svix"}`:                                            nil,
		`{"url":"https://a.example","policy":{}}`:                                                nil,
		`{"url":"https://a.example","policy":"parseo","transform":"."}`:                          shape(nil, nil, "none", none),
		`{"url":"https://a.example","policy":"parseo","format":"raw"}`:                           shape(nil, nil, "none", none),
		`{"url":"https://a.example","policy":"sent","headers":{"x-webhook-id":"{delivery.id}"}}`: shape(nil, "raw", "none", none),
	} {
		made := w.must(201, "POST", "/v1/endpoints", body)
		if d := cmp.Diff(want, made["preset_shape"]); d != "" {
			t.Errorf("%s: %s", body, d)
		}
		if len(w.stored(made["id"]).Headers) != len(made["headers"].(map[string]any)) {
			t.Errorf("%s: the preset's headers became the endpoint's", body)
		}
	}
}

// TestFormerShapes: an endpoint keeps the shapes that deliveries have, up to a bound, and no
// others.
func TestFormerShapes(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Bounds.FormerShapes = 2 })
	ep := w.endpoint(admin, "")
	change := func(status int, transform string) {
		t.Helper()
		w.clock = w.clock.Add(time.Minute)
		w.must(status, "PATCH", "/v1/endpoints/"+ep, `{"transform":"`+transform+`"}`)
		w.clock = w.clock.Add(time.Minute)
	}
	publish := func() {
		t.Helper()
		w.must(202, "POST", "/v1/events", `{"type":"a","data":1}`)
	}
	publish() // has none
	for i := range 5 {
		change(200, fmt.Sprint(i))
	}
	if got := w.stored(ep).Former; len(got) != 2 || got[0].Transform != "" || got[1].Transform != "3" {
		t.Errorf("stored are %+v", got)
	}
	publish() // has 4
	change(200, "5")
	publish() // has 5
	change(409, "6")
	change(200, "5")
	w.must(200, "PATCH", "/v1/endpoints/"+ep, `{"description":"other things can be changed"}`)
	if got := w.stored(ep); len(got.Former) != 2 || got.Former[1].Transform != "4" || got.Transform != "5" || got.Description == "" {
		t.Errorf("stored is %+v", got)
	}
}

// TestLabelsAreMergedAndBounded: a patch changes the labels that it names. What a name may be, and
// how long a value is in bytes, is in the tags of the field.
func TestLabelsAreMergedAndBounded(t *testing.T) {
	w := newWorld(t)
	at := "/v1/endpoints/" + w.endpoint(admin, `,"labels":{"team":"billing","grapnel.example_1-a":""}`)
	w.must(200, "PATCH", at, `{"labels":{"team":null,"tier":"gold"}}`)
	want := map[string]any{"grapnel.example_1-a": "", "tier": "gold"}
	if d := cmp.Diff(want, w.must(200, "GET", at, "")["labels"]); d != "" {
		t.Error(d)
	}
	other := w.endpoint(admin, `,"labels":{"tier":"gold=1"}`)
	w.endpoint(admin, "")
	for label, found := range map[string][]string{"tier": {path.Base(at), other}, "tier=gold": {path.Base(at)},
		"tier%3Dgold%3D1": {other}, "tier=": {}, "team": {}} {
		var ids []string
		for _, ep := range w.must(200, "GET", "/v1/endpoints?limit=5&label="+label, "")["data"].([]any) {
			ids = append(ids, ep.(map[string]any)["id"].(string))
		}
		slices.Sort(ids)
		slices.Sort(found)
		if !slices.Equal(ids, found) {
			t.Errorf("label=%s: %v, want %v", label, ids, found)
		}
	}
	long := strings.Repeat("é", 128)
	w.must(200, "PATCH", at, `{"labels":{"tier":"`+long+`"}}`)
	for _, labels := range []string{`{"te am":"x"}`, `{"a b":"x"}`, `{"` + strings.Repeat("a", 65) + `":"x"}`,
		`{"tier":"` + long + `a"}`, `{"tier":1}`} {
		if p := w.must(422, "PATCH", at, `{"labels":`+labels+`}`); !strings.HasPrefix(p["errors"].([]any)[0].(map[string]any)["pointer"].(string), "/labels/") {
			t.Errorf("%s: %v", labels, p)
		}
	}
}
