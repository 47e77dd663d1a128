package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/proof/sim/history"
	"github.com/grapnelhq/grapnel/internal/store"
)

// A node keeps its shards round by round, as package engine does.

// margin is how long before its lease ends a node treats it as expired.
const margin = time.Second

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

// turn makes one call of a round. If the call fails, or the round has taken too long, the round
// ends.
func (m *member) turn(round int, do func() error, then func()) {
	m.call(0.2, do, func(err error) {
		switch {
		case m.round != round:
		case err != nil:
			m.endRound(round)
		default:
			then()
		}
	})
}

func (m *member) endRound(round int) {
	if m.round == round {
		m.round = 0
		m.expire()
	}
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

// extend sets until when a shard is held, and plans the check of that deadline.
func (m *member) extend(h *holding, until time.Duration) {
	h.until, h.slept = until, m.slot.slept
	m.later(until-m.c.agenda.now+m.c.between(0, margin/10), m.guard)
}

// remains is how long a node may still use a shard. Its monotonic clock has missed the time for
// which the machine was suspended, so the wall clock counts as well.
func (m *member) remains(h *holding) time.Duration {
	left := h.until - m.c.agenda.now
	if m.c.is(ForgetsSuspension) {
		left += m.slot.slept - h.slept
	}
	return left
}

// guard cancels attempts in shards whose lease has expired. An expiry must have a fault as its
// cause, and another node may repeat the attempts.
func (m *member) guard() {
	c := m.c
	var lost []int
	since := c.agenda.now - c.lease
	for _, n := range m.numbers() {
		h := m.held[n]
		if h.cut || m.remains(h) > 0 {
			continue
		}
		if h.leaving == nil || len(h.leaving) > 0 {
			lost = append(lost, n)
			if h.until > 0 {
				since = min(since, h.until+margin-c.lease) // last renewal: the node may have been frozen since
			}
		}
		if h.cut = true; !c.is(HasNoDeadline) {
			m.sever(h)
		}
	}
	if len(lost) == 0 {
		return
	}
	c.trace("%s has lost shards %v", m.id, lost)
	if c.agenda.now-m.troubled > c.lease+3*time.Second {
		c.excess("%s has lost shards although nothing has kept it from the store since %v", m.id, m.troubled)
	}
	if m.slot.cutAt > 0 && c.agenda.now < m.slot.cutEnd+c.lease {
		since = min(since, m.slot.cutAt)
	}
	c.history.Faults = append(c.history.Faults, history.Fault{Kind: history.Takeover, Node: m.slot.name, Start: since, End: c.agenda.now})
}

// sever cancels the attempts in flight in a shard.
func (m *member) sever(h *holding) {
	for _, p := range slices.Clone(h.posts) {
		m.later(m.c.between(0, 5*time.Millisecond), func() { m.c.target(p.attempt.Config.ID).abandon(p, internal) })
	}
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

func (m *member) numbers() []int { return slices.Sorted(maps.Keys(m.held)) }

func (m *member) owned(kind func(int, *holding) bool) (all []store.Owned) {
	for _, n := range m.numbers() {
		if h := m.held[n]; kind == nil || kind(n, h) {
			all = append(all, store.Owned{Shard: n, Epoch: h.epoch})
		}
	}
	return all
}

func (m *member) has(endpoint string) bool {
	h := m.held[m.c.shards.of(endpoint)]
	return h != nil && h.leaving == nil
}

// epoch is the epoch for writes about an endpoint.
func (m *member) epoch(endpoint string) int64 {
	if h := m.held[m.c.shards.of(endpoint)]; h != nil {
		return h.epoch
	}
	return -1
}

func (m *member) endpoint(id string) *grapnel.Endpoint {
	return &m.conf.Endpoints[slices.IndexFunc(m.conf.Endpoints, func(ep grapnel.Endpoint) bool { return ep.ID == id })]
}
