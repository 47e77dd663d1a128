package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
)

// TestShapes keeps the answers that programs outside rely on, byte for byte. Time stands still and
// randomness is seeded, so ids are always the same.
func TestShapes(t *testing.T) {
	w := newWorld(t)
	var out bytes.Buffer
	show := func(method, target, body string, header ...string) map[string]any {
		t.Helper()
		r := w.ask(admin, method, target, body, header...)
		fmt.Fprintf(&out, "### %s %s\n", method, target)
		if body != "" {
			fmt.Fprintf(&out, "%s\n", body)
		}
		fmt.Fprintf(&out, "--> %d %s\n", r.StatusCode, r.Header.Get("Content-Type"))
		if len(r.body) > 0 {
			if err := json.Indent(&out, bytes.TrimSpace(r.body), "", "  "); err != nil {
				t.Fatalf("%v in %s", err, r.body)
			}
			out.WriteByte('\n')
		}
		out.WriteByte('\n')
		return r.object(t)
	}
	show("POST", "/v1/keys", `{"name":"ci","scopes":["publish","read"],"tenant":"acme"}`)
	pol := show("POST", "/v1/policies", `{"name":"mine","timeout":"5s","schedule":{"delays":["0s","10s"]}}`)
	ep := show("POST", "/v1/endpoints", `{"url":"https://receiver.example/hook","policy":"mine","rate_limit":{"per_second":100,"burst":20}}`)
	show("POST", "/v1/events", `{"type":"invoice.paid","data":{"amount": 1.50},"key":"inv_123","metadata":{"k":"v"},"occurred_at":"2026-01-01T00:00:00Z"}`)
	show("POST", "/v1/events", `{"id":"mine","type":"invoice.sent","data":1,"key":"inv_123"}`)
	show("POST", "/v1/events", `{"id":"mine","type":"invoice.sent","data":1,"key":"inv_123"}`)
	show("POST", "/v1/events/batch", `{"events":[{"type":"a","data":null},{"type":"","data":1},{"id":"mine","type":"other","data":1}]}`)
	show("POST", "/v1/events/raw?type=scan.done", "\x00\x01", "Content-Type", "application/octet-stream")
	list := show("GET", "/v1/deliveries?key=inv_123", "")["data"].([]any)
	first := list[1].(map[string]any)["id"].(string)
	read, err := storeIDs.Read(first)
	if err != nil {
		t.Fatal(err)
	}
	w.clock = w.clock.Add(time.Second)
	w.attempt(&grapnel.Delivery{Seq: read.Seq}, 1, 503, w.clock.Add(10*time.Second))
	show("GET", "/v1/deliveries/"+first, "")
	w.finish(&grapnel.Delivery{Seq: read.Seq}, grapnel.Failed, grapnel.ReasonExhausted, "failed: all attempts are used up")
	again := show("POST", "/v1/deliveries/"+first+"/retry", `{"reason":"their database is back"}`)["id"].(string)
	show("POST", "/v1/deliveries/"+list[0].(map[string]any)["id"].(string)+"/skip", `{"reason":"fixed by hand"}`)
	show("GET", "/v1/events/mine", "")
	show("GET", "/v1/events?type=scan.*", "")
	id := "/v1/endpoints/" + ep["id"].(string)
	show("PATCH", id, `{"status":"disabled","policy":{"max_attempts":3}}`)
	show("POST", id+"/rotate-secret", `{"overlap":"1h"}`)
	show("POST", id+"/test", `{"type":"ping","data":{}}`)
	show("GET", "/v1/endpoints?limit=1", "")
	show("PATCH", id+"?reason=they+fixed+it", `{"status":"enabled"}`)
	show("POST", id+"/pause", `{"reason":"they deploy"}`)
	show("POST", id+"/resume", "")
	w.engine.health[ep["id"].(string)] = grapnel.Health{State: grapnel.HealthOpen, Since: w.clock.Add(-8 * time.Minute), PerSecond: 20,
		Reason:      "the endpoint has failed since 2026-01-02T02:56:06Z (connection refused); only probes are sent",
		NextProbeAt: w.clock.Add(12 * time.Second)}
	show("POST", id+"/probe", `{"reason":"they say it is back"}`)
	show("GET", "/v1/deliveries?status=held&limit=1", "")
	if read, err = storeIDs.Read(again); err != nil {
		t.Fatal(err)
	}
	w.attempt(&grapnel.Delivery{Seq: read.Seq}, 1, 503, w.clock.Add(10*time.Second))
	show("GET", id+"/lanes", "")
	show("GET", "/v1/audit?limit=3", "")
	w.finish(&grapnel.Delivery{Seq: read.Seq}, grapnel.Failed, grapnel.ReasonExhausted, "")
	show("PATCH", "/v1/deliveries/"+again, `{"note":"asked them on Monday"}`)
	show("GET", "/v1/dead-letters?endpoint="+ep["id"].(string)+"&limit=1", "")
	show("POST", id+"/replay", `{"from":"2026-01-01T00:00:00Z","to":"2026-01-03T00:00:00Z","event_types":["invoice.*"],"dry_run":true}`)
	rpl := show("POST", id+"/replay", `{"from":"2026-01-01T00:00:00Z","event_types":["invoice.*"],"rate":20,"stop_after":10,"canary":true,"reason":"they fixed it"}`)["id"].(string)
	w.make(t, rpl, 0, read.Seq, grapnel.Delivered, read.Seq)
	show("GET", "/v1/replays/"+rpl, "")
	show("GET", "/v1/replays/"+rpl+"/items", "")
	show("POST", "/v1/replays/"+rpl+"/pause", `{"reason":"lunch"}`)
	show("POST", "/v1/replays/"+rpl+"/cancel", "")
	show("GET", "/v1/replays?limit=1", "")
	alr := w.alert("default")
	show("GET", "/v1/alerts", "")
	show("POST", "/v1/alerts/"+alr+"/acknowledge", `{"reason":"on it"}`)
	show("GET", "/v1/alerts/"+alr, "")
	show("PATCH", "/v1/alert-rules/dead_letters", `{"threshold":8}`)
	show("POST", "/v1/alert-rules/dead_letters/backtest", `{"for":"7d"}`)
	show("GET", "/v1/deliveries/"+again, "")
	show("POST", "/v1/deliveries/"+first+"/discard", `{"reason":"their customer is gone"}`)
	show("GET", id+"/stats?bucket=day", "")
	w.engine.broken = &grapnel.Error{Code: grapnel.CodeQuota,
		Detail: "The tenant default has more than 1000000 deliveries waiting.", RetryAfter: 5 * time.Second}
	show("POST", "/v1/events", `{"type":"invoice.paid","data":1}`)
	w.engine.broken = nil
	show("GET", "/v1/policies/"+pol["id"].(string), "")
	show("GET", "/v1/policies/paylera", "")
	show("GET", "/v1/keys?limit=1", "")
	src := show("POST", "/v1/sources", `{"name":"stripe-live","verify":{"scheme":"stripe","secret":"whsec_xx"},"on_unverified":"quarantine"}`)["id"].(string)
	show("POST", "/v1/sources", `{"name":"partner","verify":{"scheme":"hmac","secret":"eight888","header":"X-Signature","signed":"{timestamp}.{body}","timestamp_header":"X-Time"},`+
		`"dedupe":{"by":["content"],"ignore":["$.sent_at"]},"rate_limit":{"per_second":5}}`)
	show("PATCH", "/v1/sources/"+src, `{"status":"paused","dedupe":{"window":"240h"}}`)
	show("POST", "/v1/sources/"+src+"/rotate-secret", `{"secret":"whsec_yy","overlap":"1h"}`)
	w.takeIn(src, "evt_taken_in", "application/json", `{"amount": 1.50}`)
	show("GET", "/v1/inbox/evt_taken_in", "")
	show("GET", "/v1/inbox/"+w.setAside(src, grapnel.AsideConflict, "a=b"), "")
	show("GET", "/v1/inbox?limit=1", "")
	show("GET", "/v1/events?source="+src, "")
	show("GET", "/v1/tenants", "")
	show("DELETE", id, "")
	show("GET", "/v1/endpoints/ep_none", "")
	show("GET", "/livez", "")
	show("GET", "/readyz", "")
	secrets := regexp.MustCompile(`"(grp_|whsec_)[^"]+"`)
	text := secrets.ReplaceAll(out.Bytes(), []byte(`"$1…"`))
	// A control byte, as in a raw body, would make the file binary for git, which shows no difference
	// of binary files.
	text = regexp.MustCompile(`[\x00-\x08\x0b-\x1f]`).ReplaceAllFunc(text, func(b []byte) []byte {
		return fmt.Appendf(nil, `\x%02x`, b)
	})
	golden(t, "shapes.golden.txt", text)
}
