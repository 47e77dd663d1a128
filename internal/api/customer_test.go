package api

import (
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel"
)

// TestAPortalSeesNoAlerts: the channels, alerts and tests of a tenant are nowhere in a portal that
// reaches all of its endpoints, and it cannot subscribe to them. Its own things are shown.
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
