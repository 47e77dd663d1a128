package web

import (
	"net/http"
	"strings"
	"testing"
)

func TestJump(t *testing.T) {
	for text, want := range map[string]string{"dlv_01m83vb": "/deliveries/dlv_01m83vb", " ep_1 ": "/endpoints/ep_1", "ep_1 x": "", "dlv_../x": "", `"dlv_1"`: ""} {
		if s := parseSearch(text, then); s.Jump != want {
			t.Errorf("%s leads to %q, want %q", text, s.Jump, want)
		}
	}
}

// TestSavedViewsCanBeRead: each of them is a search without faults.
func TestSavedViewsCanBeRead(t *testing.T) {
	for _, v := range append(savedViews, deadViews...) {
		if s := parseSearch(v.q, then); len(s.Faults) > 0 || s.Filter.Text != "" {
			t.Errorf("%s: %v, text %q", v.name, s.Faults, s.Filter.Text)
		}
	}
}

// TestCode4xxIsAConditionOfTheFilter: no parameter of the API has it, because 4xx are several error
// classes.
func TestCode4xxIsAConditionOfTheFilter(t *testing.T) {
	s := parseSearch("took:2s code:4xx key:a", then)
	if s.Filter.Filter != "took:2s code:4xx" || s.Filter.StatusCode != 0 || s.Filter.ErrorClass != "" || s.Filter.Key != "a" {
		t.Errorf("the filter is %+v", s.Filter)
	}
}

// TestTheSearchBoxKeepsItsPromise: a page says what it took a word for, asks the API for that, and
// its box promises what it finds.
func TestTheSearchBoxKeepsItsPromise(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	for as, want := range map[string]string{"key": "Key order_14: ", "type": "Type order_14: ", "text": "Text order_14: ",
		"endpoint": "Endpoint Warehouse: ", "source": "Source Warehouse: ", "tenant": "Customer order_14: "} {
		s.api.edit = func(name string, answer any) any {
			if is, _ := answer.(map[string]any); name == "meaning" {
				switch is["as"] = as; as {
				case "endpoint", "source":
					is["id"], is["name"] = "ep_1", "Warehouse"
				case "tenant":
					is["id"] = "order_14"
				case "text":
					is["things"] = []any{map[string]any{"kind": "source", "id": "src_7", "name": "order_14x", "tenant": "default"}}
				}
			}
			return answer
		}
		for _, path := range []string{"/deliveries", "/events"} {
			page := s.ask("GET", path+"?q=order_14", nil).Body.String()
			if path == "/events" && as == "endpoint" { // which events have not
				want = "are of deliveries"
			}
			if !strings.Contains(page, want) {
				t.Errorf("%s as %s: not said: %s", path, as, page)
			}
			if as == "text" && !strings.Contains(page, `href="/sources/src_7">source order_14x`) {
				t.Errorf("%s: no link to what else has the name: %s", path, page)
			}
		}
	}
	s.api.edit = nil
	if page := s.ask("GET", "/events?q=status:failed", nil).Body.String(); strings.Contains(page, "<tr data-row") || !strings.Contains(page, "are of deliveries") {
		t.Errorf("a search that events do not have lists some: %s", page)
	}
	for path, want := range map[string]string{"/deliveries": "Search deliveries: ", "/inbox": "Search deliveries: ", "/audit": "Find actions ",
		"/endpoints": "Find endpoints ", "/sources": "Find sources ", "/queues": "Find queues ", "/policies": "Find policies ", "/keys": "Find API keys ",
		"/events": "Search events: an id, key, type, source, text, or since:6h", "/dead-letters": "Search dead letters: "} {
		if page := s.ask("GET", path, nil).Body.String(); !strings.Contains(page, `placeholder="`+want) {
			t.Errorf("%s: the box does not say %q", path, want)
		}
	}
}

// TestTheSearchSaysHowManyItFound: behind what it took the word for, the number of rows, and that
// these are the newest if there are others.
func TestTheSearchSaysHowManyItFound(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	for _, c := range []struct {
		path string
		rows int
		next any
		want string
	}{
		{"/deliveries", 21, nil, "Key k1: 21 deliveries: "}, {"/deliveries", 1, nil, "Key k1: 1 delivery, "}, {"/deliveries", 0, nil, "Key k1: no deliveries."},
		{"/deliveries", 21, "c", "Key k1: the newest 21 deliveries: "}, {"/events", 21, nil, "Key k1: 21 events, the newest "},
		{"/events", 1, nil, "Key k1: 1 event, the newest "}, {"/events", 21, "c", "Key k1: the newest 21 events; "}, {"/events", 0, nil, "Key k1: no events."},
	} {
		s.api.edit = func(name string, answer any) any {
			doc, _ := answer.(map[string]any)
			switch name {
			case "meaning":
				doc["as"] = "key"
			case "deliveries", "events":
				rows, all := doc["data"].([]any), []any{}
				for i := range c.rows {
					all = append(all, rows[i%len(rows)])
				}
				doc["data"], doc["next"] = all, c.next
			}
			return answer
		}
		if got := s.answer(c.path + "?q=k1"); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s of %d: %q, want %q", c.path, c.rows, got, c.want)
		}
	}
}

// TestListsFindByName: the box of a list asks the API for a part of a name, on every page of it, and
// a list without a match says so, with the way back.
func TestListsFindByName(t *testing.T) {
	for _, list := range []string{"endpoints", "sources", "queues", "policies", "keys", "channels", "event-types", "audit"} {
		s := newSite(t, nil)
		s.signIn()
		asked, none := "", false
		s.api.edit = func(name string, answer any) any {
			if doc, _ := answer.(map[string]any); name == strings.ReplaceAll(list, "-", "_") {
				doc["next"] = "behind"
				if none {
					doc["data"], doc["next"] = []any{}, nil
				}
			}
			return answer
		}
		s.api.asked = func(r *http.Request) {
			if r.URL.Path == "/v1/"+list {
				asked = r.URL.Query().Get("search")
			}
		}
		page := s.ask("GET", "/"+list+"?q=+Ware%26x+", nil).Body.String()
		if asked != "Ware&x" || !strings.Contains(page, "q=Ware%26x") || !strings.Contains(page, `value=" Ware&amp;x "`) {
			t.Errorf("%s: asked for %q: %s", list, asked, page)
		}
		if s.ask("GET", "/"+list+"?q=ware&format=json", nil); asked != "ware" {
			t.Errorf("%s: its JSON is of %q", list, asked)
		}
		none = true
		if page := s.ask("GET", "/"+list+"?q=ware", nil).Body.String(); !strings.Contains(page, "has “ware” in its name") || !strings.Contains(page, `href="/`+list+`"`) {
			t.Errorf("%s without a match: %s", list, page)
		}
	}
}

// TestConditionsAreLinks: each condition of a search can be removed by a link, and chosen from a
// menu, which has the values of the page's own rows.
func TestConditionsAreLinks(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	page := strings.ReplaceAll(s.ask("GET", "/deliveries?q=status:failed+since:6h", nil).Body.String(), "&#43;", "+")
	for _, want := range []string{`class="chip" href="/deliveries?q=since%3A6h"`, `class="chip" href="/deliveries?q=status%3Afailed"`,
		`href="/deliveries?q=since%3A6h+status%3Adelivered">delivered`, `href="/deliveries?q=status%3Afailed+since%3A6h+code%3A5xx">5xx`,
		`href="/deliveries?q=status%3Afailed+since%3A6h+endpoint%3Aep_01m83vb6myfvrrs719mc3x49ms">nordlys`,
		`href="/deliveries?q=status%3Afailed+since%3A6h+type%3Aorder.made">order.made`,
		`href="/deliveries?q=since%3A6h+status%3Afailed" aria-current="true">failed`} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s: %s", want, page)
		}
	}
	if page := s.ask("GET", "/deliveries?q=stauts:failed+key:a", nil).Body.String(); !strings.Contains(page, `class="chip" href="/deliveries?q=key%3Aa"`) {
		t.Errorf("a condition at fault cannot be removed: %s", page)
	}
}

// TestThePaletteFindsNames: one request of the API answers with the pages of things that have a
// name, and of what else the word is.
func TestThePaletteFindsNames(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	asked := 0
	s.api.asked = func(r *http.Request) {
		if r.URL.Path == "/v1/search" && r.URL.Query().Get("word") == "ware" {
			asked++
		} else {
			t.Errorf("asked for %s", r.URL)
		}
	}
	s.api.edit = func(name string, answer any) any {
		if is, _ := answer.(map[string]any); name == "meaning" {
			is["as"] = "key"
			for _, kind := range []string{"endpoint", "queue", "source", "policy", "event_type", "tenant"} {
				is["things"] = append(is["things"].([]any), map[string]any{"kind": kind, "id": "x_1", "name": "Ware " + kind, "tenant": "acme"})
			}
		}
		return answer
	}
	body := s.ask("GET", "/complete?name=ware", nil).Body.String()
	for _, want := range []string{`"to":"/deliveries?q=key%3Aware"`, `"word":"Ware endpoint","says":"endpoint of acme","to":"/endpoints/x_1"`,
		`"to":"/queues/x_1"`, `"to":"/sources/x_1"`, `"to":"/policies/x_1"`, `"to":"/event-types/x_1"`, `"to":"/customers/x_1"`} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s: %s", want, body)
		}
	}
	if asked != 1 {
		t.Errorf("%d requests for one word", asked)
	}
}
