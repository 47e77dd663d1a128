package api

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
	"github.com/grapnelhq/grapnel/wire"
)

func TestPlanIsWhatThePolicyDoes(t *testing.T) {
	w := newWorld(t)
	w.endpoint(admin, `,"policy":"paylera"`)
	w.must(202, "POST", "/v1/events", `{"type":"a","data":1}`)
	d := w.only()
	next := w.clock.Add(15 * time.Second)
	w.attempt(d, 1, 503, next)
	d, err := w.engine.Delivery(context.Background(), store.Everyone(), d.Seq)
	if err != nil {
		t.Fatal(err)
	}
	paylera, _ := policy.Preset("paylera")
	want := paylera.Plan(policy.Progress{Attempts: 1, Anchor: d.Waiting.Anchor, Seed: uint64(d.Seq)}, next, mostPlanned)
	shown := w.must(200, "GET", "/v1/deliveries/"+storeIDs.Of(d), "")
	sent := shown["attempts"].([]any)[0].(map[string]any)["request_headers"].(map[string]any)
	if sent["Webhook-Id"] != d.EventID || sent["Grapnel-Delivery"] != storeIDs.Of(d) || sent["X-Own"] != "[redacted]" ||
		sent["Content-Type"] != "application/json" || len(sent) != 8 {
		t.Errorf("it was sent with %v", sent)
	}
	planned := shown["planned"].([]any)
	if len(planned) != len(want) || len(planned) != 8 {
		t.Fatalf("%d attempts are planned, want %d", len(planned), len(want))
	}
	for i, p := range planned {
		m := p.(map[string]any)
		if m["number"] != float64(want[i].Number) || m["at"] != want[i].At.Format(wire.TimeLayout) ||
			m["latest"] != want[i].Latest.Format(wire.TimeLayout) {
			t.Errorf("attempt %d is planned as %v, want %+v", i, m, want[i])
		}
	}
}

func TestNothingIsPlannedForWhatCannotMove(t *testing.T) {
	w := newWorld(t)
	ep := w.endpoint(admin, "")
	w.must(202, "POST", "/v1/events", `{"type":"a","data":1}`)
	id := storeIDs.Of(w.only())
	for _, state := range []string{"paused", "disabled"} {
		w.must(200, "PATCH", "/v1/endpoints/"+ep, `{"status":"`+state+`"}`)
		if d := w.must(200, "GET", "/v1/deliveries/"+id, ""); len(d["planned"].([]any)) != 0 || d["next_attempt_at"] != nil ||
			d["status"] != "held" {
			t.Errorf("%s: shown as %v", state, d)
		}
	}
	w.finish(w.only(), grapnel.Delivered, grapnel.ReasonNone, "delivered at the first attempt")
	if d := w.must(200, "GET", "/v1/deliveries/"+id, ""); len(d["planned"].([]any)) != 0 || d["finished_at"] == nil ||
		d["reason"] != "delivered at the first attempt" {
		t.Errorf("over: shown as %v", d)
	}
}

func TestRetryOfWhatWaitsAndOfWhatIsOver(t *testing.T) {
	w := newWorld(t)
	ep := w.endpoint(admin, "")
	w.must(202, "POST", "/v1/events", `{"type":"a","data":1,"key":"k"}`)
	d := w.only()
	w.attempt(d, 1, 503, w.clock.Add(time.Hour))
	w.clock = w.clock.Add(time.Minute)
	got := w.must(200, "POST", "/v1/endpoints/"+ep+"/deliveries/"+storeIDs.Of(d)+"/retry", "")
	if got["id"] != storeIDs.Of(d) || got["replay_of"] != nil || got["next_attempt_at"] != w.clock.Format(wire.TimeLayout) ||
		len(got["attempts"].([]any)) != 1 || got["attempts_made"] != 1.0 {
		t.Errorf("answered %v", got)
	}
	if again := w.must(200, "GET", "/v1/deliveries/"+storeIDs.Of(d), ""); again["next_attempt_at"] != got["next_attempt_at"] {
		t.Errorf("it is due %v, answered %v", again["next_attempt_at"], got["next_attempt_at"])
	}
	w.finish(d, grapnel.Failed, grapnel.ReasonExhausted, "failed: it is enough")
	got = w.must(200, "POST", "/v1/deliveries/"+storeIDs.Of(d)+"/retry", "{}")
	if got["id"] == storeIDs.Of(d) || got["replay_of"] != storeIDs.Of(d) || got["status"] != "pending" ||
		got["sequence"] != 2.0 || got["reason_code"] != nil || got["finished_at"] != nil {
		t.Errorf("answered %v", got)
	}
	shown := w.must(200, "GET", "/v1/deliveries/"+got["id"].(string), "")
	for _, field := range []string{"id", "event_id", "endpoint_id", "key", "sequence", "status", "replay_of", "created_at",
		"next_attempt_at", "reason", "planned", "attempts"} {
		if fmt.Sprint(shown[field]) != fmt.Sprint(got[field]) {
			t.Errorf("%s is %v, answered %v", field, shown[field], got[field])
		}
	}
	// One more of the same key waits behind that.
	if got = w.must(200, "POST", "/v1/deliveries/"+storeIDs.Of(d)+"/retry", ""); got["status"] != "held" {
		t.Errorf("behind another: answered %v", got)
	}
}

func TestSkip(t *testing.T) {
	w := newWorld(t)
	w.endpoint(admin, "")
	w.must(202, "POST", "/v1/events", `{"type":"a","data":1,"key":"k"}`)
	d := w.only()
	got := w.must(200, "POST", "/v1/deliveries/"+storeIDs.Of(d)+"/skip", `{"reason":"known bad, fixed by hand"}`)
	if got["status"] != "skipped" || got["reason"] != "skipped: known bad, fixed by hand" || got["finished_at"] == nil {
		t.Errorf("answered %v", got)
	}
	if p := w.must(409, "POST", "/v1/deliveries/"+storeIDs.Of(d)+"/skip", `{"reason":"again"}`); p["code"] != "conflict" {
		t.Errorf("answered %v", p)
	}
}

func TestPagesHoldEverythingOnce(t *testing.T) {
	w := newWorld(t)
	const n = 23
	for i := range n {
		if i < 7 {
			w.endpoint(admin, "")
			w.must(201, "POST", "/v1/policies", fmt.Sprintf(`{"name":"p%d"}`, i))
		}
		w.must(202, "POST", "/v1/events", fmt.Sprintf(`{"type":"a.%d","data":%d}`, i%2, i))
	}
	for list, want := range map[string]int{
		"/v1/events?type=a.0": 12, "/v1/events": n, "/v1/deliveries?type=a.*": len(w.all("/v1/deliveries", 500)),
		"/v1/endpoints": 7, "/v1/keys": 12, "/v1/audit": 14,
		"/v1/policies": 7 + len(presets()),
	} {
		whole := w.all(list, 500)
		if len(whole) != want {
			t.Errorf("%s has %d, want %d", list, len(whole), want)
		}
		for _, limit := range []int{1, 5, want - 1, want, want + 1} {
			if got := w.all(list, limit); !slices.Equal(got, whole) {
				t.Errorf("%s by %d: %v, want %v", list, limit, got, whole)
			}
		}
	}
}

// all reads a list page by page. A cursor that is given leads to something: no page is empty but
// that of an empty list.
func (w *world) all(list string, limit int) (names []string) {
	w.t.Helper()
	join := "?"
	if strings.Contains(list, "?") {
		join = "&"
	}
	for cursor := ""; ; {
		page := w.must(200, "GET", fmt.Sprintf("%s%slimit=%d%s", list, join, limit, cursor), "")
		data := page["data"].([]any)
		if len(data) > limit || len(data) == 0 && cursor != "" {
			w.t.Fatalf("a page of %s has %d entries, at most %d were asked for", list, len(data), limit)
		}
		for _, one := range data {
			m := one.(map[string]any)
			if head, lane := m["head"].(map[string]any); lane {
				m = head
			}
			for _, member := range []string{"id", "name", "number"} {
				if name, there := m[member]; there && name != nil {
					names = append(names, fmt.Sprint(name))
					break
				}
			}
		}
		next, more := page["next"].(string)
		if !more {
			return names
		}
		cursor = "&cursor=" + next
	}
}

func TestPagesOfLargeEventsAreShort(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.MaxEvent = 1 << 20 })
	data := strings.Repeat("x", 1<<20-2)
	for range 6 {
		w.must(202, "POST", "/v1/events", `{"type":"a","data":"`+data+`"}`)
	}
	page := w.must(200, "GET", "/v1/events?limit=500", "")
	if n := len(page["data"].([]any)); n < 4 || n >= 6 || page["next"] == nil {
		t.Errorf("the first page has %d events of a MiB, next %v", n, page["next"])
	}
	rest := w.must(200, "GET", "/v1/events?cursor="+page["next"].(string), "")
	if n := len(page["data"].([]any)) + len(rest["data"].([]any)); n != 6 || rest["next"] != nil {
		t.Errorf("both pages have %d events, next %v", n, rest["next"])
	}
}
