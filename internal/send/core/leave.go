package core

import (
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
)

// Several nodes can share a store. One node owns each endpoint, and the owner changes when nodes
// start or stop, or when a node was unreachable for longer than its lease. The node that loses an
// endpoint starts nothing more of it, waits for requests and changes in flight, and forgets it. The
// new owner reads the state from the store, as after a restart.

// errElsewhere also answers an order whose first answer from the store was lost and whose
// repetition was refused because another node owns the endpoint: the order may have been carried
// out.
var errElsewhere = grapnel.Errorf(grapnel.CodeUnavailable,
	"the endpoint is moving to another node: check whether the order took effect, else retry")

// Leaving says whether an endpoint is being left.
func (c *Core) Leaving(id string) bool {
	ep := c.endpoints[id]
	return ep != nil && ep.leaving
}

// Has says whether the core has an endpoint.
func (c *Core) Has(id string) bool { return c.endpoints[id] != nil }

// fenced starts leaving the endpoint if the store refused a write because another node owns it.
func (c *Core) fenced(ep *endpoint, refused bool) {
	if refused && !ep.leaving {
		ep.leave()
	}
}

func (ep *endpoint) leave() {
	ep.leaving = true
	ep.window.park()
}

// depart forgets an endpoint that is leaving once nothing of it is in flight.
func (c *Core) depart(ep *endpoint) {
	if !ep.leaving || c.endpoints[ep.config.ID] != ep {
		return
	}
	if len(ep.window.heads) == 0 && !ep.window.loading && ep.recording == 0 && !ep.ending && !ep.makingDue && !ep.confirming {
		c.remove(ep)
	}
}

// remove forgets an endpoint.
func (c *Core) remove(ep *endpoint) {
	c.fair.remove(ep)
	c.alarms.set(ep, time.Time{})
	if t := ep.tenant; ep.newcomer {
		ep.newcomer = false
		t.newcomers = slices.DeleteFunc(t.newcomers, func(one *endpoint) bool { return one == ep })
		if len(t.newcomers) == 0 {
			c.newcomers = slices.DeleteFunc(c.newcomers, func(one *tenant) bool { return one == t })
		}
	}
	c.quotas.leave(ep)
	ep.window.reserve.clear()
	delete(c.endpoints, ep.config.ID)
	if ep.leaving {
		c.emit(Left{Endpoint: ep.config.ID})
	}
}
