package api

import (
	"fmt"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/wire"
)

// The calls of the documents that Grapnel set out from, as they stand there: paths, parameters and
// bodies.

// Parseo: what failed is listed by status, all of it is replayed, an event's payload is sent as a
// test, full records are kept 30 days and what they add up to for ever.
func TestCallsOfParseo(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Keep = func() store.Keep { return store.Keep{For: 30 * 24 * time.Hour} } })
	ep := w.endpoint(admin, `,"policy":"parseo"`)
	dead := w.over(t, `{"id":"evt_4D3c2B","type":"invoice.parsed","data":{"id":"inv_1","total": 1.50}}`, grapnel.Failed)
	w.over(t, `{"type":"invoice.parsed","data":2}`, grapnel.Delivered)

	failed := w.must(200, "GET", "/webhooks/"+ep+"/deliveries?status=failed", "")["data"].([]any)
	if len(failed) != 1 || failed[0].(map[string]any)["id"] != storeIDs.Of(dead) || failed[0].(map[string]any)["days_left"] != 30.0 {
		t.Fatalf("failed are %v", failed)
	}
	event := w.must(200, "GET", "/v1/events/evt_4D3c2B", "")
	accepted, err := time.Parse(wire.TimeLayout, event["accepted_at"].(string))
	if until := accepted.Add(30 * 24 * time.Hour).Format(wire.TimeLayout); err != nil || event["retained_until"] != until {
		t.Errorf("retained until %v, want %s", event["retained_until"], until)
	}
	// Another payload is a test, also under the same id and of another shape.
	for _, body := range []string{`{"id":"evt_4D3c2B","type":"invoice.parsed","data":{"id":"inv_1","total":2}}`,
		`{"id":"evt_9","type":"invoice.parsed","occurredAt":"2026-01-02T03:04:05Z","invoice":{"total":1}}`} {
		got := w.must(200, "POST", "/webhooks/"+ep+"/test", body)
		if got["event_id"] == "evt_4D3c2B" || got["type"] != "invoice.parsed" || got["reason_code"] != "test" || got["replay_of"] != nil {
			t.Errorf("the test %s is %v", body, got)
		}
	}
	// The payload as it was delivered, read and written by a program, replays the dead letter.
	got := w.must(200, "POST", "/webhooks/"+ep+"/test",
		`{"data":{"total":1.5,"id":"inv_1"},"id":"evt_4D3c2B","type":"invoice.parsed","timestamp":"2026-01-02T03:04:05.678901Z"}`)
	if got["event_id"] != "evt_4D3c2B" || got["replay_of"] != storeIDs.Of(dead) {
		t.Errorf("the replay is %v", got)
	}
	w.finish(w.newest(t), grapnel.Delivered, "", "")
	if left := w.must(200, "GET", "/v1/dead-letters", "")["data"].([]any); len(left) != 0 {
		t.Errorf("dead letters left: %v", left)
	}
	if all := w.must(202, "POST", "/v1/endpoints/"+ep+"/replay", `{"status":["failed"],"again":true}`); all["total"] != 1.0 {
		t.Errorf("all that failed is %v", all)
	}
	stats := w.must(200, "GET", "/v1/endpoints/"+ep+"/stats?bucket=day", "")["data"].([]any)[0].(map[string]any)
	if fmt.Sprint(stats["delivered"], stats["failed"], stats["retried"]) != "2 1 0" { // tests count nowhere
		t.Errorf("the day is %v", stats)
	}
}

// Paylera: inspecting and replaying under its own paths.
func TestCallsOfPaylera(t *testing.T) {
	w := newWorld(t)
	w.clock = time.Date(2026, 5, 6, 9, 0, 0, 0, time.UTC)
	ep := w.endpoint(admin, `,"policy":"paylera"`)
	home := "/v1/admin/webhook-endpoints/" + ep
	dead := w.over(t, `{"type":"invoice.paid","data":1,"aggregate_type":"invoice","aggregate_id":"inv_123"}`, grapnel.Failed)
	w.over(t, `{"type":"invoice.sent","data":1}`, grapnel.Failed)
	w.over(t, `{"type":"invoice.paid","data":1}`, grapnel.Delivered)
	w.over(t, `{"type":"invoice.paid","data":1}`, grapnel.Delivered)
	w.over(t, `{"type":"invoice.paid","data":1}`, grapnel.Dropped)
	w.must(202, "POST", "/v1/events", `{"type":"invoice.paid","data":1}`) // still pending
	w.clock = time.Date(2026, 5, 6, 15, 0, 0, 0, time.UTC)
	w.over(t, `{"type":"invoice.paid","data":1}`, grapnel.Failed)
	w.must(200, "PATCH", home, `{"status":"disabled"}`)
	if got := w.must(200, "PATCH", home, `{ "status": "enabled" }`); got["status"] != "enabled" {
		t.Errorf("enabled: %v", got)
	}
	failed := w.must(200, "GET", home+"/deliveries?status=failed&limit=50", "")["data"].([]any)
	if len(failed) != 4 || failed[3].(map[string]any)["id"] != storeIDs.Of(dead) {
		t.Errorf("failed are %v", failed)
	}
	for path, n := range map[string]int{home: 4, "/v1/webhook-endpoints/" + ep: 4, "/webhooks/" + ep: 4, "/v1/endpoints/" + ep: 3} {
		if got := w.must(200, "GET", path+"/deliveries?status=failed", "")["data"].([]any); len(got) != n {
			t.Errorf("%s lists %d as failed, want %d", path, len(got), n)
		}
	}
	const asPrinted = `
"from": "2026-05-06T08:00:00Z",
"to": "2026-05-06T14:00:00Z",
"event_types": ["invoice.paid"]
}`
	plan := w.must(200, "POST", home+"/replay", `{"dry_run":true,`+asPrinted)
	if fmt.Sprint(plan["by_status"]) != "map[delivered:2 discarded:0 dropped:1 failed:1 skipped:0]" ||
		plan["total"] != 4.0 || plan["waiting"] != 1.0 {
		t.Errorf("the plan is %v", plan)
	}
	if got := w.must(200, "POST", "/v1/endpoints/"+ep+"/replay", `{"dry_run":true,`+asPrinted); got["total"] != 1.0 {
		t.Errorf("on the other path the plan is %v", got)
	}
	if got := w.must(200, "POST", home+"/replay", `{"dry_run":true,"status":["failed"],`+asPrinted); got["total"] != 1.0 {
		t.Errorf("with a status the plan is %v", got)
	}
	if got := w.must(202, "POST", home+"/replay", "{"+asPrinted); got["total"] != 4.0 || got["status"] != "running" {
		t.Errorf("the replay is %v", got)
	}
	w.must(200, "POST", home+"/deliveries/"+storeIDs.Of(dead)+"/retry", "")
	w.finish(w.newest(t), grapnel.Delivered, "", "")
	plan = w.must(200, "POST", home+"/replay", `{"dry_run":true,`+asPrinted)
	if left := plan["excluded"].(map[string]any); plan["total"] != 3.0 || left["already_replayed"] != 1.0 {
		t.Errorf("after one was retried with success the plan is %v", plan)
	}
	if got := w.must(200, "POST", home+"/deliveries/"+storeIDs.Of(dead)+"/retry", ""); got["replay_of"] != storeIDs.Of(dead) ||
		got["key"] != "invoice/inv_123" {
		t.Errorf("retried: %v", got)
	}
	// "Fix the bug, ack the stuck event".
	w.must(200, "POST", "/v1/deliveries/"+storeIDs.Of(w.newest(t))+"/skip", `{"reason":"acknowledged by hand"}`)
}

// Sent: a delivery that ends after 24 hours is no dead letter, but its record stays and can be
// redelivered.
func TestCallsOfSent(t *testing.T) {
	w := newWorld(t)
	ep := w.endpoint(admin, `,"policy":"sent"`)
	d := w.over(t, `{"type":"message.status","data":{"field":"messages"}}`, grapnel.Discarded)
	if got := w.all("/v1/dead-letters", 5); len(got) != 0 {
		t.Errorf("dead letters are %v", got)
	}
	if got := w.all("/v1/endpoints/"+ep+"/deliveries?status=discarded", 5); len(got) != 1 || got[0] != storeIDs.Of(d) {
		t.Errorf("discarded are %v", got)
	}
	if got := w.must(200, "POST", "/v1/endpoints/"+ep+"/replay", `{"status":["discarded"],"dry_run":true}`); got["total"] != 1.0 {
		t.Errorf("the plan is %v", got)
	}
}

// Hooque: a rejected message is inspected, stored with a reason, and replayed after a fix. Its
// queue calls belong to queues.
func TestCallsOfHooque(t *testing.T) {
	w := newWorld(t)
	ep := w.endpoint(admin, "")
	w.must(202, "POST", "/v1/events", `{"type":"order.created","data":1}`)
	d := w.newest(t)
	w.finish(d, grapnel.Failed, grapnel.ReasonRejected, "rejected: the schema is not known")
	if got := w.must(200, "GET", "/v1/deliveries/"+storeIDs.Of(d), ""); got["reason_code"] != "rejected" ||
		got["reason"] != "rejected: the schema is not known" {
		t.Errorf("shown as %v", got)
	}
	if got := w.must(202, "POST", "/v1/endpoints/"+ep+"/replay", `{"deliveries":["`+storeIDs.Of(d)+`"],"canary":true}`); got["total"] != 1.0 {
		t.Errorf("the replay is %v", got)
	}
}

// Webhookify: on every dead letter is kept when it was replayed and with what result, and the
// metrics that it asks for are answered.
func TestCallsOfWebhookify(t *testing.T) {
	w := newWorld(t)
	ep := w.endpoint(admin, `,"policy":"webhookify"`)
	good, bad := w.over(t, `{"type":"a","data":1}`, grapnel.Failed), w.over(t, `{"type":"a","data":2}`, grapnel.Failed)
	id := w.must(202, "POST", "/v1/endpoints/"+ep+"/replay", "")["id"].(string)
	w.make(t, id, 0, good.Seq, grapnel.Delivered, good.Seq)
	w.make(t, id, good.Seq, bad.Seq, grapnel.Failed, bad.Seq)
	for d, want := range map[*grapnel.Delivery]string{good: "delivered", bad: "failed"} {
		if got := w.must(200, "GET", "/v1/deliveries/"+storeIDs.Of(d), ""); got["replay_result"] != want ||
			got["replayed_at"] == nil || got["replayed_by"] != id {
			t.Errorf("shown as %v", got)
		}
	}
	totals := w.must(200, "GET", "/v1/stats", "")["totals"].(map[string]any)
	for _, name := range []string{"first_attempt_success", "retried", "attempts", "failed", "latency"} {
		if totals[name] == nil {
			t.Errorf("%s is not told: %v", name, totals)
		}
	}
}
