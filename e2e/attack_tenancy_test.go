//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
)

// TestAttackOnAnotherTenant: it calls every route of the server's own document without a key and
// with the key of each scope of one tenant, and names objects of another tenant, or that tenant in
// the query or the header. None of these objects is shown or changed, and no answer is a 5xx.
func TestAttackOnAnotherTenant(t *testing.T) {
	beside(t, light)
	a := newAttacked(t, program{})
	const mark = "bees-own"
	made := func(method, path string, body map[string]any, field string) string {
		t.Helper()
		var is map[string]any
		status := http.StatusCreated
		if path == "/v1/events" || strings.HasSuffix(path, "/replay") {
			status = http.StatusAccepted
		}
		a.by(victim, grapnel.ScopeAdmin, status, method, path, body, &is)
		id, _ := is[field].(string)
		return id
	}
	ids := map[string]string{}
	ids["endpoints"] = made(http.MethodPost, "/v1/endpoints", map[string]any{"url": "http://127.0.0.1:9/" + mark, "description": mark,
		"status": "paused"}, "id")
	ids["sources"] = made(http.MethodPost, "/v1/sources",
		map[string]any{"name": mark, "verify": map[string]any{"scheme": "github", "secret": signingSecret}, "on_unverified": "quarantine"}, "id")
	ids["policies"] = made(http.MethodPost, "/v1/policies", map[string]any{"name": mark, "max_attempts": 1}, "id")
	ids["keys"] = made(http.MethodPost, "/v1/keys", map[string]any{"name": mark, "scopes": []string{"read"}}, "id")
	made(http.MethodPost, "/v1/queues", map[string]any{"name": mark}, "id")
	ids["queues"], ids["tenants"] = mark, victim
	ids["alerts"], ids["alert-rules"] = "alr_none", "disk_full" // the victim's alerts: internal/face/api
	answered, incident := a.ask(adminKey, http.MethodPost, "/v1/incidents", map[string]any{"title": "The operator's own", "text": "Everything is public here."})
	var told struct{ ID string }
	a.check(answered, incident, nil, http.StatusCreated, http.MethodPost, "/v1/incidents", &told)
	ids["incidents"] = told.ID
	answered, erasure := a.ask(adminKey, http.MethodPost, "/v1/erasures", map[string]any{"tenant": victim, "key": "nothing has it", "reason": mark})
	a.check(answered, erasure, nil, http.StatusAccepted, http.MethodPost, "/v1/erasures", &told)
	ids["erasures"] = told.ID
	ids["channels"] = made(http.MethodPost, "/v1/channels", map[string]any{"url": "ntfy://ntfy.sh/topic", "description": mark}, "id")
	ids["contacts"] = made(http.MethodPost, "/v1/contacts", map[string]any{"mail": "ops@victim.example", "description": mark}, "id")
	ids["event-types"] = made(http.MethodPost, "/v1/event-types", map[string]any{"name": "bee.made", "description": mark,
		"schema": map[string]any{"type": "string"}}, "id")
	ids["events"] = made(http.MethodPost, "/v1/events", map[string]any{"type": "a", "key": mark, "data": mark}, "id")
	ids["replays"] = made(http.MethodPost, "/v1/endpoints/"+ids["endpoints"]+"/replay", map[string]any{"status": []string{"failed"}}, "id")
	a.in("/in/"+ids["sources"], []byte(`{"of":"`+mark+`"}`))
	some := func(path string) string {
		t.Helper()
		var list struct{ Data []struct{ ID string } }
		a.by(victim, grapnel.ScopeAdmin, http.StatusOK, http.MethodGet, path, nil, &list)
		if len(list.Data) == 0 {
			return ""
		}
		return list.Data[0].ID
	}
	first := func(path string) string {
		t.Helper()
		id := some(path)
		if id == "" {
			t.Fatalf("%s is empty", path)
		}
		return id
	}
	made(http.MethodPost, "/v1/endpoints", map[string]any{"url": "http://127.0.0.1:9/fails/" + mark, "event_types": []string{"failing"}}, "id")
	made(http.MethodPost, "/v1/events", map[string]any{"type": "failing", "key": mark, "data": mark}, "id")
	eventually(t, 20*time.Second, "the failure becomes an issue", func() bool {
		ids["issues"] = some("/v1/issues")
		return ids["issues"] != ""
	})
	ids["inbox"] = first("/v1/inbox")
	ids["deliveries"] = first("/v1/deliveries?endpoint=" + ids["endpoints"])
	var taken struct {
		Data []struct{ Meta struct{ Lease string } }
	}
	a.by(victim, grapnel.ScopeConsume, http.StatusOK, http.MethodGet, "/v1/queues/"+mark+"/next?max=1", nil, &taken)
	ids["leases"] = taken.Data[0].Meta.Lease

	// own is the victim's view of its own objects, compared before and after.
	own := func() (all []string) {
		for _, kind := range []string{"endpoints", "sources", "policies", "keys", "event-types", "events", "inbox", "deliveries", "replays"} {
			_, body := a.ask(a.keys[victim][grapnel.ScopeAdmin], http.MethodGet, "/v1/"+kind+"/"+ids[kind], nil)
			now, _, _ := strings.Cut(string(body), `,"eta":`) // the estimated end of a replay changes from call to call
			all = append(all, now)
		}
		return all
	}
	before := own()
	status, text := a.ask("", http.MethodGet, "/openapi.json", nil)
	var document struct{ Paths map[string]map[string]any }
	a.check(status, text, nil, http.StatusOK, http.MethodGet, "/openapi.json", &document)
	open := []string{"/in/{source}", "/livez", "/readyz", "/openapi.json", "/status", "/status.json", "/status.rss", "/status.svg",
		"/v1/alert-links/{link}", "/v1/contact-links/{link}", "/v1/endpoints/{id}/jwks.json"}
	keys := map[string]string{"none": ""}
	for _, scope := range allScopes {
		keys[string(scope)] = a.keys[attacker][scope]
	}
	bodies := []string{"", "{}", `{"status":"paused","reason":"x","scopes":["admin"],"name":"` + "x" +
		`","description":"x","leases":[{"lease":"` + ids["leases"] + `","verb":"ack"}]}`}
	asked := 0
	for path, methods := range document.Paths {
		kind, _, _ := strings.Cut(strings.TrimPrefix(path, "/v1/"), "/")
		target := path
		for _, name := range []string{"{id}", "{name}", "{tenant}", "{lease}"} {
			target = strings.ReplaceAll(target, name, ids[kind])
		}
		target = strings.NewReplacer("{delivery_id}", ids["deliveries"], "{source}", ids["sources"], "{version}", "1",
			"{number}", "1", "{link}", "none").Replace(target)
		if strings.Contains(target, "//") || strings.Contains(target, "{") {
			t.Errorf("the victim has no object for %s", path)
		}
		foreign := target != path
		for method := range methods {
			if slices.Contains(open, path) {
				continue
			}
			for name, key := range keys {
				for _, body := range bodies {
					if method == "get" && body != "" {
						continue
					}
					queries := []string{"", "?tenant=" + victim}
					if method == "delete" {
						queries = append(queries, "?reason=x") // one that needs it is refused for the key then
					}
					if path == "/v1/feed" {
						queries = append(queries, "?endpoint="+ids["endpoints"])
					}
					for i, query := range append(queries, "") {
						var narrowed []string
						if i == len(queries) {
							narrowed = []string{"Grapnel-Tenant", victim}
						}
						ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
						status, answer, _, err := a.as(ctx, key, strings.ToUpper(method), target+query, []byte(body), narrowed...)
						cancel()
						if err != nil {
							t.Errorf("%s %s with the key %s: %v", method, target, name, err)
							continue
						}
						asked++
						what := fmt.Sprintf("%s %s with the key %s, %.20s %v: answered %d %.300s", method, target+query, name, body, narrowed, status, answer)
						switch {
						case status >= 500, strings.Contains(string(answer), mark) && !strings.Contains(string(answer), `"errors"`):
							t.Error(what)
						case name == "none" && status != http.StatusUnauthorized, narrowed != nil && name != "none" && status != http.StatusForbidden:
							t.Error(what)
						case foreign && status < 300 && path != "/v1/leases/settle":
							t.Error(what)
						}
					}
				}
			}
		}
	}
	t.Logf("%d requests to %d paths", asked, len(document.Paths))
	for i, now := range own() {
		if now != before[i] {
			t.Errorf("of the victim there was\n%s\nand now is\n%s", before[i], now)
		}
	}
	// The victim still has the lease.
	a.by(victim, grapnel.ScopeConsume, http.StatusNoContent, http.MethodPost, "/v1/leases/"+ids["leases"]+"/ack", nil, nil)
	var list struct{ Data []json.RawMessage }
	a.by(attacker, grapnel.ScopeAdmin, http.StatusOK, http.MethodGet, "/v1/events", nil, &list)
	for _, ev := range list.Data {
		if strings.Contains(string(ev), mark) {
			t.Errorf("the attacker has %s", ev)
		}
	}
}
