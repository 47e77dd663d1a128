package web

import (
	"net/http"
	"strings"
	"testing"
)

// TestTheSignatureIsCheckedWhenAsked: the page alone does not ask, and a check that fails takes
// nothing away from the page.
func TestTheSignatureIsCheckedWhenAsked(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	const at, sentence = "/deliveries/dlv_1?attempt=1", "The signature matches a secret that ended"
	page := s.ask("GET", at, nil).Body.String()
	if strings.Contains(page, sentence) || !strings.Contains(page, "attempt=1&amp;check=1#signature") {
		t.Errorf("without being asked: %s", page)
	}
	page = s.ask("GET", at+"&check=1", nil).Body.String()
	for _, part := range []string{sentence, "secret 2 of 2", "evt_1.1795255200.BODY", "&lt;b&gt;1", "its beginning", "deliveries verify"} {
		if !strings.Contains(page, part) {
			t.Errorf("%q is not on the page", part)
		}
	}
	if page = s.ask("GET", at+"&check=2", nil).Body.String(); strings.Contains(page, sentence) {
		t.Error("another attempt's check is shown")
	}
	s.api.status = map[string]int{"signature": http.StatusServiceUnavailable}
	w := s.ask("GET", at+"&check=1", nil)
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "There is no such signature") {
		t.Errorf("refused: answered %d %s", w.Code, w.Body)
	}
	s.api.status = nil
	s.api.edit = func(name string, answer any) any {
		if name == "event" {
			answer.(map[string]any)["payload_hidden"] = true
		}
		return answer
	}
	if page = s.ask("GET", at+"&check=1", nil).Body.String(); strings.Contains(page, sentence) || strings.Contains(page, "#signature") {
		t.Error("a session that sees no payloads is offered a check")
	}
}
