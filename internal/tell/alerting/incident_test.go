package alerting_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
)

// TestIncidentsAreClosed: a service that keeps an incident for each alert is told of each
// resolution by the id of its alert, however many there are at once, and then of the end of the
// digest that told of them; another service gets one digest of them.
func TestIncidentsAreClosed(t *testing.T) {
	within(t, memory.New(), func(w *world) {
		for _, service := range []string{"pagerduty", "opsgenie", "slack"} {
			w.channel(service, "acme")
			w.change(service, func(ep *grapnel.Endpoint) { ep.Channel = &grapnel.Channel{Service: service} })
		}
		time.Sleep(5 * time.Second) // in the middle between two rounds
		w.disabled(8)
		time.Sleep(2 * time.Minute)
		for i := range 8 {
			w.change(fmt.Sprintf("ep_%04d", i), func(ep *grapnel.Endpoint) { ep.Status, ep.DisabledReason = grapnel.EndpointEnabled, "" })
		}
		time.Sleep(2 * time.Minute)
		list, err := w.store.EventList(ctx, store.Of("acme"), store.EventQuery{Type: grapnel.ChannelPattern, Limit: 100})
		w.must(err)
		got := map[string]int{}
		for i := range list {
			_, made, err := w.store.Event(ctx, store.Of("acme"), "acme", list[i].ID)
			w.must(err)
			for _, d := range made {
				got[d.EndpointID+" "+list[i].Type]++
			}
		}
		for what, want := range map[string]int{"pagerduty grapnel.alert.resolved": 9, "opsgenie grapnel.alert.resolved": 9,
			"slack grapnel.alert.resolved": 0, "pagerduty grapnel.alert.digest": 1, "slack grapnel.alert.digest": 2} {
			if got[what] != want {
				t.Errorf("%s: %d, want %d", what, got[what], want)
			}
		}
	})
}
