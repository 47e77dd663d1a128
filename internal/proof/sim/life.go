package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/store"
)

// start brings a node up.
func (c *cluster) start(s *slot) {
	limits := c.limits(4, 2)
	limits.Shared = true
	s.lives++
	m := &member{c: c, slot: s, id: fmt.Sprintf("%s.%d", s.name, s.lives), core: core.New(limits), held: map[int]*holding{},
		must: map[string]store.Standing{}, loads: map[string]bool{}, stale: map[string][]store.Head{}, leaves: map[string]bool{},
		looked: -1, troubled: -time.Hour, conf: c.configuration()}
	m.step = m.handle
	s.member = m
	c.trace("%s starts as %s", s.name, m.id)
	m.tick()
	m.fresh()
}

// handle gives the core an input and carries the effects out, as package engine does.
func (m *member) handle(in core.Input) {
	if m.closing {
		return
	}
	c := m.c
	c.steps++
	for _, effect := range m.core.Step(m.now(), in) {
		switch effect := effect.(type) {
		case core.Attempt:
			m.watch(effect)
			m.attempt(effect)
		case core.Record:
			m.queue = append(m.queue, *effect.Change)
			m.record()
		case core.Load:
			m.loads[effect.Endpoint] = true
			m.load(effect)
		case core.End:
			e, count := effect.Ending, 0
			e.Epoch = m.epoch(effect.Endpoint)
			m.call(1, func() (err error) {
				count, err = c.shards.end(context.Background(), effect.Endpoint, e, effect.Limit)
				return err
			}, func(err error) { m.step(core.Ended{Endpoint: effect.Endpoint, Count: count, Err: err}) })
		case core.MakeDue:
			h, count, limit := effect.MakingDue, 0, 1+c.rand.IntN(3)
			h.Epoch = m.epoch(effect.Endpoint)
			m.call(1, func() (err error) {
				count, err = c.shards.makeDue(context.Background(), effect.Endpoint, h, limit)
				return err
			}, func(err error) {
				if count > 0 {
					count = max(count, effect.Limit) // pages here are small, so there may be more
				}
				m.step(core.MadeDue{Endpoint: effect.Endpoint, Count: count, Err: err})
			})
		case core.Reply:
			if done := c.orders[effect.Token]; done != nil {
				delete(c.orders, effect.Token)
				done(effect.Err)
			}
		case core.Disable:
			m.disable(effect)
		case core.Left:
			m.left(effect.Endpoint)
		case core.Forget:
		}
	}
	m.sleep()
	m.depart()
}
