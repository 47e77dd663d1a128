package core

import (
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
)

// Several nodes can share a store. Each endpoint is decided about by one of them, and that one may change: because nodes come and go, or
// because one was away for longer than it may be. The node that loses an endpoint starts nothing more of it, waits for what is under way,
// and forgets it; what it had in memory the next one reads from the store, as after a restart.

// errElsewhere is also for an order whose answer from the store was lost, and then refused as another node's: it may have been carried out.
var errElsewhere = grapnel.Errorf(grapnel.CodeUnavailable, "the endpoint is on its way to another node: look whether it was done, else try again")

// leave begins to forget an endpoint.
func (c *Core) leave(now time.Time, id string) {
	ep := c.endpoints[id]
	if ep == nil {
		c.emit(Left{Endpoint: id})
		return
	}
	ep.leave()
	c.refresh(now, ep)
}

// Leaving says whether an endpoint is being left.
func (c *Core) Leaving(id string) bool {
	ep := c.endpoints[id]
	return ep != nil && ep.leaving
}

// Has says whether the core knows of an endpoint.
func (c *Core) Has(id string) bool { return c.endpoints[id] != nil }

// fenced takes it in if the store has refused a write because the endpoint is another node's.
func (c *Core) fenced(ep *endpoint, refused bool) {
	if refused && !ep.leaving {
		ep.leave()
	}
}

func (ep *endpoint) leave() {
	ep.leaving = true
	ep.window.park()
}

// depart forgets an endpoint that is leaving once nothing of it is under way.
func (c *Core) depart(ep *endpoint) {
	if !ep.leaving || c.endpoints[ep.config.ID] != ep {
		return
	}
	if len(ep.window.heads) == 0 && !ep.window.loading && ep.recording == 0 && !ep.ending && !ep.hastening && !ep.confirming {
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
	delete(c.endpoints, ep.config.ID)
	if ep.leaving {
		c.emit(Left{Endpoint: ep.config.ID})
	}
}
