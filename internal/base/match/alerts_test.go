package match

import (
	"slices"
	"testing"

	"github.com/grapnelhq/grapnel"
)

// TestAlertsGoOnlyToThoseWhoNameThem: an endpoint of every type, or of a pattern that could mean
// anything, gets no alerts.
func TestAlertsGoOnlyToThoseWhoNameThem(t *testing.T) {
	r, err := NewRouter([]grapnel.Endpoint{
		{ID: "1", Tenant: "t"},
		{ID: "2", Tenant: "t", EventTypes: []string{"*"}},
		{ID: "3", Tenant: "t", EventTypes: []string{"*.fired", "*.alert.*"}},
		{ID: "4", Tenant: "t", EventTypes: []string{grapnel.ChannelPattern}},
		{ID: "5", Tenant: "t", EventTypes: []string{"*", grapnel.ChannelPattern}},
		{ID: "6", Tenant: "t", EventTypes: []string{"grapnel.*"}},
		{ID: "7", Tenant: "t", EventTypes: []string{"*", grapnel.EventAlertFired}},
		{ID: "8", Tenant: "t", EventTypes: []string{grapnel.EventAlertResolved}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[string][]string{
		grapnel.EventAlertFired:  {"4", "5", "6", "7"},
		grapnel.EventAlertDigest: {"4", "5", "6"},
		"grapnel.test":           {"1", "2", "5", "6", "7"},
		"order.fired":            {"1", "2", "3", "5", "7"},
	} {
		found, err := r.Match(&grapnel.Event{ID: "e", Tenant: "t", Type: kind, Data: []byte(`{}`)}, NewBudget(t.Context(), 1000))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, ep := range found {
			got = append(got, ep.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s goes to %v, not to %v", kind, got, want)
		}
	}
}
