package sim

import (
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/proof/sim/history"
	"github.com/grapnelhq/grapnel/internal/store"
)

// heal ends all faults and opens every endpoint that was closed. From now on every delivery must
// finish.
func (w *world) heal() {
	w.trace("heal")
	w.healing = true
	w.wellAt = w.now().Add(time.Minute) // a node that is down now is tended to half a minute later
	for _, r := range w.endpoints {
		r.down, r.slow = false, false
	}
	w.tend()
}

// tend acts as a careful operator until the system is quiet: it enables endpoints, and skips
// deliveries that block their key.
func (w *world) tend() {
	if w.node != nil && !w.node.leaving {
		for _, r := range w.endpoints {
			if r.config.Status != grapnel.EndpointEnabled {
				r.act(history.Enable, enable)
			}
		}
		for _, d := range w.deliveries() {
			if d.Waiting.Blocked && !d.Status.Final() && w.node != nil {
				w.orderOf(&d, store.Skip, history.Skip)
			}
		}
	}
	w.agenda.in(30*time.Second, w.tend)
}

// settled says whether the run has ended.
func (w *world) settled() bool { return w.quiet() && w.node != nil && w.rerunsOver() }
