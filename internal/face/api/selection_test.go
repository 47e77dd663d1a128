package api

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
	"github.com/grapnelhq/grapnel/wire"
)

// archive is a history that tells what it was asked, and answers with what a test says.
type archive struct {
	History
	asked  []store.DeliveryQuery
	texts  []string
	answer []grapnel.Delivery // nil: the history's own
	resume int64
	totals []store.TotalsQuery
}

func (s *archive) DeliverySearch(ctx context.Context, scope store.Scope, q store.DeliveryQuery,
	text string) ([]grapnel.Delivery, int64, error) {
	s.asked, s.texts = append(s.asked, q), append(s.texts, text)
	if s.answer != nil {
		return s.answer, s.resume, nil
	}
	return s.History.DeliverySearch(ctx, scope, q, text)
}

// watched is a world whose history can be watched.
func watched(t *testing.T) (*world, *archive) {
	t.Helper()
	a := &archive{}
	return newWorld(t, func(o *Options) { a.History, o.History = o.History, a }), a
}

func TestFiltersReachTheStore(t *testing.T) {
	from, to := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	w, a := watched(t)
	ep := w.endpoint(admin, "")
	for target, want := range map[string]store.DeliveryQuery{
		"/v1/deliveries": {Limit: 51},
		"/v1/deliveries?status=failed&status=dropped,skipped": {Status: []grapnel.Status{grapnel.Failed,
			grapnel.Dropped, grapnel.Skipped}, Limit: 51},
		"/v1/deliveries?type=invoice.*&key=inv_1&tenant=acme&endpoint=ep_1": {Type: "invoice.*", Key: "inv_1", Tenant: "acme",
			Endpoint: "ep_1", Limit: 51},
		"/v1/deliveries?from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z": {From: from, To: to, Limit: 51},
		"/v1/deliveries?error_class=status_5xx&status_code=503&limit=7":    {Class: policy.ClassStatus5xx, StatusCode: 503, Limit: 8},
		"/v1/endpoints/" + ep + "/deliveries?reason_code=expired":          {Endpoint: ep, ReasonCode: grapnel.ReasonExpired, Limit: 51},
		"/v1/endpoints/" + ep + "/deliveries?status=failed":                {Endpoint: ep, Status: []grapnel.Status{grapnel.Failed}, Limit: 51},
		"/webhooks/" + ep + "/deliveries?status=failed": {Endpoint: ep, Status: []grapnel.Status{grapnel.Failed, grapnel.Dropped},
			Limit: 51},
	} {
		w.must(200, "GET", target, "")
		if d := cmp.Diff(want, a.asked[len(a.asked)-1], cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s: %s", target, d)
		}
	}
}

// What cannot be found by an index is found bit by bit: a page may be short, and its cursor leads
// on all the same.
func TestSearchGoesOnBehindWhatItLookedAt(t *testing.T) {
	w, a := watched(t)
	a.answer, a.resume = []grapnel.Delivery{{Seq: 90, EventID: "evt_1", EndpointID: "ep_gone", Status: grapnel.Delivered,
		CreatedAt: w.clock}}, 40
	const target = "/v1/deliveries?text=caf%C3%A9&status=delivered&limit=5"
	page := w.must(200, "GET", target, "")
	if len(page["data"].([]any)) != 1 || page["next"] == nil || a.texts[0] != "café" || a.asked[0].Limit != 6 || a.asked[0].Before != 0 {
		t.Fatalf("asked for %q of %+v, answered %v", a.texts, a.asked, page)
	}
	a.answer, a.resume = []grapnel.Delivery{}, 0
	page = w.must(200, "GET", target+"&cursor="+page["next"].(string), "")
	if len(page["data"].([]any)) != 0 || page["next"] != nil || a.asked[1].Before != 40 {
		t.Errorf("asked for %+v, answered %v", a.asked[1], page)
	}
}

// What a list tells of a delivery is what the delivery itself tells.
func TestListsTellTheLastAttemptAndTheMarks(t *testing.T) {
	w, a := watched(t)
	w.endpoint(admin, "")
	w.must(202, "POST", "/v1/events", `{"type":"a","data":1,"key":"k"}`)
	w.must(202, "POST", "/v1/events", `{"type":"a","data":1,"key":"k"}`)
	all, err := w.engine.DeliveryList(t.Context(), store.Everyone(), store.DeliveryQuery{Limit: 2})
	if err != nil {
		t.Fatal(err)
	}
	d := all[1]
	d.Status, d.ReasonCode, d.FinishedAt = grapnel.Failed, grapnel.ReasonExhausted, w.clock
	d.Last = grapnel.Last{StatusCode: 503, Class: policy.ClassStatus5xx, Duration: 41 * time.Millisecond}
	d.Mark = grapnel.Mark{Note: "asked them", DiscardedAt: w.clock, DiscardReason: "too old", ReplayedAt: all[0].CreatedAt,
		ReplayedBy: "rpl_1",
		ReplayedAs: all[0].Seq, ReplayResult: grapnel.Delivered}
	timeout := grapnel.Delivery{Seq: 77, CreatedAt: w.clock, Status: grapnel.Dropped, Last: grapnel.Last{Class: policy.ClassTimeout}}
	a.answer = []grapnel.Delivery{d, timeout}
	data := w.must(200, "GET", "/v1/deliveries", "")["data"].([]any)
	at := w.clock.Format(wire.TimeLayout)
	for name, want := range map[string]any{
		"last": map[string]any{"status_code": 503.0, "error_class": "status_5xx", "duration": "41ms"}, "note": "asked them", "discarded_at": at,
		"discard_reason": "too old", "replayed_at": at, "replayed_by": "rpl_1", "replayed_as": storeIDs.Of(&all[0]), "replay_result": "delivered",
	} {
		if got := data[0].(map[string]any)[name]; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if last := data[1].(map[string]any)["last"].(map[string]any); last["status_code"] != nil || last["error_class"] != "timeout" {
		t.Errorf("without a response the last attempt is %v", last)
	}
	a.answer = nil
	for _, one := range w.must(200, "GET", "/v1/deliveries", "")["data"].([]any) {
		if m := one.(map[string]any); m["last"] != nil || m["note"] != nil || m["replayed_as"] != nil {
			t.Errorf("nothing has happened to it, and it is shown as %v", m)
		}
	}
}
