package sim

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/proof/sim/history"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Operators' and publishers' calls to several nodes, each call to any of them, and the nodes'
// messages to each other.

// try makes one call at any node and repeats it at any other, with the same id, until it gets a
// success.
func (c *cluster) try(p *published, done func()) {
	call := history.Publish{ID: p.id, Key: p.key, Hash: "data of " + p.id, Invoke: c.agenda.now, Return: c.agenda.now}
	for _, t := range c.targets {
		if t.tenant == p.tenant {
			call.Perhaps = append(call.Perhaps, t.id)
		}
	}
	answered := false
	answer := func(result history.Result) {
		if answered {
			return
		}
		answered = true
		call.Result, call.Return = result, c.agenda.now
		c.history.Publishes = append(c.history.Publishes, call)
		if result == history.OK {
			done()
			return
		}
		c.agenda.in(c.between(50*time.Millisecond, 3*time.Second), func() { c.try(p, done) })
	}
	m := c.someone()
	if m == nil {
		answer(history.Failed)
		return
	}
	c.agenda.in(c.between(5*time.Second, 10*time.Second), func() { answer(history.Unknown) })
	m.later(c.between(0, 3*time.Millisecond), func() {
		if answered {
			return // the caller has disconnected
		}
		m.append(p, func(heads []store.Head, err error) {
			if err != nil {
				answer(history.Unknown)
				return
			}
			m.hint(heads)
			answer(history.OK)
		})
	})
}

// append commits an event for the endpoints that the node knows. If the store's configuration is
// newer, the endpoints are matched again.
func (m *member) append(p *published, done func([]store.Head, error)) {
	c := m.c
	var targets []store.Target
	var names []string
	for i := range m.conf.Endpoints {
		if ep := &m.conf.Endpoints[i]; ep.DeletedAt.IsZero() && ep.Tenant == p.tenant {
			targets = append(targets, target(ep))
			names = append(names, ep.ID)
		}
	}
	batch := store.Batch{Config: m.conf.Version, Events: []store.Incoming{{Event: p.event(m.now()), Targets: targets}}}
	var accepted store.Accepted
	m.call(1, func() (err error) {
		accepted, err = c.model.Append(context.Background(), batch)
		if err == nil && !accepted.Events[0].Duplicate {
			c.committed[p.id] = names
			for int64(len(c.events)) < accepted.Events[0].Seq {
				c.events = append(c.events, nil)
			}
			c.events[accepted.Events[0].Seq-1] = p
			_, made, _ := c.model.Event(context.Background(), store.Everyone(), p.tenant, p.id)
			for _, d := range made {
				c.note(d.Seq) // a limit may drop it at once
			}
		}
		return err
	}, func(err error) {
		if errors.Is(err, store.ErrStale) {
			m.catchUp(func(err error) {
				if err != nil {
					done(nil, err)
				} else {
					m.append(p, done)
				}
			})
			return
		}
		done(accepted.Heads, err)
	})
}

// hint reports new heads to the core here, and to the nodes believed to own their endpoints. A hint
// may be lost, late or doubled. It may reach a node that no longer owns the endpoint, or not yet.
func (m *member) hint(heads []store.Head) {
	c := m.c
	for _, h := range heads {
		to := m
		if !m.has(h.Endpoint) {
			to = m.owner(h.Endpoint)
		}
		times := 1
		if c.chance(c.plan.hintDouble) {
			times = 3
		}
		for range times {
			if by := to; by != nil && !c.chance(c.plan.hintLost) && (by == m || !by.slot.deaf && !m.slot.deaf) {
				late := c.between(0, 5*time.Millisecond)
				if c.chance(c.plan.hintLate) {
					late = c.between(0, 40*time.Second)
				}
				by.later(late, func() { by.step(core.Arrived{Heads: []store.Head{h}}) })
			}
			to = c.anywhere().member
		}
	}
}

// owner is the believed owner of an endpoint; nil: it cannot be reached.
func (m *member) owner(endpoint string) *member {
	n := m.c.shards.of(endpoint)
	if n >= len(m.there) {
		return nil
	}
	return m.peer(m.there[n].Owner)
}

// peer is the live node with an id.
func (m *member) peer(id string) *member {
	for _, s := range m.c.slots {
		if s.member != nil && s.member.id == id && s.member != m {
			return s.member
		}
	}
	return nil
}

// operate carries out a random operator's action at any node.
func (c *cluster) operate() {
	m, t := c.someone(), c.anyone()
	if m == nil {
		return
	}
	switch c.rand.IntN(8) {
	case 0, 1:
		switch status := m.endpoint(t.id).Status; {
		case status != grapnel.EndpointEnabled:
			m.act(t.id, history.Enable, enable)
		case c.rand.IntN(2) == 0:
			m.act(t.id, history.Pause, pause)
		default:
			m.act(t.id, history.Disable, disable)
		}
	case 2:
		if c.rand.IntN(4) == 0 {
			m.act(t.id, history.Delete, func(ep *grapnel.Endpoint) { ep.DeletedAt = m.now() })
		}
	default:
		all, err := c.model.DeliveryList(context.Background(), store.Everyone(), store.DeliveryQuery{Limit: 30})
		if err != nil || len(all) == 0 {
			return
		}
		switch d := &all[c.rand.IntN(len(all))]; {
		case c.rand.IntN(3) == 0:
			m.skip(d)
		case d.Status.Final():
			m.again(d)
		default:
			m.order(d, store.RetryNow, history.Retry)
		}
	}
}

// act changes an endpoint on an operator's order.
func (m *member) act(id string, kind history.Kind, change func(*grapnel.Endpoint)) {
	m.later(m.c.between(0, 3*time.Millisecond), func() {
		m.change(id, kind, func(ep *grapnel.Endpoint) bool {
			change(ep)
			return true
		}, func(error) {})
	})
}

// change stores a change of an endpoint, applies it here, and is done once every node has it.
func (m *member) change(id string, kind history.Kind, do func(*grapnel.Endpoint) bool, done func(error)) {
	c, at := m.c, -1
	asked := c.agenda.now
	m.call(1, func() error {
		conf := c.configuration()
		ep := conf.Endpoints[slices.IndexFunc(conf.Endpoints, func(ep grapnel.Endpoint) bool { return ep.ID == id })]
		if !ep.DeletedAt.IsZero() || !do(&ep) {
			return nil
		}
		ep.UpdatedAt = m.now()
		if _, err := c.model.PutEndpoint(context.Background(), store.Everyone(), ep, store.With{}); err != nil {
			panic(err)
		}
		c.trace("%s %s at %s", kind, id, m.id)
		at = len(c.history.Actions)
		c.history.Actions = append(c.history.Actions, history.Action{Kind: kind, Endpoint: id, Invoke: asked, Result: history.Unknown})
		return nil
	}, func(err error) {
		if err != nil {
			done(err)
			return
		}
		m.catchUp(func(err error) {
			if err != nil {
				done(err)
				return
			}
			confirmed := func() {
				if at >= 0 {
					c.history.Actions[at].Return, c.history.Actions[at].Result = c.agenda.now, history.OK
				}
				done(nil)
			}
			if c.is(AnswersUnconfirmed) {
				confirmed()
				return
			}
			m.confirm(c.agenda.now+c.lease, map[string]bool{m.id: true}, confirmed)
		})
	})
}

// confirm continues once every node has a change, or holds no lease that began before it.
func (m *member) confirm(until time.Duration, knows map[string]bool, done func()) {
	c := m.c
	if c.agenda.now >= until || m.closing {
		if !m.closing {
			done()
		}
		return
	}
	for _, n := range m.nodes {
		if knows[n.ID] || c.chance(c.plan.peer) {
			continue
		}
		if to := m.peer(n.ID); to != nil && !to.slot.deaf && !m.slot.deaf {
			to.later(c.between(0, 3*time.Millisecond), func() {
				to.catchUp(func(err error) {
					if err == nil && !c.chance(c.plan.peer) {
						m.later(c.between(0, 3*time.Millisecond), func() { knows[n.ID] = true })
					}
				})
			})
		}
	}
	m.later(c.lease/30, func() {
		var there []store.Shard
		m.call(0.2, func() error {
			there = c.shards.list()
			return nil
		}, func(err error) {
			if err == nil && !slices.ContainsFunc(there, func(is store.Shard) bool { return is.Owner != "" && is.Left > 0 && !knows[is.Owner] }) {
				done()
				return
			}
			m.confirm(until, knows, done)
		})
	})
}

// skip ends a delivery on an operator's order.
func (m *member) skip(d *grapnel.Delivery) {
	if !d.Status.Final() {
		m.order(d, store.Skip, history.Skip)
	}
}

// order passes an order to the node that owns the endpoint, which carries it out.
func (m *member) order(d *grapnel.Delivery, verb store.Verb, kind history.Kind) {
	c := m.c
	at := len(c.history.Actions)
	c.history.Actions = append(c.history.Actions, history.Action{Kind: kind, Endpoint: d.EndpointID, Delivery: d.PlainID(),
		Invoke: c.agenda.now, Result: history.Unknown})
	answer := func(by *member, err error) {
		by.later(c.between(0, 3*time.Millisecond), func() {
			m.later(c.between(0, 3*time.Millisecond), func() {
				if c.chance(c.plan.peer) && by != m {
					return // the answer is lost
				}
				c.trace("%s %s: %v", verb, d.PlainID(), err)
				if grapnel.CodeOf(err) == grapnel.CodeUnavailable {
					return // the owner changed meanwhile: a commit whose answer was lost may have done it
				}
				a := &c.history.Actions[at]
				a.Return, a.Result = c.agenda.now, history.OK
				if err != nil {
					a.Result = history.Failed
				}
			})
		})
	}
	by := m
	if to := m.owner(d.EndpointID); !m.has(d.EndpointID) && to != nil {
		by = to
		if to.slot.deaf || m.slot.deaf {
			return
		}
	}
	by.later(c.between(0, 3*time.Millisecond), func() {
		if !by.has(d.EndpointID) || by.closing {
			answer(by, store.ErrFenced)
			return
		}
		c.token++
		c.orders[c.token] = func(err error) { answer(by, err) }
		by.step(core.Operated{Order: store.Order{Token: c.token, Verb: verb, Endpoint: d.EndpointID, Delivery: d.Seq, Event: d.EventSeq, Created: d.CreatedAt,
			Reason: "ordered by the simulation"}})
	})
}

// again creates a new delivery of a finished one.
func (m *member) again(d *grapnel.Delivery) {
	c, ep := m.c, m.endpoint(d.EndpointID)
	if !ep.DeletedAt.IsZero() || ep.DropReason() != "" {
		return
	}
	at := len(c.history.Actions)
	c.history.Actions = append(c.history.Actions, history.Action{Kind: history.Retry, Endpoint: d.EndpointID, Delivery: d.PlainID(),
		Invoke: c.agenda.now, Result: history.Unknown})
	var made store.Redelivered
	m.call(1, func() (err error) {
		made, err = c.model.Again(context.Background(), store.Everyone(), store.Redelivery{Of: d.Seq, Trigger: grapnel.TriggerManual,
			Ordered: ep.Ordered(), At: m.now()})
		return err
	}, func(err error) {
		if err != nil {
			return
		}
		a := &c.history.Actions[at]
		a.Made, a.Result, a.Return = grapnel.PlainDeliveryID(made.CreatedAt, made.Delivery), history.OK, c.agenda.now
		if made.Head != nil {
			m.hint([]store.Head{*made.Head})
		}
	})
}

func (c *cluster) anywhere() *slot { return c.slots[c.rand.IntN(len(c.slots))] }

// someone is a random node that takes calls; nil: none does.
func (c *cluster) someone() *member {
	if s := c.anywhere(); s.member != nil && !s.member.draining && !s.deaf {
		return s.member
	}
	return nil
}

// disable stores the core's own decision. The core gets the answer when every node has the change.
func (m *member) disable(d core.Disable) {
	done := func(err error) { m.step(core.Disabled{Endpoint: d.Endpoint, Err: err}) }
	m.change(d.Endpoint, history.Disable, func(ep *grapnel.Endpoint) bool {
		if ep.Status == grapnel.EndpointDisabled {
			return false
		}
		ep.Status, ep.DisabledReason, ep.DisabledAt, ep.DisabledByAnswer = grapnel.EndpointDisabled, d.Reason, m.now(), d.ByAnswer
		return true
	}, done)
}
