package api

import (
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/wire"
)

func TestDeadLetters(t *testing.T) {
	w, a := watched(t)
	w.options.Keep = func() store.Keep {
		return store.Keep{For: 30 * 24 * time.Hour, Rules: []store.KeepRule{{Tenant: "acme", Type: "audit.*", For: 48 * time.Hour}}}
	}
	w.options.History = a
	w.handler = New(w.options)
	ep := w.endpoint(admin, "")
	acme := w.endpoint(acmeAdmin, "")
	dead := func(key, eventType string, code grapnel.ReasonCode) string {
		w.as(key, 202, "POST", "/v1/events", `{"type":"`+eventType+`","data":1}`)
		all, err := w.engine.DeliveryList(t.Context(), store.Everyone(), store.DeliveryQuery{Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		w.finish(&all[0], grapnel.Failed, code, "")
		return storeIDs.Of(&all[0])
	}
	first := dead(admin, "invoice.paid", grapnel.ReasonExhausted)
	second := dead(admin, "invoice.sent", grapnel.ReasonPermanent)
	third := dead(acmeAdmin, "audit.login", grapnel.ReasonExpired)
	w.as(admin, 202, "POST", "/v1/events", `{"type":"a","data":1}`)
	w.finish(w.newest(t), grapnel.Delivered, "", "")

	for query, want := range map[string]string{
		"": third + " " + second + " " + first, "?reason_code=permanent": second, "?endpoint=" + acme: third,
		"?tenant=default": second + " " + first,
		"?type=invoice.*": second + " " + first, "?from=2027-01-01T00:00:00Z": "",
	} {
		if got := strings.Join(w.all("/v1/dead-letters"+query, 2), " "); got != want {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	if q := a.asked[len(a.asked)-1]; !q.DeadLetters {
		t.Errorf("asked for %+v", q)
	}
	for _, step := range []struct {
		later        time.Duration
		first, third float64 // days left, of which the begun one counts
	}{{-time.Second, 30, 2}, {2 * time.Second, 30, 2}, {36*time.Hour - time.Second, 29, 1},
		{12*time.Hour - time.Nanosecond, 29, 1}, {time.Nanosecond, 28, 0}} {
		w.clock = w.clock.Add(step.later)
		for id, want := range map[string]float64{first: step.first, third: step.third} {
			d := w.must(200, "GET", "/v1/deliveries/"+id, "")
			finished, err := time.Parse(wire.TimeLayout, d["finished_at"].(string))
			purged, err2 := time.Parse(wire.TimeLayout, d["purge_at"].(string))
			if kept := purged.Sub(finished); err != nil || err2 != nil || d["days_left"] != want ||
				kept != map[string]time.Duration{first: 720 * time.Hour, third: 48 * time.Hour}[id] {
				t.Errorf("%v is kept for %v, days left %v, want %v", d["type"], kept, d["days_left"], want)
			}
		}
	}
	w.as(acmeAdmin, 404, "PATCH", "/v1/deliveries/"+first, `{"note":"mine"}`)
	if d := w.must(200, "PATCH", "/v1/deliveries/"+first,
		`{"note":"asked them on Monday"}`); d["note"] != "asked them on Monday" || d["status"] != "failed" {
		t.Errorf("answered %v", d)
	}
	if d := w.must(200, "PATCH", "/v1/deliveries/"+first, `{}`); d["note"] != "asked them on Monday" {
		t.Errorf("a patch of nothing: answered %v", d)
	}
	w.clock = w.clock.Add(time.Second)
	if d := w.must(200, "PATCH", "/v1/deliveries/"+first, `{"note":null}`, "Content-Type", "application/merge-patch+json"); d["note"] != nil {
		t.Errorf("taken away: answered %v", d)
	}
	if d := w.must(200, "POST", "/v1/deliveries/"+first+"/discard",
		`{"reason":"their customer is gone"}`); d["status"] != "failed" || d["discarded_at"] != w.clock.Format(wire.TimeLayout) ||
		d["discard_reason"] != "their customer is gone" {
		t.Errorf("answered %v", d)
	}
	w.clock = w.clock.Add(time.Second)
	w.must(409, "POST", "/v1/deliveries/"+first+"/discard", `{"reason":"an old list"}`)
	w.must(200, "POST", "/v1/deliveries/"+first+"/discard", `{"reason":"their customer is gone"}`)
	if d := w.must(200, "GET", "/v1/deliveries/"+first, ""); d["discard_reason"] != "their customer is gone" {
		t.Errorf("a second discard left the reason %q", d["discard_reason"])
	}
	if got := strings.Join(w.all("/v1/dead-letters", 5), " "); got != third+" "+second {
		t.Errorf("after discarding: %v", got)
	}
	if got := strings.Join(w.all("/v1/endpoints/"+ep+"/deliveries?status=failed", 5), " "); got != second+" "+first {
		t.Errorf("failed are %v", got)
	}
	w.must(409, "POST", "/v1/deliveries/"+storeIDs.Of(w.newest(t))+"/discard", `{"reason":"it arrived"}`)
	w.must(200, "POST", "/v1/deliveries/"+second+"/retry", "")
	if got := strings.Join(w.all("/v1/dead-letters", 5), " "); got != third+" "+second {
		t.Errorf("while one is on its way again: %v", got)
	}
	w.finish(w.newest(t), grapnel.Delivered, "", "")
	for query, want := range map[string]string{"": third, "?replayed=true": third + " " + second, "?type=invoice.*": "",
		"?type=invoice.*&replayed=true": second} {
		if got := strings.Join(w.all("/v1/dead-letters"+query, 5), " "); got != want {
			t.Errorf("after one was delivered again, %s: %v, want %v", query, got, want)
		}
	}
	w.must(422, "GET", "/v1/dead-letters?replayed=no", "")
	w.must(202, "POST", "/v1/events", `{"type":"a.b","data":1}`)
	waits := storeIDs.Of(w.newest(t))
	if d := w.must(200, "POST", "/v1/deliveries/"+waits+"/discard", `{"reason":"nobody needs it"}`); d["status"] != "discarded" ||
		d["reason"] != "discarded: nobody needs it" {
		t.Errorf("what waited is %v", d)
	}
	w.must(409, "POST", "/v1/deliveries/"+waits+"/discard", `{"reason":"again"}`)
	var said []string
	for _, e := range w.must(200, "GET", "/v1/audit?delivery="+first, "")["data"].([]any) {
		said = append(said, e.(map[string]any)["verb"].(string))
	}
	if strings.Join(said, " ") != "discard note note" {
		t.Errorf("the audit has %v", said)
	}
}
