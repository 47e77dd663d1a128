package api

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
	"github.com/grapnelhq/grapnel/wire"
)

func (s *archive) Totals(ctx context.Context, scope store.Scope, q store.TotalsQuery) ([]grapnel.Bucket, error) {
	s.totals = append(s.totals, q)
	return s.History.Totals(ctx, scope, q)
}

// Totals are of whole hours or days, and which is chosen by how long the time is.
func TestWhichTotalsAreAskedFor(t *testing.T) {
	w, a := watched(t) // it is 2026-01-02 03:04:05
	hour := func(d, h int) time.Time { return time.Date(2026, 1, d, h, 0, 0, 0, time.UTC) }
	for query, want := range map[string]store.TotalsQuery{
		"":                                    {From: hour(1, 3), To: hour(2, 4)},
		"bucket=day":                          {From: hour(2-30, 0), To: hour(3, 0), Daily: true},
		"from=2026-01-01T12:30:00Z":           {From: hour(1, 12), To: hour(2, 4)},
		"from=2025-12-01T12:30:00Z":           {From: time.Date(2025, 12, 1, 0, 0, 0, 0, time.UTC), To: hour(3, 0), Daily: true},
		"to=2026-01-02T00:00:00Z&bucket=hour": {From: hour(1, 0), To: hour(2, 0)},
		"from=2026-01-01T00:00:00Z&to=2026-01-01T00:00:00Z": {From: hour(1, 0), To: hour(1, 0)},
		"from=2026-01-01T23:30:00%2B02:00":                  {From: hour(1, 21), To: hour(2, 4)},
		"from=2016-01-01T00:00:00Z&tenant=acme": {From: time.Date(2016, 1, 1, 0, 0, 0, 0, time.UTC), To: hour(3, 0),
			Daily: true, Tenant: "acme"},
	} {
		got := w.must(200, "GET", "/v1/stats?"+query, "")
		asked := a.totals[len(a.totals)-1]
		if d := cmp.Diff(want, asked); d != "" {
			t.Errorf("%s: %s", query, d)
		}
		bucket := map[bool]string{true: "day", false: "hour"}[asked.Daily]
		if got["bucket"] != bucket || got["from"] != asked.From.Format(wire.TimeLayout) || got["to"] != asked.To.Format(wire.TimeLayout) {
			t.Errorf("%s: answered %v for %+v", query, got, asked)
		}
	}
}

// Everything that ended and was tried is counted once, in its hour, at its endpoint and in all.
func TestStatsCountEverythingOnce(t *testing.T) {
	w := newWorld(t)
	ep := w.endpoint(admin, "")
	other := w.endpoint(acmeAdmin, "")
	publish := func(key string) *grapnel.Delivery {
		w.as(key, 202, "POST", "/v1/events", `{"type":"a","data":1}`)
		all, err := w.engine.DeliveryList(t.Context(), store.Everyone(), store.DeliveryQuery{Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		return &all[0]
	}
	record := func(d *grapnel.Delivery, number, status int, took time.Duration, end grapnel.Status) {
		class := policy.ClassNone
		if status == 0 {
			class = policy.ClassTimeout
		}
		_, err := w.engine.Record(t.Context(),
			[]store.Change{{Delivery: d.Seq, Expect: number - 1, At: w.clock, Status: end, Due: w.clock, Trigger: grapnel.TriggerSchedule,
				Attempt: &grapnel.Attempt{Number: number, StartedAt: w.clock, Duration: took, StatusCode: status, Class: class}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	record(publish(admin), 1, 200, 10*time.Millisecond, grapnel.Delivered)
	w.clock = w.clock.Add(time.Hour)
	d := publish(admin)
	record(d, 1, 503, 20*time.Millisecond, grapnel.Pending)
	record(d, 2, 200, 20*time.Millisecond, grapnel.Delivered)
	d = publish(admin)
	record(d, 1, 0, time.Second, grapnel.Failed)
	w.finish(publish(admin), grapnel.Skipped, "", "by hand")
	record(publish(acmeAdmin), 1, 200, time.Second, grapnel.Delivered)

	numbers := func(v any) string {
		m := v.(map[string]any)
		return fmt.Sprint(m["delivered"], m["failed"], m["dropped"], m["discarded"], m["skipped"], m["retried"],
			m["first_attempt_success"], m["attempts"])
	}
	mine := w.must(200, "GET", "/v1/endpoints/"+ep+"/stats", "")
	data := mine["data"].([]any)
	if len(data) != 2 || numbers(data[0]) != "1 0 0 0 0 0 1 1" || numbers(data[1]) != "1 1 0 0 1 1 0 3" ||
		numbers(mine["totals"]) != "2 1 0 0 1 1 1 4" {
		t.Errorf("answered %v", mine)
	}
	if at := data[1].(map[string]any)["at"]; at != "2026-01-02T04:00:00.000000Z" {
		t.Errorf("the second hour is at %v", at)
	}
	// Three attempts got an answer, after 10, 20 and 20 ms; percentiles are exact to a bucket.
	for name, want := range map[string]time.Duration{"p50": 20 * time.Millisecond, "p95": 20 * time.Millisecond,
		"p99": 20 * time.Millisecond} {
		got, err := time.ParseDuration(mine["totals"].(map[string]any)["latency"].(map[string]any)[name].(string))
		if err != nil || got < want || got > want*6/5 {
			t.Errorf("%s is %v %v, want %v or a fifth more", name, got, err, want)
		}
	}
	all := w.must(200, "GET", "/v1/stats?bucket=day", "")
	if data := all["data"].([]any); len(data) != 1 || numbers(data[0]) != "3 1 0 0 1 1 2 5" || numbers(all["totals"]) != numbers(data[0]) {
		t.Errorf("all: answered %v", all)
	}
	for target, want := range map[string]string{"/v1/stats": "1 0 0 0 0 0 1 1", "/v1/stats?tenant=default": "0 0 0 0 0 0 0 0",
		"/v1/webhook-endpoints/" + other + "/stats": "1 0 0 0 0 0 1 1"} {
		if got := w.as(acmeAdmin, 200, "GET", target, ""); numbers(got["totals"]) != want {
			t.Errorf("%s of one tenant: answered %v", target, got)
		}
	}
	w.must(204, "DELETE", "/v1/endpoints/"+ep, "")
	if got := w.must(200, "GET", "/v1/endpoints/"+ep+"/stats", ""); numbers(got["totals"]) != numbers(mine["totals"]) {
		t.Errorf("after deleting: answered %v", got)
	}
	if got := w.must(200, "GET", "/v1/stats?to=2020-01-01T00:00:00Z", ""); len(got["data"].([]any)) != 0 ||
		got["totals"].(map[string]any)["latency"].(map[string]any)["p50"] != nil {
		t.Errorf("of nothing: answered %v", got)
	}
}

// perMinute are the minutes of endpoints.
type perMinute map[string][]grapnel.Bucket

func (c perMinute) Of(endpoint string) (from, to time.Time, list []grapnel.Bucket) {
	to = time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)
	return to.Add(-20 * time.Minute), to, c[endpoint]
}

// TestMinutes: an endpoint's minutes are those that are counted, and no other tenant has them.
func TestMinutes(t *testing.T) {
	minutes := perMinute{}
	w := newWorld(t, func(o *Options) { o.Minutes = minutes })
	ep := w.endpoint(acmeAdmin, "")
	minutes[ep] = []grapnel.Bucket{{At: time.Date(2026, 1, 2, 3, 2, 0, 0, time.UTC), Totals: grapnel.Totals{Delivered: 2, Attempts: 3}}}
	at := "/v1/endpoints/" + ep + "/stats?bucket=minute"
	got := w.as(acmeAdmin, 200, "GET", at, "")
	one := got["data"].([]any)[0].(map[string]any)
	if got["from"] != "2026-01-02T02:44:00.000000Z" || got["to"] != "2026-01-02T03:04:00.000000Z" || got["bucket"] != "minute" ||
		one["at"] != "2026-01-02T03:02:00.000000Z" || one["attempts"] != 3.0 || got["totals"].(map[string]any)["delivered"] != 2.0 {
		t.Errorf("answered %v", got)
	}
	for _, more := range []string{"&from=2026-01-02T03:00:00Z", "&to=2026-01-02T03:00:00Z"} {
		w.as(acmeAdmin, 422, "GET", at+more, "")
	}
	w.as(acmeAdmin, 422, "GET", "/v1/stats?bucket=minute", "")
	w.key("key_globex", "grp_test_globex", "globex", grapnel.ScopeAdmin)
	w.as("grp_test_globex", 404, "GET", at, "")
	w.as(w.pass(portalScopes, w.endpoint(acmeAdmin, "")), 404, "GET", at, "")
	w.as(w.pass(portalScopes, ep), 200, "GET", at, "")
}
