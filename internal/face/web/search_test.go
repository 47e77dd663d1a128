package web

import (
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
	for as, want := range map[string]string{"key": "Key order_14: ", "type": "Type order_14: ", "text": "Text order_14: "} {
		s.api.edit = func(name string, answer any) any {
			if name == "meaning" {
				answer.(map[string]any)["as"] = as
			}
			return answer
		}
		for _, path := range []string{"/deliveries", "/events"} {
			page := s.ask("GET", path+"?q=order_14", nil).Body.String()
			listed := strings.Contains(page, "<tr data-row")
			switch {
			case path == "/deliveries" && !strings.Contains(page, want):
				t.Errorf("%s as %s: not said: %s", path, as, page)
			case path == "/events" && (as == "text") == listed:
				t.Errorf("%s as %s: has rows: %v", path, as, listed)
			case path == "/events" && as == "text" && !strings.Contains(page, "searched on the page Deliveries"):
				t.Errorf("%s: text in data: %s", path, page)
			}
		}
	}
	if page := s.ask("GET", "/events?q=status:failed", nil).Body.String(); strings.Contains(page, "<tr data-row") || !strings.Contains(page, "are of deliveries") {
		t.Errorf("a search that events do not have lists some: %s", page)
	}
	for path, want := range map[string]string{"/deliveries": "Search deliveries: ", "/endpoints": "Search deliveries: ", "/sources": "Search deliveries: ",
		"/events": "Search events: an id, key, type, or since:6h", "/dead-letters": "Search dead letters: "} {
		if page := s.ask("GET", path, nil).Body.String(); !strings.Contains(page, `placeholder="`+want) {
			t.Errorf("%s: the box does not say %q", path, want)
		}
	}
}
