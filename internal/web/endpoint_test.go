package web

import (
	"strings"
	"testing"
	"time"
)

// TestTheDayOfAnEndpointIsThatOfTheOverview: it has the hour in which the last 24 h began.
func TestTheDayOfAnEndpointIsThatOfTheOverview(t *testing.T) {
	s := newSite(t, nil)
	s.api.edit = func(name string, answer any) any {
		if m, is := answer.(map[string]any); is && name == "endpoint_stats" {
			m["data"] = []any{map[string]any{"at": then.Add(-24 * time.Hour).Truncate(time.Hour), "delivered": 5, "attempts": 5, "attempted": 5}}
		}
		return answer
	}
	s.signIn()
	if body := s.ask("GET", "/endpoints/ep_1", nil).Body.String(); !strings.Contains(body, "5 delivered, 0 failed in 24 h") {
		t.Error("deliveries of 24 hours ago are not of the last 24 h")
	}
}
