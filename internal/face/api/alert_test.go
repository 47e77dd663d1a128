package api

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/tell/alert"
	"github.com/grapnelhq/grapnel/internal/tell/alerting"
	"github.com/grapnelhq/grapnel/wire"
)

// alertEngine is the part of the engine that alerts need, on the store of a world.
type alertEngine struct{ *fakeEngine }

func (alertEngine) Leads() bool { return true }

func (alertEngine) Tenants() []string { return nil }

func (e alertEngine) PutDocuments(ctx context.Context, scope store.Scope, with store.With,
	compose func(func(*grapnel.Event, []string) []store.Target) ([]store.DocumentWrite, []store.Incoming)) (store.Put, error) {
	writes, _ := compose(func(*grapnel.Event, []string) []store.Target { return nil })
	return e.Faulty.PutDocuments(ctx, scope, writes, with)
}

// alerts makes the alerts of a world.
func (w *world) alerts() *alerting.Keeper {
	return alerting.New(alerting.Options{Engine: alertEngine{w.engine}, Store: w.engine.Faulty, Log: w.options.Log,
		Now: func() time.Time { return w.clock }, Sealer: w.options.Passes})
}

// alert stores an open alert of a tenant and returns its id.
func (w *world) alert(tenant string) string {
	w.t.Helper()
	subject := alert.Subject{Kind: "endpoint", ID: "ep_1", Name: "shop"}
	a := alert.Alert{ID: "alr_" + tenant, Rule: alert.EndpointDisabled, Tenant: tenant, Severity: grapnel.SeverityPage, Subject: subject,
		State: alert.Firing, Title: "shop: is disabled", Text: "Nothing is sent to it.", Value: 1, Threshold: 1, Since: w.clock,
		Messages: []alert.Sent{{Transition: alert.Fire, Event: "evt_of_" + tenant, At: w.clock}}}
	if _, err := w.engine.Faulty.PutDocuments(context.Background(), store.Everyone(), []store.DocumentWrite{{Document: store.Document{
		Tenant: tenant, Kind: alert.KindOpen, ID: a.ID, At: w.clock, Body: a.Encode()}}}, store.With{}); err != nil {
		w.t.Fatal(err)
	}
	return a.ID
}

// alertAbout stores an open alert about an endpoint, and returns its id.
func (w *world) alertAbout(tenant, endpoint, mark string) string {
	w.t.Helper()
	a := alert.Alert{ID: "alr_of_" + endpoint, Rule: alert.CircuitOpen, Tenant: tenant, Severity: grapnel.SeverityPage,
		Subject: alert.Subject{Kind: "endpoint", ID: endpoint, Name: mark}, State: alert.Acknowledged, Title: mark + ": circuit is open",
		AcknowledgedBy: "operator-canary", AcknowledgedAt: w.clock, Since: w.clock,
		Messages: []alert.Sent{{Transition: alert.Fire, Event: "evt_message_canary", At: w.clock}}}
	if _, err := w.engine.Faulty.PutDocuments(context.Background(), store.Everyone(), []store.DocumentWrite{{Document: store.Document{
		Tenant: tenant, Kind: alert.KindOpen, ID: a.ID, At: w.clock, Body: a.Encode()}}}, store.With{}); err != nil {
		w.t.Fatal(err)
	}
	return a.ID
}

// documents is the text of all documents of alerts.
func (w *world) documents() string {
	w.t.Helper()
	var all []string
	for _, kind := range []string{alert.KindOpen, alert.KindResolved, alert.KindRule, alert.KindMessages, wire.IncidentKind, "issue"} {
		list, err := w.engine.Faulty.DocumentList(context.Background(), store.Everyone(), store.DocumentQuery{Kind: kind, Limit: 1 << 20})
		if err != nil {
			w.t.Fatal(err)
		}
		for _, d := range list {
			all = append(all, fmt.Sprintf("%s %s %s %d %s", d.Tenant, d.Kind, d.ID, d.Revision, d.Body))
		}
	}
	return strings.Join(all, "\n")
}

// badAlerts are requests about alerts that have to be refused.
func badAlerts() []bad {
	invalid := grapnel.CodeInvalid
	rule := func(name, rule, body, pointer string) bad {
		return bad{name: "alert rule: " + name, method: "PATCH", target: "/v1/alert-rules/" + rule, body: body, status: 422,
			code: invalid, pointer: pointer}
	}
	test := func(name, body, pointer string) bad {
		return bad{name: "backtest: " + name, method: "POST", target: "/v1/alert-rules/dead_letters/backtest", body: body, status: 422,
			code: invalid, pointer: pointer}
	}
	get := func(name, target, pointer string) bad {
		return bad{name: name, method: "GET", target: target, status: 422, code: invalid, pointer: pointer}
	}
	return []bad{
		get("alerts: state", "/v1/alerts?state=broken", "?state"), get("alerts: unknown parameter", "/v1/alerts?severity=page",
			"?severity"),
		get("alerts: cursor of another list", "/v1/alerts?cursor=CURSOR", "?cursor"), get("alert rules: limit", "/v1/alert-rules?limit=1",
			"?limit"),
		{name: "alerts: none such", method: "GET", target: "/v1/alerts/alr_none", status: 404, code: grapnel.CodeNotFound, pointer: "-"},
		{name: "alerts: acknowledge: a field unknown", method: "POST", target: "/v1/alerts/ALR/acknowledge", body: `{"by":"me"}`,
			status: 422,
			code:   invalid, pointer: "/by"},
		{name: "alerts: a link that is none", method: "POST", target: "/v1/alert-links/none", status: 404, code: grapnel.CodeNotFound,
			pointer: "-"},
		rule("threshold 0", "backlog_age", `{"threshold":0}`, "/threshold"), rule("threshold as text", "backlog_age",
			`{"threshold":"60"}`, "/threshold"),
		rule("severity", "backlog_age", `{"severity":"urgent"}`, "/severity"), rule("enabled as text", "backlog_age", `{"enabled":"no"}`,
			"/enabled"),
		rule("unknown field", "backlog_age", `{"hold":"1m"}`, "/hold"), rule("no object", "backlog_age", `[]`, ""),
		rule("threshold of one that holds or does not", "endpoint_disabled", `{"threshold":2}`, "/threshold"),
		{name: "alert rule: none such", method: "PATCH", target: "/v1/alert-rules/no_rule", body: `{}`, status: 404,
			code: grapnel.CodeNotFound, pointer: "-"},
		{name: "alert rule: the operator's, of a tenant", method: "PATCH", target: "/v1/alert-rules/disk_full?tenant=acme", body: `{}`,
			status: 404,
			code:   grapnel.CodeNotFound, pointer: "-"},
		test("for too long", `{"for":"63d"}`, "/for"), test("for no time", `{"for":"28"}`, "/for"), test("threshold", `{"threshold":-1}`,
			"/threshold"),
	}
}

// TestAlertsOverTheAPI: an alert is listed, got, and acknowledged once, by whom its tenant lets.
func TestAlertsOverTheAPI(t *testing.T) {
	w := newWorld(t)
	mine, other, operators := w.alert("acme"), w.alert("globex"), w.alert("")
	count := func(key, target string, want int) {
		t.Helper()
		if got := w.as(key, 200, "GET", target, "")["data"].([]any); len(got) != want {
			t.Errorf("%s has %d alerts, not %d", target, len(got), want)
		}
	}
	count(acmeAdmin, "/v1/alerts", 1)
	count(admin, "/v1/alerts", 3)
	count(admin, "/v1/alerts?tenant=globex", 1)
	count(acmeAdmin, "/v1/alerts?tenant=globex", 0)
	count(admin, "/v1/alerts?state=resolved", 0)
	count(admin, "/v1/alerts?rule=disk_full", 0)
	for _, foreign := range []string{other, operators} {
		w.as(acmeAdmin, 404, "GET", "/v1/alerts/"+foreign, "")
		w.as(acmeAdmin, 404, "POST", "/v1/alerts/"+foreign+"/acknowledge", "")
	}
	first := w.as(acmeAdmin, 200, "POST", "/v1/alerts/"+mine+"/acknowledge", `{"reason":"on it"}`)
	if first["state"] != "acknowledged" || first["acknowledged_by"] != "key_acme" {
		t.Errorf("%v", first)
	}
	if again := w.as(admin, 200, "POST", "/v1/alerts/"+mine+"/acknowledge", ""); again["acknowledged_by"] != "key_acme" {
		t.Errorf("it was acknowledged twice: %v", again)
	}
	message := func() map[string]any {
		all := w.as(acmeAdmin, 200, "GET", "/v1/alerts/"+mine, "")["messages"].([]any)
		if len(all) != 1 {
			t.Fatalf("%v", all)
		}
		return all[0].(map[string]any)
	}
	if is := message(); is["held"] != nil {
		t.Errorf("%v", is)
	}
	boxes := alert.Boxes{Recipients: map[string]*alert.Box{"ep_9": {Event: "evt_of_acme", Count: 1, Until: w.clock.Add(time.Hour)}}}
	if _, err := w.engine.Faulty.PutDocuments(context.Background(), store.Everyone(), []store.DocumentWrite{{Document: store.Document{
		Tenant: "acme", Kind: alert.KindMessages, ID: alert.MessagesID("acme"), At: w.clock,
		Body: boxes.Encode()}}}, store.With{}); err != nil {
		t.Fatal(err)
	}
	until := w.clock.Add(time.Hour).Format(wire.TimeLayout)
	if is, _ := message()["held"].(map[string]any); is["endpoint_id"] != "ep_9" || is["until"] != until {
		t.Errorf("it waits for %v", is)
	}
	entries := w.as(acmeAdmin, 200, "GET", "/v1/audit", "")["data"].([]any)
	if e := entries[0].(map[string]any); e["verb"] != "acknowledge" || e["reason"] != "on it" {
		t.Errorf("audit: %v", e)
	}
}

// TestTheLinkOfAnAlert needs no key. Looking at it acknowledges nothing.
func TestTheLinkOfAnAlert(t *testing.T) {
	w := newWorld(t)
	id := w.alert("acme")
	link, err := w.options.Passes.SealFor(alerting.UseLink, alerting.Link{Alert: id, Tenant: "acme", Ends: w.clock.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ method, state string }{
		{"GET", "firing"}, {"HEAD", ""}, {"GET", "firing"}, {"POST", "acknowledged"}, {"POST", "acknowledged"}, {"GET", "acknowledged"},
	} {
		r := w.ask("", c.method, "/v1/alert-links/"+link, "")
		if r.StatusCode != 200 || c.state != "" && r.object(t)["state"] != c.state {
			t.Fatalf("%s: %d %s", c.method, r.StatusCode, r.body)
		}
	}
	if n := strings.Count(w.documents(), `"acknowledged_by":"alert-link"`); n != 1 {
		t.Errorf("%d alerts were acknowledged", n)
	}
	w.clock = w.clock.Add(time.Hour)
	if r := w.ask("", "GET", "/v1/alert-links/"+link, ""); r.StatusCode != 404 {
		t.Errorf("an expired link: %d", r.StatusCode)
	}
}

// TestAlertRulesOverTheAPI: the operator's change holds for tenants until they change the same
// field.
func TestAlertRulesOverTheAPI(t *testing.T) {
	w := newWorld(t)
	rule := func(key, query string) map[string]any {
		t.Helper()
		for _, r := range w.as(key, 200, "GET", "/v1/alert-rules"+query, "")["data"].([]any) {
			if r := r.(map[string]any); r["name"] == "backlog_age" {
				return r
			}
		}
		t.Fatal("no such rule")
		return nil
	}
	w.as(admin, 200, "PATCH", "/v1/alert-rules/backlog_age", `{"threshold":90,"severity":"page"}`)
	w.as(acmeAdmin, 200, "PATCH", "/v1/alert-rules/backlog_age", `{"threshold":120,"enabled":false}`)
	w.as(acmeAdmin, 404, "PATCH", "/v1/alert-rules/backlog_age?tenant=globex", `{"enabled":false}`)
	if r := rule(acmeAdmin, ""); r["threshold"] != 120.0 || r["severity"] != "page" || r["enabled"] != false ||
		fmt.Sprint(r["changed"]) != "[enabled threshold]" {
		t.Errorf("%v", r)
	}
	if r := rule(admin, "?tenant=globex"); r["threshold"] != 90.0 || r["enabled"] != true || fmt.Sprint(r["changed"]) != "[]" {
		t.Errorf("%v", r)
	}
	w.as(acmeAdmin, 200, "PATCH", "/v1/alert-rules/backlog_age", `{"threshold":null}`)
	if r := rule(acmeAdmin, ""); r["threshold"] != 90.0 || fmt.Sprint(r["changed"]) != "[enabled]" {
		t.Errorf("%v", r)
	}
	if got := w.as(acmeAdmin, 200, "GET", "/v1/alert-rules?tenant=globex", "")["data"].([]any); len(got) != 0 {
		t.Errorf("another tenant's rules: %v", got)
	}
	b := w.as(acmeAdmin, 200, "POST", "/v1/alert-rules/dead_letters/backtest", `{"for":"7d"}`)
	if b["known"] != true || b["fired"] != 0.0 || b["sentence"] != "This rule would have fired 0 times in the last 7 days." {
		t.Errorf("%v", b)
	}
	if b := w.as(acmeAdmin, 200, "POST", "/v1/alert-rules/backlog_age/backtest", ""); b["known"] != false || len(b["times"].([]any)) != 0 {
		t.Errorf("%v", b)
	}
}
