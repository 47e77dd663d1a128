package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/base/promise"
	"github.com/grapnelhq/grapnel/internal/tell/statuspage"
	"github.com/grapnelhq/grapnel/wire"
)

// kept is the report of an hour with a thousand publishes, ten of them bad.
func kept(now func() time.Time) func() promise.Report {
	return func() promise.Report {
		var h promise.Hour
		for i := range 1000 {
			h.Add(now(), promise.Accept, i >= 10, time.Millisecond)
		}
		all := promise.NewHistory()
		all.Set(now(), h)
		return promise.Make(all, now())
	}
}

func TestPromisesAreShownToTheOperator(t *testing.T) {
	w := newWorld(t)
	v := w.must(200, "GET", "/v1/slo", "")
	first := v["promises"].([]any)[0].(map[string]any)
	if first["name"] != "availability" || first["bad"] != 10.0 || first["state"] != "broken" || first["budget_time"] != "20m9.6s" ||
		!strings.Contains(first["sentence"].(string), "used up 20 times") || len(first["burns"].([]any)) != 4 ||
		len(first["days"].([]any)) != 28 {
		t.Errorf("the promise is %v", first)
	}
	w.as(acmeAdmin, 403, "GET", "/v1/slo", "")
}

func TestIncidents(t *testing.T) {
	told := 0
	w := newWorld(t, func(o *Options) { o.Told = func() { told++ } })
	at := func(d time.Duration) string { return w.clock.Add(d).Format(time.RFC3339) }
	in := w.must(201, "POST", "/v1/incidents", `{"title":"Publishing is slow","text":"We look.","components":["accepting"]}`)
	path := "/v1/incidents/" + in["id"].(string)
	if in["status"] != "investigating" || in["impact"] != "degraded" || in["ends_at"] != nil {
		t.Errorf("the incident is %v", in)
	}
	w.clock = w.clock.Add(time.Minute)
	if in = w.must(200, "POST", path+"/updates", `{"text":"Found it.","status":"identified"}`); in["status"] != "identified" {
		t.Errorf("the incident is %v", in)
	}
	w.clock = w.clock.Add(time.Minute)
	in = w.must(200, "POST", path+"/updates", `{"text":"Mended.","status":"resolved"}`)
	if ups := in["updates"].([]any); len(ups) != 3 || ups[0].(map[string]any)["text"] != "Mended." || in["ends_at"] == nil {
		t.Errorf("the incident is %v", in)
	}
	w.must(409, "POST", path+"/updates", `{"text":"Again."}`)
	plan := w.must(201, "POST", "/v1/incidents", fmt.Sprintf(`{"kind":"maintenance","title":"Upgrade","text":"A minute.","starts_at":"%s","ends_at":"%s"}`,
		at(time.Hour), at(2*time.Hour)))
	path = "/v1/incidents/" + plan["id"].(string)
	for after, status := range map[time.Duration]string{0: "planned", 90 * time.Minute: "underway"} {
		was := w.clock
		w.clock = was.Add(after)
		if got := w.must(200, "GET", path, ""); got["status"] != status {
			t.Errorf("after %v the maintenance is %v", after, got["status"])
		}
		w.clock = was
	}
	if got := w.must(200, "POST", path+"/updates", `{"text":"Longer.","ends_at":"`+at(3*time.Hour)+`"}`); plan["ends_at"] == got["ends_at"] ||
		got["status"] != "planned" {
		t.Errorf("the maintenance is %v", got)
	}
	for wrong, pointer := range map[string]string{`{"text":"x","ends_at":"` + at(time.Hour) + `"}`: "/ends_at",
		`{"text":"x","status":"monitoring"}`: "/status"} {
		r := w.ask(admin, "POST", path+"/updates", wrong)
		if r.StatusCode != 422 || !strings.Contains(string(r.body), `"pointer":"`+pointer+`"`) {
			t.Errorf("%s: answered %d %s", wrong, r.StatusCode, r.body)
		}
	}
	if got := w.must(200, "POST", path+"/updates", `{"text":"Not today.","status":"resolved"}`); got["status"] != "finished" {
		t.Errorf("the maintenance is %v", got)
	}
	if all := w.must(200, "GET", "/v1/incidents?limit=1", ""); len(all["data"].([]any)) != 1 || all["next"] == nil {
		t.Errorf("the list is %v", all)
	}
	for _, who := range []string{acmeAdmin, scoped("read") + "_acme"} {
		w.as(who, 403, "GET", "/v1/incidents", "")
		w.as(who, 404, "GET", path, "")
	}
	w.as(acmeAdmin, 403, "POST", "/v1/incidents", `{"title":"x","text":"y"}`)
	if told != 6 {
		t.Errorf("the page was told %d times of 6 changes", told)
	}
	if all := w.must(200, "GET", "/v1/audit", ""); len(all["data"].([]any)) < 5 {
		t.Errorf("the audit is %v", all)
	}
}

// TestAnIncidentOfManyMessages: an incident that may not have more messages can be resolved.
func TestAnIncidentOfManyMessages(t *testing.T) {
	w := newWorld(t)
	in := w.must(201, "POST", "/v1/incidents", `{"title":"Publishing is slow","text":"We look."}`)
	path := "/v1/incidents/" + in["id"].(string) + "/updates"
	for range mostMessages - 1 {
		w.must(200, "POST", path, `{"text":"We still look."}`)
	}
	w.must(409, "POST", path, `{"text":"We still look."}`)
	if in = w.must(200, "POST", path, `{"text":"Mended.","status":"resolved"}`); in["status"] != "resolved" {
		t.Errorf("the incident is %v", in)
	}
}

func TestIncidentsThatCannotBe(t *testing.T) {
	w := newWorld(t)
	in := w.must(201, "POST", "/v1/incidents", `{"title":"a","text":"b"}`)
	updates := "/v1/incidents/" + in["id"].(string) + "/updates"
	at := w.clock.Add(time.Hour).Format(time.RFC3339)
	for _, c := range []struct{ path, body, pointer string }{
		{"/v1/incidents", `{"text":"b"}`, "/title"},
		{"/v1/incidents", `{"title":"a"}`, "/text"},
		{"/v1/incidents", `{"title":"a\nb","text":"b"}`, "/title"},
		{"/v1/incidents", `{"title":"a","text":"` + strings.Repeat("x", 2001) + `"}`, "/text"},
		{"/v1/incidents", `{"title":"a","text":"b","components":["billing"]}`, "/components/0"},
		{"/v1/incidents", `{"title":"a","text":"b","impact":"huge"}`, "/impact"},
		{"/v1/incidents", `{"title":"a","text":"b","ends_at":"` + at + `"}`, "/ends_at"},
		{"/v1/incidents", `{"title":"a","text":"b","starts_at":"` + at + `"}`, "/starts_at"},
		{"/v1/incidents", `{"title":"a","text":"b","kind":"maintenance"}`, "/starts_at"},
		{"/v1/incidents", `{"title":"a","text":"b","kind":"maintenance","starts_at":"` + at + `","ends_at":"` + at + `"}`, "/ends_at"},
		{updates, `{}`, "/text"},
		{updates, `{"text":"x","status":"over"}`, "/status"},
		{updates, `{"text":"x","ends_at":"` + at + `"}`, "/ends_at"},
	} {
		r := w.ask(admin, "POST", c.path, c.body)
		if r.StatusCode != http.StatusUnprocessableEntity && r.StatusCode != http.StatusBadRequest || !strings.Contains(string(r.body), `"pointer":"`+c.pointer+`"`) {
			t.Errorf("%s: answered %d %s", c.body, r.StatusCode, r.body)
		}
	}
	w.must(404, "POST", "/v1/incidents/inc_none/updates", `{"text":"x"}`)
}

// Hostile text of an operator's hand does no harm on the public page, in no form of it.
func TestStatusPageEscapes(t *testing.T) {
	const evil = `</title><script>alert(1)</script>]]>"'&`
	pages := statuspage.NewPages(func() error { return nil }, Plainly, "")
	w := newWorld(t, func(o *Options) { o.Status = pages })
	report := kept(func() time.Time { return w.clock })()
	pages.Update(statuspage.New(report, []wire.Incident{{ID: "inc_1", Kind: "incident", Title: evil, Impact: "outage", Status: "monitoring",
		StartsAt: w.clock, Components: []string{"accepting"}, Updates: []wire.IncidentUpdate{{At: w.clock, Status: "monitoring", Text: evil}}}}))
	for _, path := range []string{"/status", "/status.rss", "/status.svg"} {
		r := w.ask("", "GET", path, "")
		if r.StatusCode != 200 || strings.Contains(string(r.body), "<script") || strings.Contains(string(r.body), "]]>") {
			t.Errorf("%s: answered %d %s", path, r.StatusCode, r.body)
		}
		if csp := r.Header.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'; ") {
			t.Errorf("%s: the policy is %q", path, csp)
		}
		tag := r.Header.Get("ETag")
		if again := w.ask("", "GET", path, "", "If-None-Match", tag); again.StatusCode != 304 || tag == "" {
			t.Errorf("%s: answered %d to the tag %s", path, again.StatusCode, tag)
		}
	}
}
