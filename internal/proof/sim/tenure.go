package sim

import (
	"slices"
	"time"

	"github.com/grapnelhq/grapnel/internal/store"
)

// A node keeps its shards round by round, as package engine does.

// tick starts rounds of work on the shards at intervals.
func (m *member) tick() {
	if m.closing {
		return
	}
	if m.round == 0 {
		m.look()
	}
	m.later(m.c.lease/15, m.tick)
}

// look is one round of work on the shards, in the order of package engine.
func (m *member) look() {
	c := m.c
	m.rounds++
	round := m.rounds
	m.round = round
	patience := c.lease / 3
	for _, n := range m.numbers() {
		if h := m.held[n]; !h.cut {
			patience = min(patience, m.remains(h))
		}
	}
	m.later(max(patience, time.Millisecond), func() { m.endRound(round) })
	again := func() {
		m.renew(round, func() {
			m.beat(round, func() {
				m.giveUp(round, func() { m.take(round, func() { m.endRound(round) }) })
			})
		})
	}
	if c.is(RenewsUninformed) {
		again()
		return
	}
	m.catchUp(func(err error) {
		switch {
		case m.round != round:
		case err != nil:
			m.endRound(round)
		default:
			again()
		}
	})
}

func (m *member) renew(round int, then func()) {
	c := m.c
	asked := c.agenda.now
	owned := m.owned(nil)
	if asked-m.renewed < c.lease/3 || len(owned) == 0 {
		then()
		return
	}
	var kept []store.Owned
	m.turn(round, func() error {
		kept = c.shards.renew(m.id, owned)
		return nil
	}, func() {
		m.renewed = asked
		if c.chance(c.plan.cut / 4) {
			c.cutOff(m.slot)
		}
		from := asked
		if c.is(CountsFromTheAnswer) {
			from = c.agenda.now
		}
		for _, o := range owned {
			switch h := m.held[o.Shard]; {
			case h == nil || h.epoch != o.Epoch:
			case slices.Contains(kept, o):
				m.extend(h, from+c.lease-margin)
			default:
				m.extend(h, 0)
			}
		}
		then()
	})
}

// beat reads the live nodes and the shards' owners.
func (m *member) beat(round int, then func()) {
	c := m.c
	if !m.draining && m.looked >= 0 && c.agenda.now-m.looked < c.lease/8 {
		then()
		return
	}
	var nodes []store.Node
	var there []store.Shard
	m.turn(round, func() error {
		nodes = c.shards.beat(m.id, m.draining)
		return nil
	}, func() {
		m.turn(round, func() error {
			there = c.shards.list()
			return nil
		}, func() {
			m.nodes, m.there, m.looked = nodes, there, c.agenda.now
			then()
		})
	})
}
