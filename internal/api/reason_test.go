package api

import (
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
)

// Every place where a delivery can be has a sentence of its own, and the status in it is the one shown.
func TestReasons(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	later := now.Add(time.Hour)
	enabled := &grapnel.Endpoint{Status: grapnel.EndpointEnabled}
	paused := &grapnel.Endpoint{Status: grapnel.EndpointPaused}
	disabled := &grapnel.Endpoint{Status: grapnel.EndpointDisabled, DisabledReason: "it answered 410"}
	head := grapnel.Waiting{Head: true, Due: now}
	scheduled := grapnel.Waiting{Head: true, Due: later}
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
			"pending: attempt 1 has been due since 2026-01-02T03:04:05Z; it is being made or is next in turn", now},
		{"scheduled for the first time", grapnel.Delivery{Status: grapnel.Pending, Waiting: scheduled}, enabled, grapnel.Health{}, grapnel.Pending,
			"pending: the first attempt is scheduled for 2026-01-02T04:04:05Z", later},
		{"scheduled again", grapnel.Delivery{Status: grapnel.Pending, Waiting: scheduled, AttemptsMade: 2, Reason: "attempt 2 failed: the endpoint answered 503"}, enabled, grapnel.Health{}, grapnel.Pending,
			"pending: attempt 3 is scheduled for 2026-01-02T04:04:05Z; attempt 2 failed: the endpoint answered 503", later},
		{"due again", grapnel.Delivery{Status: grapnel.Pending, Waiting: head, AttemptsMade: 1, Reason: "attempt 1 failed: timeout"}, enabled, grapnel.Health{}, grapnel.Pending,
			"pending: attempt 2 has been due since 2026-01-02T03:04:05Z; it is being made or is next in turn; attempt 1 failed: timeout", now},
		{"kept as held", grapnel.Delivery{Status: grapnel.Held, Waiting: head}, enabled, grapnel.Health{}, grapnel.Pending,
			"pending: attempt 1 has been due since 2026-01-02T03:04:05Z; it is being made or is next in turn", now},
		{"throttled", grapnel.Delivery{Status: grapnel.Pending, Waiting: head}, enabled, grapnel.Health{State: "throttled", NextAttemptAt: later}, grapnel.Pending,
			"pending: its endpoint asked to be spared until 2026-01-02T04:04:05Z", later},
		{"throttled for less than it waits", grapnel.Delivery{Status: grapnel.Pending, Waiting: scheduled}, enabled, grapnel.Health{State: "throttled", NextAttemptAt: now}, grapnel.Pending,
			"pending: the first attempt is scheduled for 2026-01-02T04:04:05Z", later},
		{"behind its key", grapnel.Delivery{Status: grapnel.Pending, Key: `k"1`}, enabled, grapnel.Health{}, grapnel.Held,
			`held: it waits behind earlier events of the key "k\"1"`, time.Time{}},
		{"blocked", grapnel.Delivery{Status: grapnel.Pending, Key: "k", Reason: "failed: all attempts are used up", Waiting: grapnel.Waiting{Head: true, Blocked: true}}, enabled, grapnel.Health{}, grapnel.Held,
			"held: the policy blocks its key until a person retries it with success or skips it; failed: all attempts are used up", time.Time{}},
		{"paused", grapnel.Delivery{Status: grapnel.Pending, Waiting: head}, paused, grapnel.Health{}, grapnel.Held, "held: its endpoint is paused", time.Time{}},
		{"disabled", grapnel.Delivery{Status: grapnel.Pending, Waiting: head}, disabled, grapnel.Health{}, grapnel.Held, "held: its endpoint is disabled (it answered 410)", time.Time{}},
		{"deleted", grapnel.Delivery{Status: grapnel.Pending, Waiting: head}, nil, grapnel.Health{}, grapnel.Pending, "pending: its endpoint was deleted; it is about to end as dropped", time.Time{}},
		{"delivered", grapnel.Delivery{Status: grapnel.Delivered, AttemptsMade: 2}, enabled, grapnel.Health{}, grapnel.Delivered, "delivered: attempt 2 succeeded", time.Time{}},
		{"failed as recorded", grapnel.Delivery{Status: grapnel.Failed, ReasonCode: grapnel.ReasonExhausted, Reason: "failed: as recorded"}, nil, grapnel.Health{}, grapnel.Failed, "failed: as recorded", time.Time{}},
		{"exhausted", grapnel.Delivery{Status: grapnel.Failed, ReasonCode: grapnel.ReasonExhausted}, enabled, grapnel.Health{}, grapnel.Failed, "failed: its attempts are used up", time.Time{}},
		{"permanent", grapnel.Delivery{Status: grapnel.Failed, ReasonCode: grapnel.ReasonPermanent}, enabled, grapnel.Health{}, grapnel.Failed, "failed: the policy takes an outcome as permanent", time.Time{}},
		{"rejected", grapnel.Delivery{Status: grapnel.Failed, ReasonCode: grapnel.ReasonRejected}, enabled, grapnel.Health{}, grapnel.Failed, "failed: its consumer rejected it", time.Time{}},
		{"expired", grapnel.Delivery{Status: grapnel.Failed, ReasonCode: grapnel.ReasonExpired}, enabled, grapnel.Health{}, grapnel.Failed, "failed: the next attempt would have been later than the policy allows", time.Time{}},
		{"gone", grapnel.Delivery{Status: grapnel.Failed, ReasonCode: grapnel.ReasonEndpointGone}, nil, grapnel.Health{}, grapnel.Failed, "failed: its endpoint is gone", time.Time{}},
		{"failed for nothing", grapnel.Delivery{Status: grapnel.Failed}, nil, grapnel.Health{}, grapnel.Failed, "failed: no reason was recorded", time.Time{}},
		{"dropped", grapnel.Delivery{Status: grapnel.Dropped}, paused, grapnel.Health{}, grapnel.Dropped, "dropped: its endpoint took nothing when it was due", time.Time{}},
		{"discarded", grapnel.Delivery{Status: grapnel.Discarded}, enabled, grapnel.Health{}, grapnel.Discarded, "discarded: its attempts are used up and the policy keeps no dead letter", time.Time{}},
		{"skipped as recorded", grapnel.Delivery{Status: grapnel.Skipped, Reason: "fixed by hand"}, enabled, grapnel.Health{}, grapnel.Skipped, "skipped: fixed by hand", time.Time{}},
		{"skipped", grapnel.Delivery{Status: grapnel.Skipped}, enabled, grapnel.Health{}, grapnel.Skipped, "skipped: a person acknowledged it", time.Time{}},
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

// What lists find under a status is what they show as that status: the store and the view tell held from pending alike.
func TestStatusFiltersAgreeWithWhatIsShown(t *testing.T) {
	w := newWorld(t)
	ep, other := w.endpoint(admin, ""), w.endpoint(admin, "")
	for range 3 {
		w.must(202, "POST", "/v1/events", `{"type":"a","data":1,"key":"k"}`)
	}
	w.must(202, "POST", "/v1/events", `{"type":"a","data":1}`)
	for _, state := range []string{"enabled", "paused", "disabled"} {
		w.must(200, "PATCH", "/v1/endpoints/"+ep, `{"status":"`+state+`"}`)
		total := 0
		for _, s := range grapnel.Statuses() {
			for _, d := range w.must(200, "GET", "/v1/deliveries?status="+string(s), "")["data"].([]any) {
				total++
				if got := d.(map[string]any)["status"]; got != string(s) {
					t.Errorf("%s: found as %s, shown as %v", state, s, got)
				}
			}
		}
		if total != 8 {
			t.Errorf("%s: all statuses together find %d of 8", state, total)
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
