package api

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel"
)

// names are the texts of a member in all pages of a list.
func (w *world) names(key, target, member string) (all []string) {
	w.t.Helper()
	for cursor := ""; ; {
		page := w.as(key, 200, "GET", target+cursor, "")
		for _, one := range page["data"].([]any) {
			text, _ := one.(map[string]any)[member].(string)
			all = append(all, text)
		}
		next, more := page["next"].(string)
		if !more {
			return all
		}
		cursor = "&cursor=" + url.QueryEscape(next)
	}
}

// searched is a list that takes search=, with what makes a thing of a name in it.
var searched = []struct{ list, member, body string }{
	{"/v1/endpoints", "description", `{"url":"https://receiver.example/hook","description":"%s"}`},
	{"/v1/sources", "name", `{"name":"%s","verify":{"scheme":"stripe","secret":"whsec_abcdefgh"}}`},
	{"/v1/queues", "name", `{"name":"%s"}`},
	{"/v1/policies", "name", `{"name":"%s","preset":"standard"}`},
	{"/v1/channels", "description", `{"url":"` + slackURL + `","description":"%s"}`},
	{"/v1/keys", "name", `{"name":"%s","scopes":["read"]}`},
	{"/v1/event-types", "name", `{"name":"%s"}`},
}

// TestSearchOfLists: search= finds things by a part of their name, in small or capital letters, and
// by the beginning of their id. Pages have each of them once, a cursor is one of its own search,
// and a key of a tenant finds nothing of another.
func TestSearchOfLists(t *testing.T) {
	w := newWorld(t)
	w.queues()
	for _, s := range searched {
		var want []string
		for i := range 5 {
			for key, name := range map[string]string{acmeAdmin: fmt.Sprint("Ware-", i), admin: fmt.Sprint("theirs-warE", i)} {
				if s.list == "/v1/queues" || s.list == "/v1/policies" || s.list == "/v1/event-types" {
					name = strings.ToLower(name)
				}
				made := w.as(key, 201, "POST", s.list, fmt.Sprintf(s.body, name))
				w.as(key, 201, "POST", s.list, fmt.Sprintf(s.body, fmt.Sprint("other", i)))
				if key == acmeAdmin {
					want = append(want, name)
				}
				id := made["id"].(string)
				if got := w.names(key, s.list+"?search="+id[:len(id)-1], "id"); !slices.Contains(got, id) {
					t.Errorf("%s: the beginning of an id finds %v", s.list, got)
				}
			}
		}
		slices.Sort(want)
		for _, target := range []string{"?search=WARE", "?limit=2&search=ware", "?search=ware-&limit=1"} {
			got := w.names(acmeAdmin, s.list+target, s.member)
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("%s%s: %v, not %v", s.list, target, got, want)
			}
		}
		if got := w.names(admin, s.list+"?limit=3&search=ware", s.member); len(got) != 10 {
			t.Errorf("%s: all tenants have %v", s.list, got)
		}
		if got := w.names(acmeAdmin, s.list+"?search=theirs", s.member); len(got) > 0 {
			t.Errorf("%s: a key of acme finds %v", s.list, got)
		}
		next := w.as(admin, 200, "GET", s.list+"?limit=2&search=ware", "")["next"].(string)
		w.as(admin, 422, "GET", s.list+"?limit=2&search=other&cursor="+url.QueryEscape(next), "")
	}
	if got := w.names(admin, "/v1/tenants?search=ACM", "tenant"); !slices.Equal(got, []string{"acme"}) {
		t.Errorf("tenants: %v", got)
	}
	w.as(admin, 422, "GET", "/v1/endpoints?search="+strings.Repeat("x", longestText+1), "")
}

// TestSearchOfURLs: a URL is searched as its caller sees it, so the values of its query are not
// found by callers who see none.
func TestSearchOfURLs(t *testing.T) {
	w := newWorld(t)
	made := w.as(acmeAdmin, 201, "POST", "/v1/endpoints", `{"url":"https://hooks.example/in?token=s3cret"}`)["id"]
	reader := scoped(grapnel.ScopeRead) + "_acme"
	for _, key := range []string{acmeAdmin, reader} {
		if got := w.names(key, "/v1/endpoints?search=Hooks.example/in", "id"); !slices.Equal(got, []string{made.(string)}) {
			t.Errorf("by its address: %v", got)
		}
	}
	if len(w.names(acmeAdmin, "/v1/endpoints?search=s3cr", "id")) != 1 || len(w.names(reader, "/v1/endpoints?search=s3cr", "id")) != 0 {
		t.Error("a token of a URL is found by a key that may not read it, or not by one that may")
	}
}

// TestAnswersNameThings: records that have the id of a thing have its name as well.
func TestAnswersNameThings(t *testing.T) {
	w := newWorld(t)
	ep := w.endpoint(acmeAdmin, `,"description":"Warehouse"`)
	w.as(acmeAdmin, 202, "POST", "/v1/events", `{"type":"invoice.paid","data":{}}`)
	d := w.as(acmeAdmin, 200, "GET", "/v1/deliveries", "")["data"].([]any)[0].(map[string]any)
	if d["endpoint_name"] != "Warehouse" {
		t.Errorf("a delivery: %v", d)
	}
	policy := w.as(acmeAdmin, 201, "POST", "/v1/policies", `{"name":"patient","preset":"standard"}`)["id"].(string)
	w.as(acmeAdmin, 204, "DELETE", "/v1/policies/"+policy, "")
	w.as(acmeAdmin, 200, "POST", "/v1/endpoints/"+ep+"/pause", `{"reason":"a visit"}`)
	w.as(acmeAdmin, 201, "POST", "/v1/keys", `{"name":"billing","scopes":["read"]}`)
	type named struct{ name, actor any }
	for target, want := range map[string][]named{
		"/v1/audit?search=warehouse":      {{"Warehouse", nil}, {"Warehouse", nil}},
		"/v1/audit?search=visit":          {{"Warehouse", nil}},
		"/v1/audit?search=PATIENT":        {{"patient", nil}, {"patient", nil}},
		"/v1/audit?search=bill":           {{"billing", nil}},
		"/v1/audit?search=" + ep[:10]:     {{"Warehouse", nil}, {"Warehouse", nil}},
		"/v1/audit?search=theirs&limit=1": nil,
	} {
		var got []named
		for _, e := range w.as(acmeAdmin, 200, "GET", target, "")["data"].([]any) {
			is := e.(map[string]any)
			got = append(got, named{is["name"], is["actor_name"]})
		}
		if len(got) != len(want) || len(got) > 0 && got[0].name != want[0].name {
			t.Errorf("%s: %v, not %v", target, got, want)
		}
	}
	reader := scoped(grapnel.ScopeRead) + "_acme"
	if got := w.names(reader, "/v1/audit?search=billing", "name"); len(got) > 0 {
		t.Errorf("a key that may see no keys finds %v", got)
	}
}

// TestSearchOfTheAuditIsBounded: a page looks at AuditScan entries, and its cursor leads on: all
// pages together have every entry that matches once.
func TestSearchOfTheAuditIsBounded(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Bounds.AuditPage, o.Bounds.AuditScan = 2, 4 })
	rare := w.endpoint(acmeAdmin, `,"description":"rare"`)
	for range 19 {
		w.endpoint(acmeAdmin, `,"description":"often"`)
	}
	if got := w.names(acmeAdmin, "/v1/audit?search=rare", "endpoint_id"); !slices.Equal(got, []string{rare}) {
		t.Errorf("rare: %v", got)
	}
	for _, limit := range []int{1, 3, 50} {
		if got := w.names(acmeAdmin, fmt.Sprint("/v1/audit?search=often&limit=", limit), "endpoint_id"); len(got) != 19 {
			t.Errorf("%d entries with limit %d, not 19", len(got), limit)
		}
	}
	if page := w.as(acmeAdmin, 200, "GET", "/v1/audit?search=rare", ""); len(page["data"].([]any)) != 0 || page["next"] == nil {
		t.Errorf("the first page reads more than its bound: %v", page)
	}
}

// TestTextOfEventsIsFoundInPages: a search for text in data looks at EventScan events for a page,
// and all pages together have each event with the text once; callers who may not see data get none.
func TestTextOfEventsIsFoundInPages(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Bounds.EventScan, o.Bounds.EventsRead = 4, 2 })
	for i := range 23 {
		w.as(acmeAdmin, 202, "POST", "/v1/events", fmt.Sprintf(`{"type":"a.b","id":"e%d","data":{"note":"%s"}}`, i, []string{"paid", "sent", "held"}[i%3]))
	}
	for _, limit := range []int{1, 2, 5, 50} {
		if got := w.names(acmeAdmin, fmt.Sprint("/v1/events?text=paid&limit=", limit), "id"); len(got) != 8 || got[0] != "e21" || got[7] != "e0" {
			t.Errorf("with limit %d: %v", limit, got)
		}
	}
	page := w.as(acmeAdmin, 200, "GET", "/v1/events?text=paid", "")
	if len(page["data"].([]any)) > 2 || page["next"] == nil {
		t.Errorf("one page looks at more than 4 events: %v", page)
	}
	if got := w.names(admin, "/v1/events?text=paid&tenant=other", "id"); len(got) > 0 {
		t.Errorf("of another tenant: %v", got)
	}
	w.as(w.pass([]grapnel.Scope{grapnel.ScopeRead}), 403, "GET", "/v1/events?text=paid", "")
}
