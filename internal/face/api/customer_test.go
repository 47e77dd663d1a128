package api

import (
	"slices"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/tell/alert"
)

// TestAPortalSeesNoAlerts: a portal that reaches all endpoints of its tenant shows none of the
// tenant's channels, alerts and tests, and cannot subscribe to them. It shows its own things.
func TestAPortalSeesNoAlerts(t *testing.T) {
	w := newWorld(t)
	mine := w.settle(acmeAdmin, "mine")
	channel := w.channel(acmeAdmin)
	var tests []string
	for range 3 {
		w.as(acmeAdmin, 200, "POST", "/v1/channels/"+channel+"/test", "")
	}
	for _, d := range w.as(acmeAdmin, 200, "GET", "/v1/deliveries?endpoint="+channel, "")["data"].([]any) {
		tests = append(tests, d.(map[string]any)["id"].(string), d.(map[string]any)["event_id"].(string))
	}
	w.as(acmeAdmin, 200, "PATCH", "/v1/alert-rules/backlog_age", `{"threshold":90}`)
	if len(tests) == 0 {
		t.Fatal("there are no tests to be hidden")
	}
	me := w.pass(portalScopes)
	for _, target := range []string{"/v1/endpoints", "/v1/deliveries?limit=2", "/v1/deliveries", "/v1/events", "/v1/audit", "/v1/replays", "/v1/issues",
		"/v1/dead-letters", "/v1/lanes", "/v1/deliveries/export"} {
		r := w.ask(me, "GET", target, "")
		for _, canary := range append([]string{channel, "grapnel.alert.", "alert_rule_"}, tests...) {
			if r.StatusCode != 200 || strings.Contains(string(r.body), canary) {
				t.Errorf("%s: answered %d with %s: %s", target, r.StatusCode, canary, r.body)
			}
		}
	}
	if n := len(w.as(me, 200, "GET", "/v1/deliveries?limit=2", "")["data"].([]any)); n != 2 {
		t.Errorf("%d deliveries are shown, not 2: hidden ones shorten the page", n)
	}
	for _, target := range []string{"/v1/endpoints/" + channel, "/v1/endpoints/" + channel + "/stats", "/v1/endpoints/" + channel + "/deliveries",
		"/v1/deliveries/" + tests[0], "/v1/events/" + tests[1]} {
		w.as(me, 404, "GET", target, "")
	}
	w.as(me, 404, "POST", "/v1/endpoints/"+channel+"/pause", `{"reason":"x"}`)
	w.as(me, 404, "POST", "/v1/deliveries/"+tests[0]+"/retry", "")
	w.as(me, 404, "POST", "/v1/endpoints/"+channel+"/replay", `{}`)
	for _, p := range []string{w.pass(portalScopes), w.pass(portalScopes, mine.endpoint)} {
		r := w.ask(p, "PATCH", "/v1/endpoints/"+mine.endpoint, `{"event_types":["mine.*","`+grapnel.ChannelPattern+`"]}`)
		if r.StatusCode != 422 || !strings.Contains(string(r.body), `"/event_types/1"`) {
			t.Errorf("subscribing to alerts: answered %d %s", r.StatusCode, r.body)
		}
	}
	w.as(acmeAdmin, 200, "PATCH", "/v1/endpoints/"+mine.endpoint, `{"event_types":["`+grapnel.ChannelPattern+`"]}`)
	w.as(me, 200, "PATCH", "/v1/endpoints/"+mine.endpoint, `{"description":"mine"}`) // a pattern of the tenant stays
}

// TestAPortalSeesAlertsAboutItsEndpoints: with alerts:read a portal has the alerts about the
// endpoints that it shows, and neither their messages nor the people who acknowledged. It has none
// about channels, queues, sources and the tenant, and can change none.
func TestAPortalSeesAlertsAboutItsEndpoints(t *testing.T) {
	w := newWorld(t)
	mine, sibling := w.settle(acmeAdmin, "mine"), w.settle(acmeAdmin, "sibling")
	channel := w.channel(acmeAdmin)
	hidden := w.alertAbout("acme", channel, "channel-canary")
	for _, kind := range []string{"queue", "source", "tenant"} {
		a := alert.Alert{ID: "alr_about_" + kind, Rule: alert.BacklogAge, Tenant: "acme", Subject: alert.Subject{Kind: kind, ID: mine.endpoint, Name: "kind-canary"},
			State: alert.Firing, Since: w.clock}
		if _, err := w.engine.Faulty.PutDocuments(t.Context(), store.Everyone(), []store.DocumentWrite{{Document: store.Document{
			Tenant: "acme", Kind: alert.KindOpen, ID: a.ID, At: w.clock, Body: a.Encode()}}}, store.With{}); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		pass string
		want []string
	}{
		"all endpoints": {w.pass(portalScopes), []string{mine.alert, sibling.alert}},
		"one endpoint":  {w.pass(portalScopes, mine.endpoint), []string{mine.alert}},
	} {
		r := w.ask(tc.pass, "GET", "/v1/alerts", "")
		for _, canary := range []string{"canary", channel, hidden} {
			if strings.Contains(string(r.body), canary) {
				t.Errorf("%s: the list has %s: %s", name, canary, r.body)
			}
		}
		got := idsIn(w.as(tc.pass, 200, "GET", "/v1/alerts", ""))
		slices.Sort(got)
		slices.Sort(tc.want)
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: listed %v, want %v", name, got, tc.want)
		}
		one := w.ask(tc.pass, "GET", "/v1/alerts/"+mine.alert, "")
		if one.StatusCode != 200 || strings.Contains(string(one.body), "canary") || !strings.Contains(string(one.body), `"messages":[]`) {
			t.Errorf("%s: answered %d %s", name, one.StatusCode, one.body)
		}
		if got := idsIn(w.as(tc.pass, 200, "GET", "/v1/alerts?endpoint="+mine.endpoint, "")); !slices.Equal(got, []string{mine.alert}) {
			t.Errorf("%s: about one endpoint: %v", name, got)
		}
		for _, id := range []string{hidden, "alr_about_queue", "alr_about_source", "alr_about_tenant", "alr_none"} {
			w.as(tc.pass, 404, "GET", "/v1/alerts/"+id, "")
		}
		w.as(tc.pass, 403, "POST", "/v1/alerts/"+mine.alert+"/acknowledge", "")
		w.as(tc.pass, 403, "GET", "/v1/alert-rules", "")
		w.as(tc.pass, 403, "GET", "/v1/channels", "")
	}
	w.as(w.pass(portalScopes, mine.endpoint), 404, "GET", "/v1/alerts/"+sibling.alert, "")
	w.as(w.pass([]grapnel.Scope{grapnel.ScopeRead}), 403, "GET", "/v1/alerts", "")
	if got := w.as(acmeAdmin, 200, "GET", "/v1/alerts/"+mine.alert, ""); got["acknowledged_by"] != "operator-canary" {
		t.Errorf("a key sees %v", got)
	}
	if got := idsIn(w.as(acmeAdmin, 200, "GET", "/v1/alerts?endpoint="+channel, "")); !slices.Equal(got, []string{hidden}) {
		t.Errorf("a key sees about the channel: %v", got)
	}
}
