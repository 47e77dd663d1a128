package web

import (
	"maps"
	"net/http"
	"strings"
	"testing"
)

// TestKeysThatHoldOthersComeFirst: keys with nothing behind them are passed over, also whole pages
// of them, and counted; the rest is in the order of the deliveries behind.
func TestKeysThatHoldOthersComeFirst(t *testing.T) {
	s := newSite(t, nil)
	asked, none := 0, false
	s.api.edit = func(name string, answer any) any {
		if name != "lanes" {
			return answer
		}
		a := answer.(map[string]any)
		lane := func(key string, waiting int) any {
			one := maps.Clone(a["data"].([]any)[0].(map[string]any))
			one["key"], one["waiting"] = key, waiting
			return one
		}
		switch asked++; {
		case none || asked == 1:
			a["data"] = []any{lane("alone-1", 0), lane("alone-2", 0)}
			a["next"] = "c"
		default:
			a["data"] = []any{lane("alone-3", 0), lane("few", 1), lane("many", 9)}
			a["next"] = nil
		}
		return answer
	}
	s.signIn()
	page := s.ask("GET", "/ordering-keys", nil).Body.String()
	many, few := strings.Index(page, ">many<"), strings.Index(page, ">few<")
	if many < 0 || few < many || strings.Contains(page, ">alone-") || !strings.Contains(page, "3 other keys have a delivery that fails and none behind it.") {
		t.Errorf("many at %d, few at %d: %s", many, few, page)
	}
	asked, none = 0, true
	if page = s.ask("GET", "/ordering-keys", nil).Body.String(); !strings.Contains(page, ">alone-2<") || asked != mostPassedOver {
		t.Errorf("after %d pages: %s", asked, page)
	}
}

// TestStuckKeys: the list and the page of a key say whether it is attempted again or waits for an
// operator, and what its policy does after the last attempt.
func TestStuckKeys(t *testing.T) {
	s := newSite(t, nil)
	var blocked bool
	s.api.edit = func(name string, answer any) any {
		a, _ := answer.(map[string]any)
		switch {
		case name == "endpoint" && blocked:
			a["policy"] = map[string]any{"max_attempts": 1, "then": "block"}
		case (name == "lanes" || name == "deliveries") && blocked:
			all := a["data"].([]any)[:1]
			a["data"], a["next"] = all, nil
			head := all[0].(map[string]any)
			if name == "lanes" {
				head = head["head"].(map[string]any)
			}
			head["next_attempt_at"], head["status"], head["sequence"], head["attempts_made"] = nil, "held", 1, 1
		}
		return answer
	}
	s.signIn()
	said := func(target string, want ...string) {
		t.Helper()
		w := s.ask("GET", target, nil)
		for _, text := range want {
			if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), text) {
				t.Errorf("%s: answered %d without %s", target, w.Code, text)
			}
		}
	}
	said("/ordering-keys", "stuck</span>; their first deliveries are attempted again.", "then the key goes on", "retrying")
	said("/ordering-keys?endpoint=ep_1", "All endpoints")
	blocked = true
	said("/ordering-keys", "One key is stuck; ", "it waits for an operator", "waits for you", "then it waits for you")
	said("/ordering-keys/ep_1?key=inv_1", "The key waits for an operator", "block: once the first delivery has no attempts left", "Skip the first one", "Discard the first one")
	s.api.status = map[string]int{"endpoint": http.StatusNotFound, "lanes": http.StatusNotFound}
	if w := s.ask("GET", "/ordering-keys/ep_2", nil); w.Code != http.StatusNotFound {
		t.Errorf("another's endpoint: answered %d", w.Code)
	}
}
