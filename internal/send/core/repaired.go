package core

import (
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// begin starts a repair.
func (r *repair) begin() {
	r.on, r.allowed, r.want, r.flying = true, 1, 1, 0
}

// concluded notes the outcome of an attempt that was brought forward.
func (r *repair) concluded(h *head, delivered bool, most int) {
	if !h.forward {
		return
	}
	h.forward = false
	if delivered {
		delete(r.tried, h.Delivery)
	} else {
		r.on = false
	}
	if r.flying = max(r.flying-1, 0); r.on && r.flying == 0 {
		r.allowed = min(2*r.allowed, most)
		r.want = r.allowed
	}
}

// repaired says whether a success begins a repair. refusals are those in a row before it: other
// failures are the circuit's, and while the endpoint returns from an open one, MakeDue brings
// retries forward.
func (ep *endpoint) repaired(h *head, refusals int) bool {
	asked := h.Trigger == grapnel.TriggerManual && refusals > 0
	return !ep.gate.rules.Off && !ep.makeDue && !ep.makingDue && !ep.gate.ramp.Recovering() && (asked || refusals >= failuresInARow)
}

// seek has the heads read among which the next ones are brought forward.
func (c *Core) seek(now time.Time, ep *endpoint) {
	if r := &ep.repair; r.want > 0 && !ep.window.loading && ep.open() && !ep.gate.barred(now) && !c.draining {
		ep.window.chill(now)
	}
}

// forward brings heads of a page forward. It may be called for a page that was read before the
// repair began: whether a head may be attempted is known to the window, not to the page.
func (c *Core) forward(now time.Time, ep *endpoint, page []store.Head) {
	r, w := &ep.repair, &ep.window
	if !r.on || r.want == 0 {
		return
	}
	for i := range page {
		h := w.heads[page[i].Delivery]
		switch {
		case r.want == 0:
			return
		case w.touched[page[i].Delivery], h != nil && (h.phase != idle || h.misfires > 0), len(r.tried) >= c.bounds.Tried,
			!ep.mayCome(now, &page[i]), r.tried[page[i].Delivery]:
			continue
		case h == nil:
			c.seen.add(page[i].Delivery)
			w.reserve.remove(page[i].Delivery)
			h = &head{Head: page[i]}
			h.Endpoint = ep.config.ID
		default:
			w.unline(h)
		}
		if r.tried == nil {
			r.tried = map[int64]bool{}
		}
		r.tried[h.Delivery] = true
		h.due, h.forward = now, true
		r.want, r.flying = r.want-1, r.flying+1
		w.put(now, h)
	}
	r.want = 0
	r.on = r.flying > 0 // or no head is left
}

// mayCome says whether a head waits for a retry that is not its last.
func (ep *endpoint) mayCome(now time.Time, h *store.Head) bool {
	if h.Attempts == 0 || h.Blocked || !h.Due.After(now) || h.Endpoint != ep.config.ID || h.Trigger != grapnel.TriggerSchedule {
		return false
	}
	return len(ep.config.Policy.Plan(policy.Progress{Attempts: h.Attempts + 1, Anchor: h.Anchor}, time.Time{}, 1)) > 0
}
