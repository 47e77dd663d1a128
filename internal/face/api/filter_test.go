package api

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// TestFilterReachesTheStore: filter= asks the store for the same as parameters do.
func TestFilterReachesTheStore(t *testing.T) {
	w, a := watched(t)
	ep := w.endpoint(admin, `,"description":"Acme production"`)
	for filter, want := range map[string]store.DeliveryQuery{
		"status:dead endpoint:acme type:invoice.*": {Status: []grapnel.Status{grapnel.Failed}, Endpoint: ep, Type: "invoice.*", Limit: 51},
		"code:5xx key:inv_1 reason:exhausted":      {Class: policy.ClassStatus5xx, Key: "inv_1", ReasonCode: grapnel.ReasonExhausted, Limit: 51},
		"endpoint:ep_gone code:503 tenant:acme":    {Endpoint: "ep_gone", StatusCode: 503, Tenant: "acme", Limit: 51},
		"since:6h":                                 {From: w.clock.Add(-6 * time.Hour).Truncate(time.Minute), Limit: 51},
	} {
		w.must(200, "GET", "/v1/deliveries?filter="+url.QueryEscape(filter), "")
		if d := cmp.Diff(want, a.asked[len(a.asked)-1], cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s: %s", filter, d)
		}
	}
	w.must(200, "GET", "/v1/dead-letters?filter="+url.QueryEscape(`"in full" type:a`), "")
	if a.texts[len(a.texts)-1] != "in full" {
		t.Errorf("the text is %q", a.texts[len(a.texts)-1])
	}
}

// TestACommaIsPartOfTheValue: a parameter that takes one value takes it as a whole.
func TestACommaIsPartOfTheValue(t *testing.T) {
	w := newWorld(t)
	ep := w.endpoint(admin, "")
	const at = "2026-01-01T00:00:00Z"
	for _, target := range []string{"/v1/endpoints?limit=1,2", "/v1/deliveries?from=" + at + "," + at, "/v1/deliveries?status_code=500,503",
		"/v1/alerts?state=firing,resolved", "/v1/stats?by=hour,day"} {
		if r := w.ask(admin, "GET", target, ""); r.StatusCode != 422 {
			t.Errorf("%s: answered %d %s", target, r.StatusCode, r.body)
		}
	}
	w.must(200, "GET", "/v1/deliveries?key=a,,b&text=c,", "")
	w.must(422, "DELETE", "/v1/endpoints/"+ep+"?reason="+strings.Repeat("long,", 200), "")
	w.must(204, "DELETE", "/v1/endpoints/"+ep+"?reason=gone,", "")
}

// TestFilterFaults: a filter that cannot be read is refused, with the word and the allowed ones.
func TestFilterFaults(t *testing.T) {
	w, a := watched(t)
	w.endpoint(admin, `,"description":"Acme production"`)
	w.endpoint(admin, `,"description":"Acme staging"`)
	before := len(a.asked)
	for query, want := range map[string]string{
		"filter=stauts:failed":                    "stauts:failed: unknown name; use status",
		"filter=error:tls_cert_expired":           "unknown error class; use dns",
		"filter=endpoint:nobodys":                 "no endpoint has this id or name",
		"filter=endpoint:acme":                    "several endpoints have this name",
		"filter=type:a&type=b":                    "type is given in filter and as a parameter",
		"filter=" + strings.Repeat("x", 300):      "its text has more than 256 bytes",
		"filter=key:" + strings.Repeat("x", 1030): "at most 1024 bytes",
	} {
		for _, path := range []string{"/v1/deliveries?", "/v1/dead-letters/export?"} {
			r := w.ask(admin, "GET", path+query, "")
			if r.StatusCode != 422 || !strings.Contains(string(r.body), want) || !strings.Contains(string(r.body), "?filter") {
				t.Errorf("%s%.40s: answered %d %.300s", path, query, r.StatusCode, r.body)
			}
		}
	}
	if len(a.asked) > before {
		t.Errorf("the store was asked for %+v", a.asked[before:])
	}
}

// TestFilterLooksAtALimitedNumber: for what the store has no condition for, a page reads a limited
// number of deliveries, and all pages together find each match once.
func TestFilterLooksAtALimitedNumber(t *testing.T) {
	a := &archive{}
	w := newWorld(t, func(o *Options) { a.History, o.History, o.Bounds.DeliveryScan = o.History, a, 7 })
	w.endpoint(admin, "")
	w.must(202, "POST", "/v1/events/batch", `{"events":[`+many(30, func(string) string { return `{"type":"a","data":1}` })+`]}`)
	failed := w.all("/v1/deliveries?", 500)[0]
	w.finish(w.newest(t), grapnel.Failed, grapnel.ReasonExhausted, "failed")
	w.must(200, "POST", "/v1/deliveries/"+failed+"/retry", "")
	w.must(202, "POST", "/v1/events/batch", `{"events":[`+many(30, func(string) string { return `{"type":"a","data":1}` })+`]}`)
	target, found, pages := "/v1/deliveries?filter=replayed:yes&limit=2", 0, 0
	for next := ""; pages < 50; pages++ {
		before := len(a.asked)
		page := w.must(200, "GET", target+next, "")
		found += len(page["data"].([]any))
		read := 0
		for _, q := range a.asked[before:] {
			read += q.Limit - 1
		}
		if read > 7 {
			t.Errorf("a page read %d deliveries", read)
		}
		if page["next"] == nil {
			break
		}
		next = "&cursor=" + page["next"].(string)
	}
	if found != 1 || pages < 5 {
		t.Errorf("%d were found on %d pages", found, pages+1)
	}
	if n := len(w.must(200, "GET", "/v1/deliveries?filter=took:10h", "")["data"].([]any)); n != 0 {
		t.Errorf("%d took ten hours", n)
	}
}

// TestDeliveriesAreFoundByAttempts: also finished ones, with a cursor across what does not match.
func TestDeliveriesAreFoundByAttempts(t *testing.T) {
	w := newWorld(t)
	w.endpoint(admin, "")
	for n := range 4 { // delivery n gets n attempts
		w.must(202, "POST", "/v1/events", `{"type":"a","data":1}`)
		d := w.newest(t)
		for number := 1; number <= n; number++ {
			w.attempt(d, number, 503, w.clock.Add(time.Minute))
		}
		if n == 3 {
			w.must(200, "POST", "/v1/deliveries/"+storeIDs.Of(d)+"/skip", `{"reason":"by hand"}`)
		}
	}
	for condition, want := range map[string]int{">1": 2, ">=1": 3, "1": 1, "0": 1, "<2": 2, "<=2": 3, ">3": 0, "3": 1} {
		found, cursor := 0, ""
		for {
			got := w.must(200, "GET", "/v1/deliveries?limit=1&filter="+url.QueryEscape("attempts:"+condition)+cursor, "")
			found += len(got["data"].([]any))
			if got["next"] == nil {
				break
			}
			cursor = "&cursor=" + got["next"].(string)
		}
		if found != want {
			t.Errorf("attempts:%s finds %d, want %d", condition, found, want)
		}
	}
}
