package api

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/wire"
)

// Every place where a delivery can be has a sentence of its own, and the status in it is the one
// shown.
func TestReasons(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	later := now.Add(time.Hour)
	enabled := &grapnel.Endpoint{Status: grapnel.EndpointEnabled}
	queue := &grapnel.Endpoint{Status: grapnel.EndpointEnabled, Queue: &grapnel.Queue{}}
	paused := &grapnel.Endpoint{Status: grapnel.EndpointPaused}
	disabled := &grapnel.Endpoint{Status: grapnel.EndpointDisabled, DisabledReason: "it answered 410"}
	head := grapnel.Waiting{Head: true, Due: now}
	scheduled := grapnel.Waiting{Head: true, Due: later}
	probe := now.Add(time.Minute)
	spared := grapnel.Health{State: grapnel.HealthThrottled,
		Reason: "the endpoint asked to be spared until 2026-01-02T04:04:05Z", NextAttemptAt: later}
	open := grapnel.Health{State: grapnel.HealthOpen, NextProbeAt: probe,
		Reason: "the endpoint has failed since 2026-01-02T02:59:05Z (connection refused); only probes are sent"}
	probed, idle := open, open
	probed.InFlight, probed.NextProbeAt, idle.NextProbeAt = 1, now, now
	recovering := grapnel.Health{State: grapnel.HealthRecovering, Reason: "the endpoint is back; what waited for it is let go bit by bit"}
	for _, c := range []struct {
		name     string
		delivery grapnel.Delivery
		endpoint *grapnel.Endpoint
		health   grapnel.Health
		status   grapnel.Status
		reason   string
		next     time.Time
	}{
		{"due", grapnel.Delivery{Status: grapnel.Pending, Waiting: head}, enabled, grapnel.Health{}, grapnel.Pending,
			"pending: attempt 1 has been due since 2026-01-02T03:04:05Z; it is in progress or next in turn", now},
		{"scheduled for the first time", grapnel.Delivery{Status: grapnel.Pending, Waiting: scheduled}, enabled, grapnel.Health{},
			grapnel.Pending,
			"pending: the first attempt is scheduled for 2026-01-02T04:04:05Z", later},
		{"scheduled again", grapnel.Delivery{Status: grapnel.Pending, Waiting: scheduled, AttemptsMade: 2,
			Reason: "attempt 2 failed: the endpoint answered 503"}, enabled, grapnel.Health{}, grapnel.Pending,
			"pending: attempt 3 is scheduled for 2026-01-02T04:04:05Z; attempt 2 failed: the endpoint answered 503", later},
		{"delayed in a queue after a nack", grapnel.Delivery{Status: grapnel.Pending, Waiting: scheduled, AttemptsMade: 1,
			Reason: "attempt 1 failed: nack"}, queue, grapnel.Health{}, grapnel.Pending,
			"pending: it can be leased from 2026-01-02T04:04:05Z on; until then it is delayed, or a consumer has it; attempt 1 failed: nack", later},
		{"due again", grapnel.Delivery{Status: grapnel.Pending, Waiting: head, AttemptsMade: 1,
			Reason: "attempt 1 failed: timeout"}, enabled, grapnel.Health{}, grapnel.Pending,
			"pending: attempt 2 has been due since 2026-01-02T03:04:05Z; it is in progress or next in turn; attempt 1 failed: timeout", now},
		{"kept as held", grapnel.Delivery{Status: grapnel.Held, Waiting: head}, enabled, grapnel.Health{}, grapnel.Pending,
			"pending: attempt 1 has been due since 2026-01-02T03:04:05Z; it is in progress or next in turn", now},
		{"throttled", grapnel.Delivery{Status: grapnel.Pending, Waiting: head}, enabled, spared, grapnel.Pending,
			"pending: the endpoint asked to be spared until 2026-01-02T04:04:05Z", later},
		{"open, the next probe later", grapnel.Delivery{Status: grapnel.Pending, Waiting: head, AttemptsMade: 1,
			Reason: "attempt 1 failed: connection refused"}, enabled, open, grapnel.Held,
			"held: the endpoint has failed since 2026-01-02T02:59:05Z (connection refused); only probes are sent; the next probe is not before 2026-01-02T03:05:05Z", probe},
		{"open, its own time after the probe's", grapnel.Delivery{Status: grapnel.Pending, Waiting: scheduled}, enabled, open, grapnel.Held,
			"held: the endpoint has failed since 2026-01-02T02:59:05Z (connection refused); only probes are sent; the next probe is not before 2026-01-02T03:05:05Z", later},
		{"open, a probe on its way", grapnel.Delivery{Status: grapnel.Pending, Waiting: head}, enabled, probed, grapnel.Held,
			"held: the endpoint has failed since 2026-01-02T02:59:05Z (connection refused); only probes are sent; an attempt is on its way",
			time.Time{}},
		{"open, a probe due", grapnel.Delivery{Status: grapnel.Pending, Waiting: scheduled}, enabled, idle, grapnel.Held,
			"held: the endpoint has failed since 2026-01-02T02:59:05Z (connection refused); only probes are sent; the next probe is the next delivery that is due", time.Time{}},
		{"open, behind its key", grapnel.Delivery{Status: grapnel.Pending, Key: "k"}, enabled, open, grapnel.Held,
			`held: it waits behind earlier events of the key "k"`, time.Time{}},
		{"open, blocked", grapnel.Delivery{Status: grapnel.Pending, Key: "k", Waiting: grapnel.Waiting{Head: true, Blocked: true}},
			enabled, open, grapnel.Held,
			"held: the policy blocks its key until an operator retries it with success or skips it", time.Time{}},
		{"open and paused", grapnel.Delivery{Status: grapnel.Pending, Waiting: head}, paused, open, grapnel.Held,
			"held: its endpoint is paused", time.Time{}},
		{"recovering", grapnel.Delivery{Status: grapnel.Pending, Waiting: head, AttemptsMade: 2}, enabled, recovering, grapnel.Pending,
			"pending: attempt 3 has been due since 2026-01-02T03:04:05Z; the endpoint is back; what waited for it is let go bit by bit", now},
		{"recovering, scheduled", grapnel.Delivery{Status: grapnel.Pending, Waiting: scheduled}, enabled, recovering, grapnel.Pending,
			"pending: the first attempt is scheduled for 2026-01-02T04:04:05Z", later},
		{"open and delivered before", grapnel.Delivery{Status: grapnel.Delivered, AttemptsMade: 1}, enabled, open,
			grapnel.Delivered, "delivered: attempt 1 succeeded", time.Time{}},
		{"throttled for less than it waits", grapnel.Delivery{Status: grapnel.Pending, Waiting: scheduled}, enabled,
			grapnel.Health{State: "throttled", NextAttemptAt: now}, grapnel.Pending,
			"pending: the first attempt is scheduled for 2026-01-02T04:04:05Z", later},
		{"behind its key", grapnel.Delivery{Status: grapnel.Pending, Key: `k"1`}, enabled, grapnel.Health{}, grapnel.Held,
			`held: it waits behind earlier events of the key "k\"1"`, time.Time{}},
		{"behind its key, for later", grapnel.Delivery{Status: grapnel.Pending, Key: "k", Waiting: grapnel.Waiting{Anchor: later}}, enabled,
			grapnel.Health{}, grapnel.Held, `held: it waits behind earlier events of the key "k", and then until 2026-01-02T04:04:05Z ` +
				"because its publisher asked for a later time (deliver_at)", time.Time{}},
		{"for later", grapnel.Delivery{Status: grapnel.Pending, ReasonCode: grapnel.ReasonLater, Waiting: grapnel.Waiting{Head: true, Due: later, Anchor: now}}, enabled,
			grapnel.Health{}, grapnel.Pending, "pending: it waits until 2026-01-02T04:04:05Z because its publisher asked for a later time (deliver_at)", later},
		{"blocked", grapnel.Delivery{Status: grapnel.Pending, Key: "k", Reason: "failed: all attempts are used up",
			Waiting: grapnel.Waiting{Head: true, Blocked: true}}, enabled, grapnel.Health{}, grapnel.Held,
			"held: the policy blocks its key until an operator retries it with success or skips it; failed: all attempts are used up", time.Time{}},
		{"paused", grapnel.Delivery{Status: grapnel.Pending, Waiting: head}, paused, grapnel.Health{}, grapnel.Held,
			"held: its endpoint is paused", time.Time{}},
		{"disabled", grapnel.Delivery{Status: grapnel.Pending, Waiting: head}, disabled, grapnel.Health{}, grapnel.Held,
			"held: its endpoint is disabled (it answered 410)", time.Time{}},
		{"deleted", grapnel.Delivery{Status: grapnel.Pending, Waiting: head}, nil, grapnel.Health{}, grapnel.Pending,
			"pending: its endpoint was deleted; it is about to end as dropped", time.Time{}},
		{"delivered", grapnel.Delivery{Status: grapnel.Delivered, AttemptsMade: 2}, enabled, grapnel.Health{}, grapnel.Delivered,
			"delivered: attempt 2 succeeded", time.Time{}},
		{"failed as recorded", grapnel.Delivery{Status: grapnel.Failed, ReasonCode: grapnel.ReasonExhausted,
			Reason: "failed: as recorded"}, nil, grapnel.Health{}, grapnel.Failed, "failed: as recorded", time.Time{}},
		{"exhausted", grapnel.Delivery{Status: grapnel.Failed, ReasonCode: grapnel.ReasonExhausted}, enabled, grapnel.Health{},
			grapnel.Failed, "failed: its attempts are used up", time.Time{}},
		{"permanent", grapnel.Delivery{Status: grapnel.Failed, ReasonCode: grapnel.ReasonPermanent}, enabled, grapnel.Health{},
			grapnel.Failed, "failed: the policy treats its outcome as permanent", time.Time{}},
		{"rejected", grapnel.Delivery{Status: grapnel.Failed, ReasonCode: grapnel.ReasonRejected}, enabled, grapnel.Health{},
			grapnel.Failed, "failed: its receiver rejected it", time.Time{}},
		{"expired", grapnel.Delivery{Status: grapnel.Failed, ReasonCode: grapnel.ReasonExpired}, enabled, grapnel.Health{},
			grapnel.Failed, "failed: the next attempt would have been later than the policy allows", time.Time{}},
		{"gone", grapnel.Delivery{Status: grapnel.Failed, ReasonCode: grapnel.ReasonEndpointGone}, nil, grapnel.Health{},
			grapnel.Failed, "failed: its endpoint was deleted", time.Time{}},
		{"failed for nothing", grapnel.Delivery{Status: grapnel.Failed}, nil, grapnel.Health{}, grapnel.Failed,
			"failed: no reason was recorded", time.Time{}},
		{"dropped", grapnel.Delivery{Status: grapnel.Dropped}, paused, grapnel.Health{}, grapnel.Dropped,
			"dropped: its endpoint accepted no deliveries when it was due", time.Time{}},
		{"discarded", grapnel.Delivery{Status: grapnel.Discarded}, enabled, grapnel.Health{}, grapnel.Discarded,
			"discarded: its attempts are used up and the policy stores no dead letters", time.Time{}},
		{"skipped as recorded", grapnel.Delivery{Status: grapnel.Skipped, Reason: "fixed by hand"}, enabled, grapnel.Health{},
			grapnel.Skipped, "skipped: fixed by hand", time.Time{}},
		{"skipped", grapnel.Delivery{Status: grapnel.Skipped}, enabled, grapnel.Health{}, grapnel.Skipped,
			"skipped: an operator acknowledged it", time.Time{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := situation{delivery: &c.delivery, endpoint: c.endpoint, health: c.health, now: now}
			if got := s.reason(); got != c.reason {
				t.Errorf("the reason is\n%s\nwant\n%s", got, c.reason)
			}
			if got := s.status(); got != c.status {
				t.Errorf("the status is %s, want %s", got, c.status)
			}
			if got := s.next(); !got.Equal(c.next) {
				t.Errorf("the next attempt is at %s, want %s", got, c.next)
			}
			if !strings.HasPrefix(s.reason(), string(c.status)+":") {
				t.Errorf("the reason speaks of another status: %s", s.reason())
			}
		})
	}
}

// What lists find under a status is what they show as that status: the store and the view tell held
// from pending alike.
func TestStatusFiltersAgreeWithWhatIsShown(t *testing.T) {
	w := newWorld(t)
	ep, other := w.endpoint(admin, ""), w.endpoint(admin, "")
	for range 3 {
		w.must(202, "POST", "/v1/events", `{"type":"a","data":1,"key":"k"}`)
	}
	w.must(202, "POST", "/v1/events", `{"type":"a","data":1}`)
	for _, state := range []string{"enabled", "open", "recovering", "throttled", "paused", "disabled"} {
		switch state {
		case "enabled", "paused", "disabled":
			w.must(200, "PATCH", "/v1/endpoints/"+ep, `{"status":"`+state+`"}`)
			delete(w.engine.health, ep)
		default:
			w.engine.health[ep] = grapnel.Health{State: grapnel.HealthState(state), Reason: "why", NextProbeAt: w.clock.Add(time.Minute)}
		}
		total := 0
		for _, s := range grapnel.Statuses() {
			for _, d := range w.must(200, "GET", "/v1/deliveries?status="+string(s), "")["data"].([]any) {
				total++
				found := d.(map[string]any)
				single := w.must(200, "GET", "/v1/deliveries/"+found["id"].(string), "")
				if found["status"] != string(s) || single["status"] != string(s) || single["reason"] != found["reason"] {
					t.Errorf("%s: found as %s, shown as %v and by itself as %v", state, s, found, single)
				}
			}
		}
		if total != 8 {
			t.Errorf("%s: all statuses together find %d of 8", state, total)
		}
		held := len(w.must(200, "GET", "/v1/endpoints/"+ep+"/deliveries?status=held", "")["data"].([]any))
		if want := map[string]int{"open": 4, "paused": 4, "disabled": 4}[state]; held != max(want, 2) { // two wait behind their key anyway
			t.Errorf("%s: %d are held", state, held)
		}
	}
	for _, q := range []string{"status=held&status=pending", "status=held,pending", "endpoint=" + ep + "&endpoint=" + ep} {
		r := w.ask(admin, "GET", "/v1/deliveries?"+q, "")
		if want := map[bool]int{true: 200, false: 422}[strings.HasPrefix(q, "status")]; r.StatusCode != want {
			t.Errorf("%s: answered %d", q, r.StatusCode)
		}
	}
	if n := len(w.must(200, "GET", "/v1/deliveries?endpoint="+other, "")["data"].([]any)); n != 4 {
		t.Errorf("the other endpoint has %d deliveries", n)
	}
}

// A breaker that is open changes when a delivery is attempted, and nothing about the schedule of
// its policy.
func TestOpenBreakerLeavesThePlan(t *testing.T) {
	w := newWorld(t)
	ep := w.endpoint(admin, "")
	w.must(202, "POST", "/v1/events", `{"type":"a","data":1}`)
	d := w.only()
	w.attempt(d, 1, 503, w.clock.Add(10*time.Second))
	target := "/v1/deliveries/" + storeIDs.Of(d)
	before := w.must(200, "GET", target, "")
	probe := w.clock.Add(time.Minute)
	w.engine.health[ep] = grapnel.Health{State: grapnel.HealthOpen, Reason: "why", NextProbeAt: probe}
	got := w.must(200, "GET", target, "")
	if dif := cmp.Diff(before["planned"], got["planned"]); dif != "" || len(got["planned"].([]any)) == 0 {
		t.Errorf("what is planned has changed: %s", dif)
	}
	if got["status"] != "held" || got["next_attempt_at"] != probe.Format(wire.TimeLayout) {
		t.Errorf("shown as %v", got)
	}
	// What a person asks for is sent all the same, and the answer says so.
	for _, got := range []map[string]any{w.must(200, "POST", target+"/retry", ""), w.must(200, "POST", "/v1/endpoints/"+ep+"/test", "")} {
		if got["status"] != "pending" || got["next_attempt_at"] != w.clock.Format(wire.TimeLayout) ||
			strings.Contains(got["reason"].(string), "probe") {
			t.Errorf("answered %v", got)
		}
	}
}
