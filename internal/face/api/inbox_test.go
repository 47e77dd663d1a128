package api

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/pass"
	"github.com/grapnelhq/grapnel/internal/face/api/openapi"
	"github.com/grapnelhq/grapnel/internal/inbound/ingress"
	"github.com/grapnelhq/grapnel/internal/store"
)

// takeIn puts an event into the store as ingress would.
func (w *world) takeIn(src, id, contentType, body string) {
	w.t.Helper()
	source, ok := w.engine.Source(store.Everyone(), src)
	if !ok {
		w.t.Fatalf("there is no source %s", src)
	}
	ev := &grapnel.Event{ID: id, Tenant: source.Tenant, Type: "invoice.paid", Key: "k", Data: []byte(body),
		ContentType: contentType, OccurredAt: w.clock, AcceptedAt: w.clock,
		Source: src, Intake: &grapnel.Intake{Source: src, At: w.clock, Method: "POST", Path: "/in/" + src + "?a=b", Remote: "192.0.2.1",
			Headers: []grapnel.Header{{Name: "X-A", Value: "1"}, {Name: "Authorization", Value: "[redacted]"}},
			Checks:  []grapnel.Check{{Passed: true, Text: "timestamp 4 s old"}, {Passed: true, Text: "signature matches secret 1 of 1"}},
			By:      grapnel.ByEventID, Known: "evt_of_theirs"}}
	if _, err := w.engine.Publish(w.t.Context(), []store.Incoming{{Event: ev}}, nil); err != nil {
		w.t.Fatal(err)
	}
}

// setAside keeps a request that is no event.
func (w *world) setAside(src string, why grapnel.AsideReason, body string) string {
	w.t.Helper()
	a := grapnel.Aside{ID: grapnel.NewID(grapnel.AsidePrefix, w.clock, w.options.Random), Tenant: "default", Why: why,
		ContentType: "text/plain", Body: []byte(body), Size: len(body),
		Intake: grapnel.Intake{Source: src, At: w.clock, Method: "POST", Path: "/in/" + src, By: grapnel.ByEventID,
			Checks: []grapnel.Check{{Passed: true, Text: "timestamp 4 s old"}, {Text: "signature matches none of 1 secret"}}}}
	if why == grapnel.AsideConflict {
		a.Event = "evt_1"
	}
	if err := w.engine.SetAside(w.t.Context(), a); err != nil {
		w.t.Fatal(err)
	}
	return a.ID
}

// inbox lists all pages of the inbox and returns the ids, and how many pages they took.
func (w *world) inbox(query string) (ids []string, pages int) {
	w.t.Helper()
	for cursor := ""; ; pages++ {
		got := w.must(200, "GET", "/v1/inbox?"+query+cursor, "")
		for _, one := range got["data"].([]any) {
			ids = append(ids, one.(map[string]any)["id"].(string))
		}
		if got["next"] == nil {
			return ids, pages + 1
		}
		cursor = "&cursor=" + got["next"].(string)
	}
}

func TestInboxListsBothHalvesByTime(t *testing.T) {
	w := newWorld(t)
	src := w.shop("")
	other := w.must(201, "POST", "/v1/sources", `{"name":"other","verify":{"scheme":"none"}}`)["id"].(string)
	var all, mine, unverified, accepted []string
	note := func(id string, lists ...*[]string) {
		for _, list := range append(lists, &all) {
			*list = append(*list, id)
		}
		w.clock = w.clock.Add(time.Second)
	}
	var middle time.Time
	for i := range 7 {
		id := fmt.Sprintf("evt_%d", i)
		w.takeIn(src, id, "application/json", "{}")
		note(id, &mine, &accepted)
		w.must(202, "POST", "/v1/events", `{"type":"published","data":1}`) // is none of it
		note(w.setAside(src, grapnel.AsideUnverified, "x"), &mine, &unverified)
		if i == 3 {
			middle = w.clock
		}
		note(w.setAside(other, grapnel.AsideConflict, "x"))
	}
	for _, list := range []*[]string{&all, &mine, &unverified, &accepted} {
		slices.Reverse(*list)
	}
	for query, want := range map[string][]string{
		"": all, "source=" + src: mine, "outcome=unverified": unverified, "outcome=accepted": accepted,
		"source=" + other + "&outcome=accepted":   nil,
		"from=" + middle.Format(time.RFC3339Nano): all[:10], "to=" + middle.Format(time.RFC3339Nano): all[10:], "tenant=acme": nil,
	} {
		for _, limit := range []int{50, 21, 4, 1} {
			got, _ := w.inbox(strings.TrimPrefix(fmt.Sprintf("%s&limit=%d", query, limit), "&"))
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s, %d a page: %s", query, limit, d)
			}
		}
	}
	if got := w.as(acmeAdmin, 200, "GET", "/v1/inbox", ""); len(got["data"].([]any)) != 0 {
		t.Errorf("another tenant sees %v", got)
	}
}

// Requests that arrive between two pages are on none of the following pages.
func TestInboxPagesAreNotDisturbedByWhatComesIn(t *testing.T) {
	w := newWorld(t)
	src := w.shop("")
	var old []string
	for i := range 3 {
		w.takeIn(src, fmt.Sprintf("evt_%d", i), "application/json", "{}")
		old = append(old, fmt.Sprintf("evt_%d", i))
		w.clock = w.clock.Add(time.Second)
	}
	slices.Reverse(old)
	first := w.must(200, "GET", "/v1/inbox?limit=1", "")
	w.setAside(src, grapnel.AsideUnverified, "x")
	w.clock = w.clock.Add(time.Second)
	w.takeIn(src, "evt_9", "application/json", "{}")
	second := w.must(200, "GET", "/v1/inbox?limit=1&cursor="+first["next"].(string), "")
	third := w.must(200, "GET", "/v1/inbox?limit=1&cursor="+second["next"].(string), "")
	var got []string
	for _, page := range []map[string]any{first, second, third} {
		for _, one := range page["data"].([]any) {
			got = append(got, one.(map[string]any)["id"].(string))
		}
	}
	if d := cmp.Diff(old, got); d != "" || third["next"] != nil {
		t.Errorf("%s, then %v", d, third["next"])
	}
}

// Requests that are rare among published events are found, a part of the way at a time.
func TestInboxDoesNotSearchForEver(t *testing.T) {
	w := newWorld(t)
	src := w.shop("")
	w.takeIn(src, "evt_first", "application/json", "{}")
	var lines strings.Builder
	for range 1000 {
		lines.WriteString("{\"type\":\"a\",\"data\":1}\n")
	}
	for range 3 {
		w.must(202, "POST", "/v1/events/batch", lines.String(), "Content-Type", openapi.TypeNDJSON)
	}
	got, pages := w.inbox("limit=5")
	if d := cmp.Diff([]string{"evt_first"}, got); d != "" || pages < 2 {
		t.Errorf("%s in %d pages", d, pages)
	}
}

func TestInboxShowsHowARequestCame(t *testing.T) {
	w := newWorld(t)
	src := w.shop("")
	w.takeIn(src, "evt_1", "application/json", `{"amount": 1.50}`)
	w.takeIn(src, "evt_2", "application/x-www-form-urlencoded", `a=b`)
	w.takeIn(src, "evt_3", "application/octet-stream", "\x00\x01")
	w.must(202, "POST", "/v1/events", `{"id":"published","type":"a","data":1}`)
	got := w.must(200, "GET", "/v1/inbox/evt_1", "")
	if got["outcome"] != "accepted" || got["event_id"] != "evt_1" || got["path"] != "/in/"+src+"?a=b" ||
		got["type"] != "invoice.paid" || got["size"] != float64(16) {
		t.Errorf("it shows %v", got)
	}
	if d := cmp.Diff([]any{map[string]any{"passed": true, "text": "timestamp 4 s old"},
		map[string]any{"passed": true, "text": "signature matches secret 1 of 1"}}, got["checks"]); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[string]any{"by": "event_id", "value": "evt_of_theirs"}, got["known_by"]); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[string]any{"amount": 1.5}, got["body"]); d != "" {
		t.Error(d)
	}
	if got = w.must(200, "GET", "/v1/inbox/evt_2", ""); got["body_text"] != "a=b" || got["body"] != nil {
		t.Errorf("text is shown as %v", got)
	}
	if got = w.must(200, "GET", "/v1/inbox/evt_3", ""); got["body_base64"] != "AAE=" {
		t.Errorf("bytes are shown as %v", got)
	}
	w.must(404, "GET", "/v1/inbox/published", "")
	id := w.setAside(src, grapnel.AsideUnverified, "forged")
	if got = w.must(200, "GET", "/v1/inbox/"+id, ""); got["body_text"] != "forged" || got["event_id"] != nil ||
		got["reason"] != "not verified: signature matches none of 1 secret" {
		t.Errorf("it shows %v", got)
	}
	id = w.setAside(src, grapnel.AsideConflict, "again")
	if got = w.must(200, "GET", "/v1/inbox/"+id, ""); got["event_id"] != "evt_1" ||
		!strings.Contains(got["reason"].(string), "with another body") {
		t.Errorf("it shows %v", got)
	}
	w.as(acmeAdmin, 404, "GET", "/v1/inbox/"+id, "")
	if got = w.must(200, "GET", "/v1/events/evt_1", ""); got["source"] != src {
		t.Errorf("the event says that it came through %v", got["source"])
	}
}

// A conflict is of an id or of the content, or of a signature that was used before.
func TestInboxSaysWhatAConflictIsOf(t *testing.T) {
	for by, want := range map[grapnel.DedupeBy]string{
		grapnel.ByEventID: "the event id of evt_1, with another body", "": "with the signature of evt_1, under another id or type",
	} {
		aside := grapnel.Aside{Why: grapnel.AsideConflict, Event: "evt_1", Intake: grapnel.Intake{By: by}}
		if got := inboxAside(&aside).Reason; got != want {
			t.Errorf("known by %q: %s", by, got)
		}
	}
}

// TestInboxHidesWhatExpressionsQuote: a viewer sees which expression of the source has failed, and
// not the data in its error.
func TestInboxHidesWhatExpressionsQuote(t *testing.T) {
	w := newWorld(t)
	failed := grapnel.Check{Text: ingress.FailedExpression + "type: the expression cannot be evaluated: no such key: payload-canary"}
	ev := &grapnel.Event{ID: "evt_in", Tenant: "acme", Type: "a.b", Data: []byte(`{}`), ContentType: grapnel.JSONType, OccurredAt: w.clock,
		AcceptedAt: w.clock, Source: "src_1", Intake: &grapnel.Intake{Source: "src_1", At: w.clock, Checks: []grapnel.Check{failed}}}
	if _, err := w.engine.Publish(t.Context(), []store.Incoming{{Event: ev}}, nil); err != nil {
		t.Fatal(err)
	}
	viewer, err := w.options.Passes.Seal(pass.Pass{Subject: "jane", Tenant: "acme", Role: grapnel.RoleViewer,
		Scopes: []grapnel.Scope{grapnel.ScopeRead}, Begins: w.clock, Ends: w.clock.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	for key, text := range map[string]string{viewer: "the source's type: [hidden]", acmeAdmin: failed.Text} {
		want := []any{map[string]any{"passed": false, "text": text}}
		if d := cmp.Diff(want, w.as(key, 200, "GET", "/v1/inbox/evt_in", "")["checks"]); d != "" {
			t.Error(d)
		}
	}
}
