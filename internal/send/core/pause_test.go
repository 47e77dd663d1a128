package core

import (
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// TestLongPauseDisablesNothing: the time of a pause does not count as failing, also if the endpoint
// was edited while it was paused, and this process began after that.
func TestLongPauseDisablesNothing(t *testing.T) {
	for name, restart := range map[string]bool{"the pause was seen": false, "a restart during the pause": true} {
		t.Run(name, func(t *testing.T) {
			w := newWard(t, func(ep *grapnel.Endpoint) { ep.Policy.Disable.After = policy.Duration(120 * time.Hour) })
			ch := w.end(w.arrive(1)[0], 500)
			w.now = w.now.Add(time.Hour)
			w.reconfigure(func(ep *grapnel.Endpoint) { ep.Status, ep.UpdatedAt = grapnel.EndpointPaused, w.now })
			w.now = w.now.Add(200 * time.Hour)
			w.reconfigure(func(ep *grapnel.Endpoint) { ep.Description, ep.UpdatedAt = "edited", w.now })
			if restart {
				w.core = New(Options{})
				cfg := w.cfg
				w.step(Configured{Endpoint: &cfg, Standing: store.Standing{Endpoint: "ep", Number: 1, Standing: ch.Standing.Standing}})
			}
			w.now = w.now.Add(time.Hour)
			w.reconfigure(func(ep *grapnel.Endpoint) { ep.Status, ep.UpdatedAt = grapnel.EndpointEnabled, w.now })
			w.step(Loaded{Endpoint: "ep", Limit: 256})
			if st := w.end(w.arrive(1)[0], 500).Standing; st != nil && st.Sentence != "" {
				t.Errorf("disabled after an hour of failures and a week of pause: %s", st.Sentence)
			}
		})
	}
}
