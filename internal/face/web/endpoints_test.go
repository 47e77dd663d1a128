package web

import (
	"slices"
	"testing"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
)

// TestTroubledEndpointsComeFirst: the first page begins with the worst that the overview names,
// also those of later pages, each once; a later page has only the others.
func TestTroubledEndpointsComeFirst(t *testing.T) {
	state := func(s grapnel.HealthState) (h client.Health) { h.State = s; return h }
	o := &client.Overview{Attention: []client.OverviewEndpoint{
		{ID: "far", Health: state(grapnel.HealthOpen)}, {ID: "near", Health: state(grapnel.HealthFailing)}}}
	page := []client.Endpoint{{ID: "well", Health: state(grapnel.HealthHealthy)},
		{ID: "near", Health: state(grapnel.HealthFailing)}, {ID: "unnamed", Health: state(grapnel.HealthPaused)}}
	for _, c := range []struct {
		first bool
		want  []string
	}{{true, []string{"far", "near", "unnamed"}}, {false, []string{"unnamed"}}} {
		var got []string
		for _, e := range attention(o, page, c.first) {
			got = append(got, e.ID)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("first page %t: %v, want %v", c.first, got, c.want)
		}
	}
}
