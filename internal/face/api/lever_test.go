package api

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/wire"
)

// said is what the audit says, the oldest first, each entry as "verb reason".
func (w *world) said(query string) (all []string) {
	w.t.Helper()
	for _, one := range w.must(200, "GET", "/v1/audit?limit=500"+query, "")["data"].([]any) {
		e := one.(map[string]any)
		text := e["verb"].(string)
		if reason, given := e["reason"].(string); given {
			text += " " + reason
		}
		all = append(all, text)
	}
	slices.Reverse(all)
	return all
}

func TestPauseAndResume(t *testing.T) {
	w := newWorld(t)
	id := w.endpoint(admin, "")
	target := "/v1/endpoints/" + id
	for _, step := range []struct {
		verb, body string
		status     int
		becomes    string
	}{
		{"resume", "", 200, "enabled"},
		{"pause", `{"reason":"they deploy"}`, 200, "paused"},
		{"pause", `{"reason":"again"}`, 200, "paused"},
		{"resume", "{}", 200, "enabled"},
		{"resume", `{"reason":"again"}`, 200, "enabled"},
		{"pause", "", 200, "paused"},
		{"", `{"status":"disabled"}`, 200, "disabled"},
		{"pause", "", 409, "disabled"},
		{"resume", "", 409, "disabled"},
		{"", `{"status":"enabled"}`, 200, "enabled"},
	} {
		method := map[bool]string{true: "POST", false: "PATCH"}[step.verb != ""]
		got := w.must(step.status, method, strings.TrimSuffix(target+"/"+step.verb, "/"), step.body)
		if step.status == 200 && got["status"] != step.becomes || string(w.stored(id).Status) != step.becomes {
			t.Errorf("%+v: answered %v, stored %s", step, got, w.stored(id).Status)
		}
	}
	if d := cmp.Diff([]string{"create", "pause they deploy", "resume", "pause", "disable", "enable"}, w.said("&endpoint="+id)); d != "" {
		t.Errorf("the audit: %s", d)
	}
	if ep := w.stored(id); ep.Revision != 6 {
		t.Errorf("what changes nothing made revisions: there are %d", ep.Revision)
	}
}

func TestProbe(t *testing.T) {
	w := newWorld(t)
	id := w.endpoint(acmeAdmin, "")
	w.engine.health[id] = grapnel.Health{State: grapnel.HealthOpen, Reason: "r", NextProbeAt: w.clock.Add(time.Minute)}
	got := w.as(acmeAdmin, 200, "POST", "/v1/endpoints/"+id+"/probe", `{"reason":"they say it is fixed"}`)
	if got["id"] != id || got["health"].(map[string]any)["state"] != "open" {
		t.Errorf("answered %v", got)
	}
	w.engine.still = grapnel.Errorf(grapnel.CodeConflict, "nothing is due that could show it")
	if p := w.as(acmeAdmin, 409, "POST", "/v1/endpoints/"+id+"/probe", ""); p["detail"] != "nothing is due that could show it" {
		t.Errorf("answered %v", p)
	}
	if d := cmp.Diff([]string{"create", "probe they say it is fixed"}, w.said("&endpoint="+id)); d != "" {
		t.Errorf("the audit: %s", d)
	}
}

// Everything that a person does to an endpoint or a delivery leaves an entry: who, what, to what,
// why and when.
func TestAuditOfEverything(t *testing.T) {
	w := newWorld(t)
	id := w.endpoint(admin, "")
	target := "/v1/endpoints/" + id
	w.must(200, "PATCH", target, `{"description":"x"}`)
	w.must(200, "PATCH", target+"?reason=too+loud", `{"description":"y","status":"disabled"}`)
	if got := w.must(200, "GET", target, "")["disabled_reason"]; got != "an operator disabled it: too loud" {
		t.Errorf("disabled because %v", got)
	}
	w.must(200, "PATCH", target+"?reason=they+promised", `{"status":"enabled"}`)
	w.must(200, "POST", target+"/rotate-secret", `{"reason":"it leaked"}`)
	test := w.must(200, "POST", target+"/test", "")["id"].(string)
	w.finish(w.only(), grapnel.Delivered, grapnel.ReasonNone, "")
	again := w.must(200, "POST", "/v1/deliveries/"+test+"/retry", `{"reason":"once more"}`)["id"].(string)
	w.must(200, "POST", "/v1/deliveries/"+again+"/retry", "")
	w.clock = w.clock.Add(time.Second)
	w.must(200, "POST", "/v1/deliveries/"+again+"/skip", `{"reason":"known bad"}`)
	if r := w.ask(admin, "DELETE", target+"?reason=they+left", ""); r.StatusCode != 204 {
		t.Fatalf("answered %d %s", r.StatusCode, r.body)
	}
	want := []string{"create", "change", "disable too loud", "enable they promised", "rotate_secret it leaked", "test",
		"retry once more", "retry",
		"skip known bad", "delete they left"}
	if d := cmp.Diff(want, w.said("")); d != "" {
		t.Errorf("the audit: %s", d)
	}
	if d := cmp.Diff(want, w.said("&endpoint="+id)); d != "" {
		t.Errorf("of the endpoint: %s", d)
	}
	if d := cmp.Diff([]string{"test", "retry once more"}, w.said("&delivery="+test)); d != "" {
		t.Errorf("of a delivery: %s", d)
	}
	if found := w.said("&endpoint=ep_none"); len(found) != 0 {
		t.Errorf("of nothing: %v", found)
	}
	newest := w.must(200, "GET", "/v1/audit?limit=2", "")["data"].([]any)
	wanted := []any{
		map[string]any{"number": 10.0, "at": w.clock.Format(wire.TimeLayout), "tenant": "default", "actor": "key_admin", "actor_name": "key_admin", "name": "y",
			"verb": "delete", "endpoint_id": id, "delivery_id": nil, "reason": "they left"},
		map[string]any{"number": 9.0, "at": w.clock.Format(wire.TimeLayout), "tenant": "default", "actor": "key_admin", "actor_name": "key_admin", "name": "y",
			"verb": "skip", "endpoint_id": id, "delivery_id": again, "reason": "known bad"},
	}
	if d := cmp.Diff(wanted, newest); d != "" {
		t.Errorf("shown as: %s", d)
	}
}

// A tenant sees what other actors did to its own things, and nothing about other tenants' things.
func TestAuditShowsTheTenantsOwn(t *testing.T) {
	w := newWorld(t)
	mine, other := w.endpoint(acmeAdmin, ""), w.endpoint(admin, "")
	w.must(200, "POST", "/v1/endpoints/"+mine+"/pause", `{"reason":"by the operator"}`)
	reads := scoped(grapnel.ScopeRead)
	for _, c := range []struct {
		key, query string
		want       int
	}{
		{reads, "", 3}, {reads, "?tenant=acme", 2}, {reads, "?tenant=default", 1}, {reads, "?endpoint=" + other, 1},
		{reads + "_acme", "", 2}, {reads + "_acme", "?tenant=acme", 2}, {reads + "_acme", "?tenant=default", 0},
		{reads + "_acme", "?endpoint=" + other, 0},
	} {
		if n := len(w.as(c.key, 200, "GET", "/v1/audit"+c.query, "")["data"].([]any)); n != c.want {
			t.Errorf("%s%s: %d entries, want %d", c.key, c.query, n, c.want)
		}
	}
}

// Everything that was changed once is in the audit once, however often the request came.
func TestRepeatedRequestsLeaveOneEntry(t *testing.T) {
	w := newWorld(t)
	id := w.endpoint(admin, "")
	w.engine.health[id] = grapnel.Health{State: grapnel.HealthOpen, Reason: "r"}
	for _, verb := range []string{"rotate-secret", "test", "pause", "resume", "probe"} {
		for range 3 {
			w.must(200, "POST", "/v1/endpoints/"+id+"/"+verb, `{}`, "Idempotency-Key", verb)
		}
	}
	if d := cmp.Diff([]string{"create", "rotate_secret", "test", "pause", "resume", "probe"}, w.said("")); d != "" {
		t.Errorf("the audit: %s", d)
	}
}

func TestStuckLanes(t *testing.T) {
	w := newWorld(t)
	id, other := w.endpoint(admin, ""), w.endpoint(admin, `,"event_types":["never"]`)
	target := "/v1/endpoints/" + id + "/lanes"
	const keys = 5
	for i := range keys {
		for range i + 1 {
			w.must(202, "POST", "/v1/events", fmt.Sprintf(`{"type":"a","data":1,"key":"k%d"}`, i))
		}
	}
	w.must(202, "POST", "/v1/events", `{"type":"a","data":1}`)
	if got := w.must(200, "GET", target, ""); len(got["data"].([]any)) != 0 || got["next"] != nil {
		t.Errorf("before anything failed: %v", got)
	}
	started := w.clock
	w.clock = w.clock.Add(time.Minute)
	heads, err := w.engine.DeliveryList(context.Background(), store.Everyone(), store.DeliveryQuery{Endpoint: id, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range heads {
		if d.Waiting.Head {
			w.attempt(&d, 1, 503, w.clock.Add(10*time.Second))
		}
	}
	lanes := w.must(200, "GET", target, "")["data"].([]any)
	if len(lanes) != keys {
		t.Fatalf("%d lanes are stuck", len(lanes))
	}
	for i, one := range lanes {
		lane := one.(map[string]any)
		head := lane["head"].(map[string]any)
		if lane["key"] != fmt.Sprint("k", i) || lane["waiting"] != float64(i) || lane["waiting_more"] != false ||
			lane["since"] != started.Format(wire.TimeLayout) {
			t.Errorf("lane %d is shown as %v", i, lane)
		}
		if d := cmp.Diff(head["reason"], w.must(200, "GET", "/v1/deliveries/"+head["id"].(string), "")["reason"]); d != "" ||
			head["attempts_made"] != 1.0 || head["attempts"] != nil {
			t.Errorf("its head is shown as %v: %s", head, d)
		}
	}
	whole := w.all(target, 500)
	for limit := 1; limit <= keys+1; limit++ {
		if got := w.all(target, limit); !slices.Equal(got, whole) || len(got) != keys {
			t.Errorf("by %d: %v, want %v", limit, got, whole)
		}
	}
	if got := w.all("/v1/endpoints/"+other+"/lanes", 500); len(got) != 0 {
		t.Errorf("the other endpoint has %v", got)
	}
	for limit := 1; limit <= keys+1; limit++ {
		var got []string
		for cursor, more := "", true; more; { // a page may be empty, and not the last
			target := fmt.Sprintf("/v1/lanes?tenant=default&limit=%d", limit)
			if cursor != "" {
				target += "&cursor=" + cursor
			}
			page := w.must(200, "GET", target, "")
			for _, lane := range page["data"].([]any) {
				got = append(got, lane.(map[string]any)["head"].(map[string]any)["id"].(string))
			}
			cursor, more = page["next"].(string)
		}
		if !slices.Equal(got, whole) {
			t.Errorf("of all endpoints, by %d: %v, want %v", limit, got, whole)
		}
	}
	if got := w.must(200, "GET", "/v1/lanes?tenant=acme", "")["data"].([]any); len(got) != 0 {
		t.Errorf("the other tenant has %v", got)
	}
	// Skipped, the key moves on.
	w.must(200, "POST", "/v1/deliveries/"+whole[keys-1]+"/skip", `{"reason":"known bad"}`)
	if got := w.all(target, 500); !slices.Equal(got, whole[:keys-1]) {
		t.Errorf("after skipping one: %v", got)
	}
}

// crowded is a history with a lane in which more waits than is counted.
type crowded struct {
	History
	waiting int
}

func (h *crowded) StuckLanes(context.Context, store.Scope, store.LaneQuery) ([]grapnel.Lane, error) {
	return []grapnel.Lane{{Key: "k", Waiting: h.waiting, Head: grapnel.Delivery{Status: grapnel.Pending}}}, nil
}

func TestLanesSayThatMoreMayWait(t *testing.T) {
	for waiting, more := range map[int]bool{store.MaxWaiting - 1: false, store.MaxWaiting: true} {
		w := newWorld(t, func(o *Options) { o.History = &crowded{o.History, waiting} })
		id := w.endpoint(admin, "")
		lane := w.must(200, "GET", "/v1/endpoints/"+id+"/lanes", "")["data"].([]any)[0].(map[string]any)
		if lane["waiting"] != float64(waiting) || lane["waiting_more"] != more {
			t.Errorf("%d: shown as %v", waiting, lane)
		}
	}
}

// TestWhatIsAsItShouldBeIsConfirmed: another request may have paused the endpoint just before, and
// be waiting for a node. So the answer that it is paused comes once every node knows that.
func TestWhatIsAsItShouldBeIsConfirmed(t *testing.T) {
	w := newWorld(t)
	ep := w.endpoint(admin, "")
	for _, verb := range []string{"pause", "resume"} {
		for confirmed := range int64(2) {
			before := w.engine.confirmed.Load()
			w.must(200, "POST", "/v1/endpoints/"+ep+"/"+verb, "")
			if n := w.engine.confirmed.Load() - before; n != confirmed {
				t.Errorf("%s, once more: %v, was confirmed %d times", verb, confirmed == 1, n)
			}
		}
	}
}
