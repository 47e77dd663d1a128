package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/replay"
	"github.com/grapnelhq/grapnel/internal/store"
)

// over publishes an event and ends its one delivery.
func (w *world) over(t *testing.T, event string, status grapnel.Status) *grapnel.Delivery {
	t.Helper()
	w.must(202, "POST", "/v1/events", event)
	d := w.newest(t)
	code := grapnel.ReasonNone
	if status == grapnel.Failed {
		code = grapnel.ReasonExhausted
	}
	w.finish(d, status, code, "")
	return d
}

// make takes a step of a replay, as the runner would, and ends what it made.
func (w *world) make(t *testing.T, id string, from, to int64, end grapnel.Status, of ...int64) []store.Redelivered {
	t.Helper()
	step := store.ReplayStep{Replay: id, From: from, To: to, At: w.clock}
	for _, seq := range of {
		step.Items = append(step.Items, store.Redelivery{Of: seq, Ordered: true})
	}
	made, err := w.engine.Store.Advance(t.Context(), step)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range made {
		if end != "" {
			w.finish(&grapnel.Delivery{Seq: m.Delivery}, end, "", "")
		}
	}
	return made
}

// A replay is counted before it is created. Its deliveries, their outcomes and the notes on the
// originals can be read.
func TestReplayFromPlanToReport(t *testing.T) {
	w := newWorld(t)
	ep := w.endpoint(admin, "")
	var dead []*grapnel.Delivery
	for i := range 5 {
		dead = append(dead, w.over(t, fmt.Sprintf(`{"type":"invoice.paid","data":%d,"key":"k%d"}`, i, i%2), grapnel.Failed))
	}
	w.over(t, `{"type":"invoice.paid","data":9}`, grapnel.Delivered)
	w.must(202, "POST", "/v1/events", `{"type":"invoice.paid","data":10,"key":"k0"}`)
	w.must(200, "POST", "/v1/deliveries/"+storeIDs.Of(dead[4])+"/discard", `{"reason":"too old"}`)

	path := "/v1/endpoints/" + ep + "/replay"
	before := w.dump()
	plan := w.must(200, "POST", path, `{"dry_run":true}`)
	if d := cmp.Diff(map[string]any{"dry_run": true, "total": 4.0, "keys": 2.0, "longest_chain": 2.0, "overtaken": 0.0, "partial": false,
		"excluded":  map[string]any{"already_replayed": 0.0, "discarded": 1.0, "on_its_way": 0.0, "superseded": 0.0, "tests": 0.0},
		"by_status": map[string]any{"delivered": 0.0, "discarded": 0.0, "dropped": 0.0, "failed": 4.0, "skipped": 0.0}, "waiting": 1.0}, plan); d != "" {
		t.Errorf("the plan: %s", d)
	}
	if d := cmp.Diff(before, w.dump()); d != "" {
		t.Errorf("a dry run changed something: %s", d)
	}
	body := `{"event_types":["invoice.*"],"status":["failed"],"rate":20,"stop_after":3,"canary":true,"reason":"they fixed it"}`
	started := w.must(202, "POST", path, body, "Idempotency-Key", "once")
	id := started["id"].(string)
	if !strings.HasPrefix(id, "rpl_") || started["status"] != "running" || started["total"] != 4.0 || started["made"] != 0.0 ||
		started["rate"] != 20.0 ||
		started["stop_after"] != 3.0 || started["canary"] != true || started["started_by"] != "key_admin" || started["endpoint_id"] != ep {
		t.Errorf("started: %v", started)
	}
	if again := w.must(202, "POST", path, body, "Idempotency-Key", "once"); again["id"] != id {
		t.Errorf("the same order again made %v", again["id"])
	}
	if all := w.all("/v1/replays?endpoint="+ep, 1); len(all) != 1 || all[0] != id {
		t.Errorf("there are %v", all)
	}

	made := w.make(t, id, 0, dead[1].Seq, grapnel.Delivered, dead[0].Seq, dead[1].Seq)
	w.make(t, id, dead[1].Seq, dead[2].Seq, "", dead[2].Seq)
	got := w.must(200, "GET", "/v1/replays/"+id, "")
	if got["made"] != 3.0 || got["done"] != 2.0 || got["delivered"] != 2.0 || got["failed"] != 0.0 || got["eta"] == nil ||
		got["finished_at"] != nil {
		t.Errorf("on its way: %v", got)
	}
	if paused := w.must(200, "POST", "/v1/replays/"+id+"/pause", `{"reason":"lunch"}`); paused["status"] != "paused" ||
		paused["reason"] != "lunch" || paused["eta"] != nil {
		t.Errorf("paused: %v", paused)
	}
	if _, err := w.engine.Store.Advance(t.Context(), store.ReplayStep{Replay: id, From: dead[2].Seq, To: dead[3].Seq,
		At: w.clock}); grapnel.CodeOf(err) != grapnel.CodeConflict {
		t.Errorf("a step while it is paused: %v", err)
	}
	if resumed := w.must(200, "POST", "/v1/replays/"+id+"/resume", ""); resumed["status"] != "running" || resumed["reason"] != nil {
		t.Errorf("resumed: %v", resumed)
	}
	var items []string
	for cursor := ""; ; {
		page := w.must(200, "GET", "/v1/replays/"+id+"/items?limit=2"+cursor, "")
		for _, one := range page["data"].([]any) {
			m := one.(map[string]any)
			items = append(items, fmt.Sprint(m["original_id"], " ", m["status"]))
			if m["original_id"] == storeIDs.Of(dead[0]) && m["delivery_id"] != storeIDs.Delivery(made[0].CreatedAt, made[0].Delivery) {
				t.Errorf("of %v was made %v", m["original_id"], m["delivery_id"])
			}
			if of := dead[len(items)-1]; m["type"] != of.Type || m["key"] != of.Key {
				t.Errorf("an item is about %v with the key %v, not %s, %s", m["type"], m["key"], of.Type, of.Key)
			}
		}
		if page["next"] == nil {
			break
		}
		cursor = "&cursor=" + page["next"].(string)
	}
	if d := cmp.Diff([]string{storeIDs.Of(dead[0]) + " delivered", storeIDs.Of(dead[1]) + " delivered",
		storeIDs.Of(dead[2]) + " pending"}, items); d != "" {
		t.Errorf("the items: %s", d)
	}
	d := w.must(200, "GET", "/v1/deliveries/"+storeIDs.Of(dead[0]), "")
	if d["status"] != "failed" || d["replayed_by"] != id || d["replay_result"] != "delivered" || d["replayed_at"] == nil {
		t.Errorf("the original: %v", d)
	}
	if again := w.must(200, "GET", "/v1/deliveries/"+d["replayed_as"].(string),
		""); again["replay_of"] != storeIDs.Of(dead[0]) || again["event_id"] != d["event_id"] {
		t.Errorf("the new one: %v", again)
	}
	if plan := w.must(200, "POST", path, `{"dry_run":true}`); plan["total"] != 1.0 ||
		plan["excluded"].(map[string]any)["already_replayed"] != 2.0 ||
		plan["excluded"].(map[string]any)["on_its_way"] != 1.0 {
		t.Errorf("what is left: %v", plan)
	}
	if plan := w.must(200, "POST", path, `{"dry_run":true,"again":true}`); plan["total"] != 5.0 {
		t.Errorf("once more: %v", plan)
	}
	if cancelled := w.must(200, "POST", "/v1/replays/"+id+"/cancel",
		`{"reason":"enough"}`); cancelled["status"] != "cancelled" || cancelled["finished_at"] == nil {
		t.Errorf("cancelled: %v", cancelled)
	}
	w.must(409, "POST", "/v1/replays/"+id+"/resume", "")
	if all := w.all("/v1/replays?active=true", 5); len(all) != 0 {
		t.Errorf("active are %v", all)
	}
	var verbs []string
	for _, e := range w.must(200, "GET", "/v1/audit?endpoint="+ep+"&limit=4", "")["data"].([]any) {
		m := e.(map[string]any)
		verbs = append(verbs, fmt.Sprint(m["verb"], " ", m["reason"]))
	}
	if d := cmp.Diff([]string{"cancel_replay " + id + ": enough", "resume_replay " + id, "pause_replay " + id + ": lunch",
		"replay " + id + ": they fixed it"}, verbs); d != "" {
		t.Errorf("the audit: %s", d)
	}
}

// Deliveries can be named, whatever became of them; those of others and those that are not over
// cannot.
func TestReplayOfNamedDeliveries(t *testing.T) {
	w := newWorld(t)
	ep := w.endpoint(admin, "")
	arrived := w.over(t, `{"type":"a","data":1}`, grapnel.Delivered)
	skipped := w.over(t, `{"type":"a","data":1}`, grapnel.Skipped)
	w.must(202, "POST", "/v1/events", `{"type":"a","data":1}`)
	waits := w.newest(t)
	other := w.endpoint(admin, "")
	path := "/v1/endpoints/" + ep + "/replay"
	ids := func(ds ...*grapnel.Delivery) string {
		var all []string
		for _, d := range ds {
			all = append(all, `"`+storeIDs.Of(d)+`"`)
		}
		return `{"deliveries":[` + strings.Join(all, ",") + `]`
	}
	if got := w.must(202, "POST", path, ids(arrived, skipped)+`}`); got["total"] != 2.0 ||
		got["selection"].(map[string]any)["deliveries"] != 2.0 {
		t.Errorf("answered %v", got)
	}
	before := w.dump()
	for target, body := range map[string]string{path: ids(arrived, waits) + `}`,
		"/v1/endpoints/" + other + "/replay": ids(skipped, arrived) + `,"dry_run":true}`} {
		p := w.must(422, "POST", target, body)
		if pointer := p["errors"].([]any)[0].(map[string]any)["pointer"]; pointer != map[string]any{path: "/deliveries/1",
			"/v1/endpoints/" + other + "/replay": "/deliveries/0"}[target] {
			t.Errorf("%s: at fault is %v", target, pointer)
		}
	}
	if d := cmp.Diff(before, w.dump()); d != "" {
		t.Errorf("something has changed: %s", d)
	}
}

// TestReplayOfNoDeliveries: a program whose own search found nothing sends an empty list. That is
// not every failed delivery, which a replay without the list takes.
func TestReplayOfNoDeliveries(t *testing.T) {
	w := newWorld(t)
	path := "/v1/endpoints/" + w.endpoint(admin, "") + "/replay"
	w.over(t, `{"type":"a","data":1}`, grapnel.Failed)
	before := w.dump()
	for _, body := range []string{`{"deliveries":[]}`, `{"deliveries":[],"dry_run":true}`} {
		if p := w.must(422, "POST", path, body); p["errors"].([]any)[0].(map[string]any)["pointer"] != "/deliveries" {
			t.Errorf("%s: %v", body, p)
		}
	}
	if d := cmp.Diff(before, w.dump()); d != "" {
		t.Errorf("something has changed: %s", d)
	}
}

func TestReplaysAreTheirTenants(t *testing.T) {
	w := newWorld(t)
	mine, acme := w.endpoint(admin, ""), w.endpoint(acmeAdmin, "")
	for _, ep := range []string{mine, acme, acme} {
		w.clock = w.clock.Add(time.Second)
		w.must(202, "POST", "/v1/webhook-endpoints/"+ep+"/replay", "")
	}
	whole := w.all("/v1/replays", 500)
	if len(whole) != 3 {
		t.Fatalf("there are %v", whole)
	}
	if got := w.all("/v1/replays", 1); !cmp.Equal(got, whole) {
		t.Errorf("by 1: %v, want %v", got, whole)
	}
	for target, want := range map[string]int{"/v1/replays": 2, "/v1/replays?tenant=default": 0,
		"/v1/replays?endpoint=" + mine: 0, "/v1/replays?endpoint=" + acme: 2} {
		if got := w.as(acmeAdmin, 200, "GET", target, "")["data"].([]any); len(got) != want {
			t.Errorf("%s: the tenant sees %d, want %d", target, len(got), want)
		}
	}
	if got := w.must(200, "GET", "/v1/replays?tenant=acme", "")["data"].([]any); len(got) != 2 {
		t.Errorf("of the tenant there are %d", len(got))
	}
}

// What would be dropped at once is not replayed, and a server without replays says so.
func TestReplayThatCannotBe(t *testing.T) {
	w := newWorld(t)
	off := w.endpoint(admin, `,"status":"disabled","policy":"paylera"`)
	if p := w.must(409, "POST", "/v1/endpoints/"+off+"/replay", ""); !strings.Contains(p["detail"].(string), "enable") {
		t.Errorf("answered %v", p)
	}
	w = newWorld(t, func(o *Options) { o.Replays = replay.Jobs(nil) })
	w.must(503, "GET", "/v1/replays", "")
}
