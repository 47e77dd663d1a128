package web

import (
	"strings"
	"testing"
)

// TestTwice: the list of events that came again, and the same on the event's page, with endpoints
// that answered 2xx more than once.
func TestTwice(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	s.api.edit = func(name string, answer any) any {
		if name == "event" {
			all := answer.(map[string]any)["deliveries"].([]any)
			for _, d := range all[:2] {
				d := d.(map[string]any)
				d["status"], d["endpoint_id"], d["endpoint_name"] = "delivered", "ep_same", "Warehouse"
			}
			all[0].(map[string]any)["finished_at"] = "2026-11-23T09:20:00Z"
			all[1].(map[string]any)["finished_at"] = "2026-11-23T09:20:03Z"
		}
		return answer
	}
	for target, want := range map[string][]string{
		"/events?twice=1": {"1 event came again", "3 times more", "/events/evt_1"},
		"/events/evt_1":   {"It was published 3 times more under this id, the last time 34 s ago", "Warehouse answered 2xx 2 times, within 3 s"},
	} {
		body := s.ask("GET", target, nil).Body.String()
		for _, text := range want {
			if !strings.Contains(body, text) {
				t.Errorf("%s does not say %q", target, text)
			}
		}
	}
	s.api.edit = func(_ string, answer any) any {
		if m, is := answer.(map[string]any); is && m["data"] != nil {
			m["data"] = []any{}
		}
		return answer
	}
	if body := s.ask("GET", "/events?twice=1", nil).Body.String(); !strings.Contains(body, "No event came again.") {
		t.Errorf("the empty list says: %s", body)
	}
}
