package web

import (
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel/client"
)

// TestMinutesThatAreNotKnownStayBlank: the last hour has a box for each minute that the server has
// counted, and none for the others, and the page says since when it counts.
func TestMinutesThatAreNotKnownStayBlank(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	page := func() string { return s.ask("GET", "/endpoints/ep_1", nil).Body.String() }
	body := page()
	for text, n := range map[string]int{
		"UTC: 3 attempts, 3 delivered, 0 failed":                  1,
		"UTC: 14 attempts, 0 delivered, 14 tried again, 0 failed": 2, // one of them is an hour
		"09:13 UTC: 0 attempts, 0 delivered, 0 failed":            1, "09:09 UTC:": 0, "09:23 UTC:": 0,
		"1 minute without trouble, 3 minutes with trouble and 9 minutes without attempts. ":                 1,
		"Before that no minute was counted: the server has counted them since 09:10 UTC.":                   1,
		`aria-label="The last 13 minutes: 1 without trouble, 3 with trouble, the others without attempts."`: 1,
	} {
		if got := strings.Count(body, text); got != n {
			t.Errorf("the page has %q %d times, want %d", text, got, n)
		}
	}
	s.api.edit = func(name string, answer any) any {
		if name == "endpoint_minutes" {
			m := answer.(map[string]any)
			m["from"], m["data"] = m["to"], []any{}
		}
		return answer
	}
	if body = page(); !strings.Contains(body, "since the server has just started") || strings.Contains(body, "UTC: 3 attempts") {
		t.Error("a page without any minute does not say why")
	}
}

// TestAFewFailedAttemptsAreTrouble: of an endpoint that is down, an hour may have one retry only.
func TestAFewFailedAttemptsAreTrouble(t *testing.T) {
	for _, c := range []struct {
		attempts, failed int64
		troubled         bool
	}{{0, 0, false}, {1, 0, false}, {1, 1, true}, {2, 1, true}, {9, 1, true}, {10, 1, false}, {11, 2, true}} {
		h := hour{At: then, Totals: client.Totals{Attempts: c.attempts, FailedAttempts: c.failed}}
		if h.troubled() != c.troubled {
			t.Errorf("%d of %d attempts failed: trouble is %v", c.failed, c.attempts, h.troubled())
		}
	}
}

// TestDroppedDeliveriesEnded: hours in which deliveries were only dropped have columns.
func TestDroppedDeliveriesEnded(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	c := s.visitOf("/deliveries").outcomes([]hour{{At: then, Totals: client.Totals{Dropped: 3}}, {At: then}, {At: then}}, "")
	if c.Empty != "" || c.Picture == "" {
		t.Errorf("the chart says %q", c.Empty)
	}
}
