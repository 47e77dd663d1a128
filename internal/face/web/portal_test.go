package web

import (
	"crypto/rand"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/pass"
)

// portalSite is a portal whose visitor has a pass with these scopes and this look.
func portalSite(t *testing.T, look pass.Look, scopes ...grapnel.Scope) *site {
	t.Helper()
	s := newSite(t, func(o *Options) { o.Passes = pass.NewSealer(o.Secret, nil, rand.Reader) })
	s.web.API = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/portal") {
			_, _ = w.Write([]byte(`{"tenant":"default","name":"Acme Hooks","logo":null,"accent":null,"frame_ancestors":[]}`))
			return
		}
		r.Header.Set("Authorization", "Bearer "+goodKey)
		s.api.ServeHTTP(w, r)
	})
	s.handler = s.web.mux()
	text, err := s.web.Passes.Seal(pass.Pass{Subject: "portal/jane", Tenant: "default", Portal: true, Scopes: scopes, Begins: then,
		Ends: then.Add(time.Hour), Look: look})
	if err != nil {
		t.Fatal(err)
	}
	s.cookies = append(s.cookies, &http.Cookie{Name: portalCookie, Value: text})
	return s
}

var allPortalScopes = []grapnel.Scope{grapnel.ScopeRead, grapnel.ScopeReplay, grapnel.ScopeEndpointsWrite, grapnel.ScopeSecretsReveal,
	grapnel.ScopePayloadRead, grapnel.ScopeAlertsRead}

var (
	hidden = regexp.MustCompile(`(?s)<script.*?</script>|<[^>]*>`)
	agent  = regexp.MustCompile(`Grapnel/[\w.-]+|grapnel-[a-z-]+`) // headers of requests: receivers see them as well
)

// TestPortalsDoNotSayGrapnel: no page of the portal names the product behind it, whether there are
// things to show or none, endpoints that work or fail.
func TestPortalsDoNotSayGrapnel(t *testing.T) {
	worlds := map[string]func(name string, answer any) any{
		"as recorded": nil,
		"empty": func(_ string, answer any) any {
			if m, is := answer.(map[string]any); is && m["data"] != nil {
				m["data"] = []any{}
			}
			return answer
		},
		"open": func(name string, answer any) any {
			if name == "endpoint" {
				answer.(map[string]any)["health"].(map[string]any)["state"] = "open"
			}
			return answer
		},
	}
	for name, edit := range worlds {
		for _, scopes := range [][]grapnel.Scope{allPortalScopes, {grapnel.ScopeRead}} {
			s := portalSite(t, pass.Look{}, scopes...)
			s.api.edit = edit
			for _, path := range portalPages {
				target := portalHome + strings.ReplaceAll(path, "{id}", "ep_1")
				w := s.ask("GET", target, nil)
				if w.Code != http.StatusOK && w.Code != http.StatusForbidden && w.Code != http.StatusNotFound {
					t.Errorf("%s, %s: answered %d", name, target, w.Code)
				}
				words := agent.ReplaceAllString(hidden.ReplaceAllString(w.Body.String(), " "), "")
				if at := strings.Index(strings.ToLower(words), "grapnel"); at >= 0 {
					t.Errorf("%s, %s says: %s", name, target, strings.Join(strings.Fields(words[max(0, at-80):min(len(words), at+80)]), " "))
				}
				if w.Code == http.StatusOK && !strings.Contains(words, "Acme Hooks") {
					t.Errorf("%s, %s does not have the tenant's name", name, target)
				}
			}
		}
	}
}

// TestALinkThatWorksIsNotCalledUsed: a refusal that ends is no word about the link, which opens the
// portal afterwards.
func TestALinkThatWorksIsNotCalledUsed(t *testing.T) {
	for status, want := range map[int]int{401: 401, 403: 401, 421: 503, 429: 503, 503: 503} {
		s := newSite(t, func(o *Options) {
			o.Passes = pass.NewSealer(o.Secret, nil, rand.Reader)
			o.API = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		})
		w := s.ask("POST", "/portal/open", url.Values{"code": {"grpass_x"}})
		if said := strings.Contains(w.Body.String(), "was used before"); w.Code != want || said != (want == 401) {
			t.Errorf("the API answered %d, the portal %d %s", status, w.Code, w.Body)
		}
	}
}

// TestPortalsHaveTheLocaleOfTheirLink: the script that writes dates reads it there.
func TestPortalsHaveTheLocaleOfTheirLink(t *testing.T) {
	for _, locale := range []string{"", "de-DE"} {
		body := portalSite(t, pass.Look{Locale: locale}, grapnel.ScopeRead).ask("GET", "/portal/endpoints", nil).Body.String()
		if has := strings.Contains(body, ` data-locale="`+locale+`"`); has != (locale != "") {
			t.Errorf("%q: the page has a locale: %v", locale, has)
		}
	}
}

// TestPortalsOfferNoPageThatTheyLack: downloads and comparisons are pages of the dashboard only.
func TestPortalsOfferNoPageThatTheyLack(t *testing.T) {
	for _, scopes := range [][]grapnel.Scope{allPortalScopes, {grapnel.ScopeRead}} {
		s := portalSite(t, pass.Look{}, scopes...)
		for _, page := range []string{"/portal/deliveries", "/portal/dead-letters", "/portal/deliveries/dlv_1"} {
			body := s.ask("GET", page, nil).Body.String()
			if !strings.Contains(body, "/portal/deliveries/dlv_") && !strings.Contains(body, "dlv_1") {
				t.Fatalf("%s has no delivery: %s", page, body)
			}
			for _, lacking := range []string{"/export", "/compare", "data-two"} {
				if strings.Contains(body, lacking) {
					t.Errorf("%s leads to %s", page, lacking)
				}
			}
		}
	}
}

// TestPortalsNameQueues: a delivery to a queue has the queue's name, in the list and on its page,
// and no link to a page that a portal does not have.
func TestPortalsNameQueues(t *testing.T) {
	s := portalSite(t, pass.Look{}, grapnel.ScopeRead)
	s.api.edit = func(name string, answer any) any {
		named := func(d any) {
			d.(map[string]any)["endpoint_id"], d.(map[string]any)["endpoint_name"] = "que_1", "queue-by-name"
		}
		switch all, _ := answer.(map[string]any)["data"].([]any); name {
		case "deliveries":
			for _, d := range all {
				named(d)
			}
		case "delivery":
			named(answer)
		}
		return answer
	}
	for _, page := range []string{"/portal/deliveries", "/portal/deliveries/dlv_1"} {
		body := s.ask("GET", page, nil).Body.String()
		if !strings.Contains(body, "queue-by-name") {
			t.Errorf("%s: the queue's name is missing: %s", page, body)
		}
		if strings.Contains(body, "endpoints/que_1") || strings.Contains(body, "queues/que_1") {
			t.Errorf("%s links to the queue's page: %s", page, body)
		}
	}
}

// TestActorsGoByTheirNames: the pages of an endpoint and a delivery say who acted as the audit
// does: an API key by its name, an actor without one by its id.
func TestActorsGoByTheirNames(t *testing.T) {
	for path, want := range map[string]string{"/endpoints/ep_1": "test send by ", "/deliveries/dlv_1": `test send</td><td class="soft">`} {
		s := newSite(t, nil)
		s.signIn()
		for _, actor := range []string{"admin", "key_admin"} {
			s.api.edit = func(name string, answer any) any {
				if doc, _ := answer.(map[string]any); name == "audit" {
					a := doc["data"].([]any)[0].(map[string]any)
					if a["verb"] = "test_send"; actor == "key_admin" {
						delete(a, "actor_name")
					}
				}
				return answer
			}
			if body := s.ask("GET", path, nil).Body.String(); !strings.Contains(body, want+actor+" <") && !strings.Contains(body, want+actor+"<") {
				t.Errorf("%s does not say %s%s: %s", path, want, actor, body)
			}
		}
	}
}

// TestDeliveriesNameTheirOwner: a delivery to a queue or a channel has its name and a link to its
// page.
func TestDeliveriesNameTheirOwner(t *testing.T) {
	for id, want := range map[string]string{"que_1": `href="/queues/que_1"><b>by-name</b>`, "chn_1": `href="/channels"><b>by-name</b>`} {
		s := newSite(t, nil)
		s.signIn()
		s.api.edit = func(name string, answer any) any {
			if d, _ := answer.(map[string]any); name == "delivery" {
				d["endpoint_id"], d["endpoint_name"] = id, "by-name"
			}
			return answer
		}
		if body := s.ask("GET", "/deliveries/dlv_1", nil).Body.String(); !strings.Contains(body, want) {
			t.Errorf("%s: the page does not have %s: %s", id, want, body)
		}
	}
}

// TestPagesLeadToQueuesAndChannels: replays and alerts of a queue or a channel lead to its page; it
// has none among the endpoints.
func TestPagesLeadToQueuesAndChannels(t *testing.T) {
	for id, want := range map[string]string{"que_1": `href="/queues/que_1"`, "chn_1": `href="/channels"`} {
		s := newSite(t, nil)
		s.signIn()
		s.api.edit = func(name string, answer any) any {
			doc, _ := answer.(map[string]any)
			switch all, _ := doc["data"].([]any); name {
			case "replays":
				all[0].(map[string]any)["endpoint_id"] = id
			case "replay":
				doc["endpoint_id"] = id
			case "alert":
				doc["subject"] = map[string]any{"kind": "endpoint", "id": id, "name": "by-name"}
			}
			return answer
		}
		for _, page := range []string{"/replays", "/replays/rpl_1", "/replays/new?q=endpoint:" + id, "/alerts/alr_1"} {
			body := s.ask("GET", page, nil).Body.String()
			if _, body, _ = strings.Cut(body, "<main"); !strings.Contains(body, want) || strings.Contains(body, "/endpoints/"+id) {
				t.Errorf("%s of %s: %s expected, and no link to /endpoints: %s", page, id, want, body)
			}
		}
	}
}

// TestSearchesNameQueues: a search finds a queue by its name, as the API's filter= does.
func TestSearchesNameQueues(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	s.api.edit = func(name string, answer any) any {
		if name == "meaning" {
			answer.(map[string]any)["things"] = []any{map[string]any{"kind": "queue", "id": "que_1", "name": "by-name", "tenant": "default"}}
		}
		return answer
	}
	body := s.ask("GET", "/replays/new?q=endpoint:by-name", nil).Body.String()
	if !strings.Contains(body, `href="/queues/que_1"`) {
		t.Errorf("the queue is not found: %s", body)
	}
}

// TestCustomersTickEventTypes: where types are registered, the form of an endpoint offers them with
// description and example, keeps the patterns that an endpoint has besides, and sends the ticked ones
// as a list; without registered types, patterns are written.
func TestCustomersTickEventTypes(t *testing.T) {
	s := portalSite(t, pass.Look{}, allPortalScopes...)
	var sent string
	inner := s.web.API
	s.web.API = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.URL.Path == "/v1/endpoints" {
			text, _ := io.ReadAll(r.Body)
			sent = string(text)
		}
		inner.ServeHTTP(w, r)
	})
	s.handler = s.web.mux()
	s.api.edit = func(name string, answer any) any {
		if name == "endpoint" {
			answer.(map[string]any)["event_types"] = []string{"payment.booked", "order.*"}
		}
		return answer
	}
	body := s.ask("GET", "/portal/endpoints/new", nil).Body.String()
	for _, has := range []string{`type="checkbox" name="event_types" value="payment.booked"`, "A payment was booked in the ledger.",
		`href="/portal/event-types/typ_01m849ppyweq7tjdwy30h2np3z"`} {
		if !strings.Contains(body, has) {
			t.Errorf("the form lacks %s", has)
		}
	}
	body = s.ask("GET", "/portal/endpoints/ep_1/edit", nil).Body.String()
	for _, has := range []string{`value="payment.booked" checked`, `value="order.*" checked`} {
		if !strings.Contains(body, has) {
			t.Errorf("the form of an endpoint lacks %s", has)
		}
	}
	form := url.Values{"token": {s.token("/portal/endpoints/new")}, "url": {"https://a.example"}, "event_types": {"payment.booked", "order.*"}}
	if s.ask("POST", "/portal/endpoints/new", form); !strings.Contains(sent, `"event_types":["payment.booked","order.*"]`) {
		t.Errorf("sent: %s", sent)
	}
	s.api.edit = func(name string, answer any) any {
		if name == "event_types" {
			answer.(map[string]any)["data"] = []any{}
		}
		return answer
	}
	if body := s.ask("GET", "/portal/endpoints/new", nil).Body.String(); !strings.Contains(body, `<textarea class="field" id="in-event_types"`) {
		t.Error("without registered types patterns cannot be written")
	}
}

// TestCustomersSeeTheirSuccessRate: as pictures with a sentence, from first attempts; the dashboard
// has other charts.
func TestCustomersSeeTheirSuccessRate(t *testing.T) {
	s := portalSite(t, pass.Look{}, grapnel.ScopeRead)
	body := s.ask("GET", "/portal/endpoints", nil).Body.String()
	if n := strings.Count(body, " succeeded in the last "); n != 2 || !strings.Contains(body, "Success by the day") {
		t.Errorf("%d charts have a sentence: %s", n, body)
	}
	s.api.edit = func(name string, answer any) any {
		if name == "stats" {
			answer.(map[string]any)["data"], answer.(map[string]any)["totals"] = []any{}, map[string]any{}
		}
		return answer
	}
	if body := s.ask("GET", "/portal/endpoints", nil).Body.String(); !strings.Contains(body, "Nothing was sent to you in this time.") {
		t.Error("without attempts there is no sentence")
	}
	d := newSite(t, nil)
	d.signIn()
	if body := d.ask("GET", "/endpoints", nil).Body.String(); strings.Contains(body, "Success by") {
		t.Error("the dashboard's list has the charts")
	}
}
