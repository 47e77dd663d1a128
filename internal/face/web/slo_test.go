package web

import (
	"strings"
	"testing"
)

// TestPromisesPage: the page opens with the worst promise, and says what burns.
func TestPromisesPage(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	if body := s.ask("GET", "/slo", nil).Body.String(); !strings.Contains(body, "All promises with enough events are kept.") ||
		!strings.Contains(body, "budget left 100 %") || strings.Count(body, `class="daybars"`) != 4 ||
		!strings.Contains(body, "/incidents/inc_") {
		t.Errorf("the page is %s", body)
	}
	state := "burning"
	s.api.edit = func(name string, answer any) any {
		if name == "slo" {
			first := answer.(map[string]any)["promises"].([]any)[0].(map[string]any)
			first["state"], first["sentence"] = state, "budget left 71 %, at this rate until 9 June"
			first["burns"].([]any)[0].(map[string]any)["fires"] = true
		}
		return answer
	}
	for is, says := range map[string]string{"burning": "The budget of availability", "broken": "is below its promise"} {
		state = is
		body := s.ask("GET", "/slo", nil).Body.String()
		if !strings.Contains(body, says) || !strings.Contains(body, "Availability: budget left 71 %, at this rate until 9 June.") ||
			!strings.Contains(body, `<span class="pill bad">fires</span>`) {
			t.Errorf("%s: the page is %s", is, body)
		}
	}
}
