package web

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// TestRefusedRequestsAreLookedForInVain: the pages of a source that rejects say that its refused
// requests are not stored and offer to store them; those of a source in quarantine do not.
func TestRefusedRequestsAreLookedForInVain(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	treatment := ""
	s.api.edit = func(name string, answer any) any {
		if name == "source" {
			one := answer.(map[string]any)
			one["on_unverified"] = treatment
			one["refusals"] = map[string]any{"last_at": "2026-11-23T09:20:00.000000Z", "last_status": 401,
				"last_reason": "the signature matches no secret", "last_hour": 3}
		}
		return answer
	}
	for _, treatment = range []string{"reject", "quarantine"} {
		for _, path := range []string{"/sources/src_1", "/inbox?source=src_1"} {
			body := s.ask("GET", path, nil).Body.String()
			for _, text := range []string{"refused requests are not stored", "/quarantine"} {
				if rejects := treatment == "reject"; strings.Contains(body, text) != rejects {
					t.Errorf("%s of a source that has %s: %q is there: %v", path, treatment, text, !rejects)
				}
			}
		}
	}
	form := url.Values{"token": {s.token("/sources/src_1")}, "back": {"/sources/src_1"}}
	if w := s.ask("POST", "/sources/src_1/quarantine", form); w.Code != http.StatusSeeOther {
		t.Errorf("quarantine: answered %d", w.Code)
	}
}
