package api

import (
	"slices"
	"strings"
	"testing"
)

// TestAllFaultsAtOnce: a body with several faults is answered with all of them, each once, whatever
// kind they are: of a form, of an expression, of a reference, of two fields together.
func TestAllFaultsAtOnce(t *testing.T) {
	w, names := prepared(t)
	for _, c := range []struct{ name, method, target, body, at string }{
		{"an endpoint", "POST", "/v1/endpoints", `{"url":"ftp://a.example","event_types":["a..b","c.*"],"filter":"event.","transform":"{","policy":"none",
			"headers":{"Host":"a","X Y":"b","X-Z":"{nothing}"},"max_concurrency":0,"rate_limit":{"per_second":"many"},"source":"src_none",
			"secret":"short","tenant":"a b"}`,
			"/event_types/0 /filter /headers/Host /headers/X Y /headers/X-Z /max_concurrency /policy /rate_limit/per_second /secret /source /tenant /transform /url"},
		{"an endpoint's ways", "POST", "/v1/endpoints", `{"url":"http://a.example","oauth2":{"client_id":"a","client_secret":"[redacted]"},
			"tls":{"ca":"x","client_key":"y"},"proxy":"ftp://p"}`,
			"/oauth2/client_secret /oauth2/token_url /proxy /tls /tls/ca /tls/client_cert"},
		{"changes of an endpoint", "PATCH", "/v1/endpoints/EP", `{"url":"ftp://a.example","nothing":1,"id":"ep_2","max_concurrency":"many","filter":"event."}`,
			"/filter /id /max_concurrency /nothing /url"},
		{"a policy", "POST", "/v1/policies", `{"name":"a b","timeout":"soon","jitter":7,"classify":{"999":"retry"},"limits":[{"codes":["422"]}],
			"schedule":{"mode":"since_previous","delays":["0s","soon","9999h","1h"],"tail":"perhaps"},"nothing":1}`,
			"/classify/999 /jitter /limits/0/attempts /name /nothing /schedule/delays/1 /schedule/delays/2 /schedule/tail /timeout"},
		{"an exponential policy", "POST", "/v1/policies", `{"name":"m","schedule":{"mode":"exponential","base":"soon","factor":1000,"delays":["0s"]}}`,
			"/schedule/base /schedule/delays /schedule/factor"},
		{"changes of a policy", "PATCH", "/v1/policies/FREE", `{"id":"pol_2","timeout":"soon","then":"perhaps"}`, "/id /then /timeout"},
		{"a source", "POST", "/v1/sources", `{"name":" a","verify":{"scheme":"stripe","secret":"x","tolerance":"9999h"},"type":"event.","key":"body.","public_url":"here",
			"dedupe":{"by":["event_id","event_id"],"window":"1h","ignore":["sent_at"]},"max_body":-1,"tenant":"a b"}`,
			"/dedupe/by/1 /dedupe/ignore/0 /dedupe/window /key /max_body /name /public_url /tenant /type /verify/secret /verify/tolerance"},
		{"changes of a source", "PATCH", "/v1/sources/SRC", `{"nothing":1,"name":" a","type":"event.","dedupe":{"window":"1h"}}`,
			"/dedupe/window /name /nothing /type"},
		{"a source's new secret", "POST", "/v1/sources/SRC/rotate-secret", `{"secret":"x","overlap":"9999h"}`, "/overlap /secret"},
		{"a queue", "POST", "/v1/queues", `{"name":"a b","event_types":["a..b"],"filter":"event.","policy":"none","lease":"soon","max_leased":-1,"source":"src_none"}`,
			"/event_types/0 /filter /lease /max_leased /name /policy /source"},
		{"a channel", "POST", "/v1/channels", `{"url":"slack://x","severities":["bad"],"rules":["No Rule"],"digest":"soon",
			"quiet_hours":{"from":"25:00","to":"07:00","tz":"Europe/Nowhere"},"nothing":1}`,
			"/digest /nothing /quiet_hours/from /quiet_hours/tz /rules/0 /severities/0 /url"},
		{"a key", "POST", "/v1/keys", `{"name":"","tenant":"a b","scopes":["all"],"expires_at":"2001-01-01","from":["10.0.0.0/99"]}`,
			"/expires_at /from/0 /name /scopes/0 /tenant"},
		{"changes of a key", "PATCH", "/v1/keys/KEY", `{"name":"","expires_at":"2001-01-01","nothing":1}`, "/expires_at /name /nothing"},
		{"an event type", "POST", "/v1/event-types", `{"name":"a b","check":"perhaps","schema":{"type":"nothing"},"example":1}`,
			"/check /name /schema/type"},
		{"an event type without a schema", "POST", "/v1/event-types", `{"name":"a b","check":"refuse","example":1,"note":"n"}`,
			"/check /example /name /note"},
		{"a portal's look", "PATCH", "/v1/tenants/default/portal", `{"nothing":1,"logo":"here","accent":"red","frame_ancestors":["here"]}`,
			"/accent /frame_ancestors/0 /logo /nothing"},
		{"a replay", "POST", "/v1/endpoints/EP/replay", `{"rate":-1,"stop_after":0.5,"from":"2026-01-02T00:00:00Z","to":"2026-01-01T00:00:00Z","deliveries":["dlv_none"]}`,
			"/deliveries /deliveries/0 /rate /stop_after /to"},
		{"an alert rule", "PATCH", "/v1/alert-rules/endpoint_failing", `{"threshold":-1,"severity":"bad","nothing":1}`, "/nothing /severity /threshold"},
		{"an event that is tried", "POST", "/v1/events/preview", `{"type":"a..b","key":"","tenant":"a b","metadata":["a"]}`,
			"/data /key /metadata /tenant /type"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := w.ask(admin, c.method, names.Replace(c.target), c.body)
			if r.StatusCode != 422 {
				t.Fatalf("answered %d: %s", r.StatusCode, r.body)
			}
			var at []string
			for _, e := range r.object(t)["errors"].([]any) {
				at = append(at, e.(map[string]any)["pointer"].(string))
			}
			slices.Sort(at)
			if got := strings.Join(at, " "); got != c.at {
				t.Errorf("faults at\n%s, want\n%s\n%s", got, c.at, r.body)
			}
		})
	}
}
