package api

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// feed reads a page, and returns the ids of its events.
func (w *world) feed(key, endpoint, after, more string) (ids []string, page map[string]any) {
	w.t.Helper()
	if after != "" {
		after = "&after=" + after
	}
	page = w.as(key, 200, "GET", "/v1/feed?endpoint="+endpoint+after+more, "")
	for _, item := range page["data"].([]any) {
		ids = append(ids, item.(map[string]any)["event_id"].(string))
	}
	return ids, page
}

// publishes takes in an event with an id.
func (w *world) publishes(key, id, more string) {
	w.t.Helper()
	w.as(key, 202, "POST", "/v1/events", `{"type":"a","id":"`+id+`","data":"`+id+`"`+more+`}`)
}

// TestAFeedIsReadPageByPage: each event stands in it once, whatever became of its delivery, and the
// cursor goes on behind it, also when there was nothing.
func TestAFeedIsReadPageByPage(t *testing.T) {
	w := newWorld(t)
	ep := w.endpoint(acmeAdmin, "")
	_, empty := w.feed(acmeAdmin, ep, "", "")
	for i := range 5 {
		w.publishes(acmeAdmin, fmt.Sprint("e", i), `,"key":"k"`)
	}
	all, err := w.engine.DeliveryList(t.Context(), store.Everyone(), store.DeliveryQuery{Limit: 9})
	if err != nil {
		t.Fatal(err)
	}
	w.finish(&all[4], grapnel.Failed, grapnel.ReasonExhausted, "")
	for range 3 { // redeliveries are left out, also where they fill a page
		if _, err := w.engine.Again(t.Context(), store.Everyone(), store.Redelivery{Of: all[4].Seq, At: w.clock}); err != nil {
			t.Fatal(err)
		}
	}
	w.publishes(acmeAdmin, "e5", "")
	var got []string
	next := empty["next"].(string)
	for more := true; more; {
		some, page := w.feed(acmeAdmin, ep, next, "&limit=2")
		got, next, more = append(got, some...), page["next"].(string), page["more"].(bool)
		if page["gap"] != false {
			t.Errorf("a gap: %v", page)
		}
	}
	if want := []string{"e0", "e1", "e2", "e3", "e4", "e5"}; !slices.Equal(got, want) {
		t.Errorf("read %q, want %q", got, want)
	}
	if some, page := w.feed(acmeAdmin, ep, next, ""); len(some) > 0 || page["next"] != next {
		t.Errorf("at the end: %v", page)
	}
	_, page := w.feed(acmeAdmin, ep, "", "&limit=1")
	item := page["data"].([]any)[0].(map[string]any)
	if item["status"] != "failed" || item["sequence"] != 1.0 || item["delivery_id"] != storeIDs.Of(&all[4]) || item["missing"] != nil {
		t.Errorf("the first item is %v", item)
	}
	w.clock = w.clock.Add(time.Hour)
	if _, err := w.engine.Purge(t.Context(), store.Keep{Now: w.clock, For: time.Minute}, 100); err != nil {
		t.Fatal(err)
	}
	if some, page := w.feed(acmeAdmin, ep, empty["next"].(string), "&limit=1"); page["gap"] != true || !slices.Equal(some, []string{"e1"}) {
		t.Errorf("after a purge: %v", page)
	}
}

// TestAFeedHasTheBodiesThatEndpointsGet: by the format and the transform of the endpoint.
func TestAFeedHasTheBodiesThatEndpointsGet(t *testing.T) {
	w := newWorld(t)
	for settings, want := range map[string][2]any{
		`,"format":"standard"`:    {`"data":{"n":1.00}}`, map[string]any{"Content-Type": "application/json"}},
		`,"format":"raw"`:         {`{"n":1.00}`, map[string]any{"Content-Type": "application/json"}},
		`,"transform":".data.n"`:  {`1.00`, map[string]any{"Content-Type": "application/json"}},
		`,"format":"cloudevents"`: {`{"n":1.00}`, nil},
		`,"transform":"error"`:    {nil, nil},
	} {
		ep := w.endpoint(admin, settings)
		w.must(202, "POST", "/v1/events", `{"type":"a","data":{"n":1.00}}`)
		_, page := w.feed(admin, ep, "", "")
		items := page["data"].([]any)
		item := items[len(items)-1].(map[string]any)
		body, _ := item["body"].(string)
		headers, _ := item["headers"].(map[string]any)
		switch {
		case want[0] == nil:
			if item["body"] != nil || !strings.HasPrefix(fmt.Sprint(item["missing"]), "The endpoint's transform makes no body") {
				t.Errorf("%s: %v", settings, item)
			}
		case !strings.HasSuffix(body, want[0].(string)) || want[1] == nil && headers["Ce-Type"] != "a" ||
			want[1] != nil && fmt.Sprint(headers) != fmt.Sprint(want[1]):
			t.Errorf("%s: %v", settings, item)
		}
	}
	ep := w.endpoint(acmeAdmin, `,"format":"raw"`)
	w.as(acmeAdmin, 202, "POST", "/v1/events/raw?type=a", "\xff\x00 no text", "Content-Type", "application/octet-stream")
	_, page := w.feed(acmeAdmin, ep, "", "")
	if item := page["data"].([]any)[0].(map[string]any); item["body"] != nil || item["body_base64"] != base64.StdEncoding.EncodeToString([]byte("\xff\x00 no text")) {
		t.Errorf("bytes that are no text: %v", item)
	}
}

// TestPagesOfAFeedAreBounded: by bytes and by transforms, and each has an event at least.
func TestPagesOfAFeedAreBounded(t *testing.T) {
	for name, tc := range map[string]struct {
		settings string
		data     int64 // Bounds.PageData
		want     int
	}{
		"bytes":      {"", 1, 1},
		"transforms": {`,"transform":"."`, 1 << 20, 3},
		"neither":    {"", 1 << 20, 7},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(o *Options) { o.Bounds.PageData, o.Bounds.FeedTransforms = tc.data, 3 })
			ep := w.endpoint(acmeAdmin, tc.settings)
			var want, got []string
			for i := range 7 {
				want = append(want, fmt.Sprint("e", i))
				w.publishes(acmeAdmin, want[i], "")
			}
			for next, more := "", true; more; {
				some, page := w.feed(acmeAdmin, ep, next, "")
				got, next, more = append(got, some...), page["next"].(string), page["more"].(bool)
				if len(some) > tc.want || more && len(some) != tc.want {
					t.Errorf("a page of %d events, want %d", len(some), tc.want)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("read %q, want %q", got, want)
			}
		})
	}
}

// TestCursorsOfAFeed: one of another endpoint, a changed one and one of another list are refused,
// and every caller that may read the feed may go on with another's.
func TestCursorsOfAFeed(t *testing.T) {
	w := newWorld(t)
	mine, other := w.endpoint(acmeAdmin, ""), w.endpoint(acmeAdmin, "")
	w.publishes(acmeAdmin, "first", "")
	w.publishes(acmeAdmin, "second", "")
	_, page := w.feed(acmeAdmin, mine, "", "&limit=1")
	next := page["next"].(string)
	list := w.as(acmeAdmin, 200, "GET", "/v1/deliveries?limit=1", "")["next"].(string)
	for _, wrong := range []string{next[:len(next)-1], next[1:], "A" + next[1:], list, "x", next + "AAAA"} {
		if wrong == next {
			continue
		}
		r := w.ask(acmeAdmin, "GET", "/v1/feed?endpoint="+mine+"&after="+url.QueryEscape(wrong), "")
		if r.StatusCode != 422 || !strings.Contains(string(r.body), `"?after"`) {
			t.Errorf("the cursor %s: answered %d %s", wrong, r.StatusCode, r.body)
		}
	}
	if r := w.ask(acmeAdmin, "GET", "/v1/feed?endpoint="+other+"&after="+next, ""); r.StatusCode != 422 || !strings.Contains(string(r.body), `"?after"`) {
		t.Errorf("the cursor of another endpoint: answered %d %s", r.StatusCode, r.body)
	}
	for _, key := range []string{admin, w.pass(portalScopes), w.pass(portalScopes, mine)} {
		if got, _ := w.feed(key, mine, next, ""); !slices.Equal(got, []string{"second"}) {
			t.Errorf("another caller reads %q", got)
		}
	}
}

// TestWhoMayReadAFeed: those who may read the endpoint's events with their content.
func TestWhoMayReadAFeed(t *testing.T) {
	w := newWorld(t)
	mine, other := w.endpoint(acmeAdmin, ""), w.endpoint(acmeAdmin, "")
	w.key("key_globex", "grp_test_globex_feed", "globex", grapnel.ScopeRead)
	queue := w.as(acmeAdmin, 201, "POST", "/v1/queues", `{"name":"orders"}`)["id"].(string)
	absent := w.as(acmeAdmin, 422, "GET", "/v1/feed?endpoint=ep_none", "")["errors"]
	if foreign := w.as("grp_test_globex_feed", 422, "GET", "/v1/feed?endpoint="+mine, "")["errors"]; !reflect.DeepEqual(foreign, absent) {
		t.Errorf("another tenant's endpoint is %v, an absent one %v", foreign, absent)
	}
	w.as(w.pass([]grapnel.Scope{grapnel.ScopeRead}), 403, "GET", "/v1/feed?endpoint="+mine, "")
	w.as(w.pass(portalScopes, other), 422, "GET", "/v1/feed?endpoint="+mine, "")
	w.as(acmeAdmin, 422, "GET", "/v1/feed?endpoint="+queue, "")
	w.as(acmeAdmin, 422, "GET", "/v1/feed", "")
	w.feed(scoped(grapnel.ScopeRead), mine, "", "")
}

// TestAFeedWaitsForAnEvent: an answer without events comes when the wait has passed, or an event.
func TestAFeedWaitsForAnEvent(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Bounds.FeedPoll = time.Millisecond })
	ep := w.endpoint(acmeAdmin, "")
	if got, page := w.feed(acmeAdmin, ep, "", "&wait=5ms"); len(got) > 0 || page["more"] != false {
		t.Errorf("read %v", page)
	}
	go func() {
		_, _ = w.engine.Append(t.Context(), store.Batch{Config: w.engine.config().Version, Events: []store.Incoming{{
			Event:   &grapnel.Event{ID: "late", Tenant: "acme", Type: "a", Data: []byte("1"), ContentType: grapnel.JSONType, AcceptedAt: w.clock},
			Targets: []store.Target{{Endpoint: ep}}}}})
	}()
	if got, _ := w.feed(acmeAdmin, ep, "", "&wait=60s"); !slices.Equal(got, []string{"late"}) {
		t.Errorf("read %q", got)
	}
}
