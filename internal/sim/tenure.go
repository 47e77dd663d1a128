package sim

import (
	"context"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/core"
	"github.com/grapnelhq/grapnel/internal/sim/history"
	"github.com/grapnelhq/grapnel/internal/store"
)

// How a node takes, keeps and gives up shards, as package engine does it.

// margin is how long before the end of its lease a node takes it to be over.
const margin = time.Second

// tick looks after the shards now and then.
func (m *member) tick() {
	if m.closing {
		return
	}
	if m.round == 0 {
		m.look()
	}
	m.later(m.c.lease/15, m.tick)
}

// turn makes one call of a round: if it fails, or the round has taken too long, the round is over.
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

// look is a round: what there is to do about the shards, in the order of package engine.
func (m *member) look() {
	c := m.c
	m.rounds++
	round := m.rounds
	m.round = round
	patience := c.lease / 3
	for _, n := range m.numbers() {
		if h := m.held[n]; !h.cut {
			patience = min(patience, h.until-c.agenda.now)
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

// extend notes until when a shard is held, and has that watched.
func (m *member) extend(h *holding, until time.Duration) {
	h.until = until
	m.later(until-m.c.agenda.now+m.c.between(0, margin/10), m.guard)
}

// guard cancels attempts in shards whose lease is over. That must have a cause, and may make somebody else repeat them.
func (m *member) guard() {
	c := m.c
	var lost []int
	since := c.agenda.now - c.lease
	for _, n := range m.numbers() {
		h := m.held[n]
		if h.cut || c.agenda.now < h.until {
			continue
		}
		if h.leaving == nil || len(h.leaving) > 0 {
			lost = append(lost, n)
			if h.until > 0 {
				since = min(since, h.until+margin-c.lease) // when it was renewed last: it may have stood still meanwhile
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

// sever cancels what is in flight in a shard.
func (m *member) sever(h *holding) {
	for _, p := range slices.Clone(h.posts) {
		m.later(m.c.between(0, 5*time.Millisecond), func() { m.c.target(p.attempt.Config.ID).abandon(p, internal) })
	}
}

// beat finds out who is there, and who has what.
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

// favourite is the node that is to have a shard.
func favourite(nodes []store.Node, shard int) string {
	best, highest := "", uint64(0)
	for _, n := range nodes {
		if n.Draining {
			continue
		}
		sum := fnv.New64a()
		_, _ = sum.Write([]byte(n.ID))
		_, _ = sum.Write([]byte{byte(shard), 0xa5, byte(shard * 37)})
		if h := sum.Sum64() * 0x9e37_79b9_7f4a_7c15; best == "" || h > highest {
			best, highest = n.ID, h
		}
	}
	return best
}

// giveUp leaves what another is to have, and gives back what has been left.
func (m *member) giveUp(round int, then func()) {
	c := m.c
	m.leave(m.owned(func(n int, h *holding) bool {
		other := favourite(m.nodes, n)
		return h.leaving == nil && other != "" && other != m.id
	}))
	gone := m.owned(func(_ int, h *holding) bool {
		return h.leaving != nil && (len(h.leaving) == 0 || c.is(GivesBackAtOnce))
	})
	if len(gone) == 0 {
		then()
		return
	}
	m.call(0.2, func() error {
		c.shards.release(m.id, gone)
		return nil
	}, func(err error) {
		if m.round != round {
			return
		}
		if err == nil {
			m.forget(gone)
		}
		then()
	})
}

func (m *member) forget(gone []store.Owned) {
	for _, o := range gone {
		if h := m.held[o.Shard]; h != nil && h.epoch == o.Epoch {
			m.sever(h)
			delete(m.held, o.Shard)
		}
	}
	m.looked = -1
}

// take takes what is to be this node's and is free.
func (m *member) take(round int, then func()) {
	c := m.c
	var free []int
	var lost []store.Owned
	for _, is := range m.there {
		switch {
		case m.held[is.Number] != nil:
		case is.Owner == m.id:
			lost = append(lost, store.Owned{Shard: is.Number, Epoch: is.Epoch}) // it was given, and the answer was lost
		case (is.Owner == "" || is.Left <= 0) && favourite(m.nodes, is.Number) == m.id:
			free = append(free, is.Number)
		}
	}
	if len(lost) > 0 {
		m.looked = -1
		m.turn(round, func() error {
			c.shards.release(m.id, lost)
			return nil
		}, then)
		return
	}
	if len(free) == 0 {
		then()
		return
	}
	m.looked = -1
	asked := c.agenda.now
	var got []store.Owned
	early := map[string][]store.Head{}
	m.turn(round, func() error {
		for _, t := range c.targets {
			if c.is(ReadsTooEarly) && slices.Contains(free, c.shards.of(t.id)) {
				early[t.id] = m.glance(t.id)
			}
		}
		got = c.shards.acquire(m.id, free)
		return nil
	}, func() {
		if len(got) == 0 {
			then()
			return
		}
		m.begin(round, got, asked, early, then)
	})
}

// glance reads what is pending of an endpoint.
func (m *member) glance(id string) []store.Head {
	heads, err := m.c.model.Heads(context.Background(), id, 100)
	if err != nil {
		panic(err)
	}
	return heads
}

// begin tells the core of endpoints that are this node's from now on.
func (m *member) begin(round int, got []store.Owned, asked time.Duration, early map[string][]store.Head, then func()) {
	c, ctx := m.c, context.Background()
	var newest int64
	var all []store.Standing
	m.catchUp(func(err error) {
		if m.round != round {
			return
		}
		if err != nil {
			m.endRound(round)
			return
		}
		m.turn(round, func() (err error) {
			_, newest, err = c.model.Version(ctx)
			return err
		}, func() {
			m.turn(round, func() (err error) {
				all, err = c.model.Standings(ctx)
				return err
			}, func() {
				from := asked
				if c.is(CountsFromTheAnswer) {
					from = c.agenda.now
				}
				for _, o := range got {
					h := &holding{epoch: o.Epoch}
					m.held[o.Shard] = h
					m.extend(h, from+c.lease-margin)
				}
				for i := range m.conf.Endpoints {
					ep := &m.conf.Endpoints[i]
					if !slices.ContainsFunc(got, func(o store.Owned) bool { return o.Shard == c.shards.of(ep.ID) }) {
						continue
					}
					in := core.Configured{Endpoint: ep, Newest: newest}
					if at := slices.IndexFunc(all, func(s store.Standing) bool { return s.Endpoint == ep.ID }); at >= 0 {
						in.Standing = all[at]
						m.must[ep.ID] = all[at]
					}
					switch {
					case c.is(ForgetsStandings):
						in.Standing = store.Standing{}
					case c.is(ForgetsNewest):
						in.Newest = 0
					case c.is(ReadsTooEarly):
						m.stale[ep.ID] = early[ep.ID]
					}
					delete(m.loads, ep.ID)
					delete(m.leaves, ep.ID)
					m.step(in)
					if m.endpoint(ep.ID).Status == grapnel.EndpointEnabled && ep.DeletedAt.IsZero() && in.Standing.SentencedAt.IsZero() &&
						!m.loads[ep.ID] && !m.draining {
						c.excess("%s has taken over %s and does not read what waits", m.id, ep.ID)
					}
				}
				then()
			})
		})
	})
}

// expire leaves shards whose lease is over.
func (m *member) expire() {
	if m.c.is(HasNoDeadline) {
		return
	}
	m.leave(m.owned(func(_ int, h *holding) bool { return h.leaving == nil && (h.cut || m.c.agenda.now >= h.until) }))
}

// leave begins to give shards up.
func (m *member) leave(these []store.Owned) {
	var endpoints []string
	for _, o := range these {
		h := m.held[o.Shard]
		h.leaving = map[string]bool{}
		for i := range m.conf.Endpoints {
			if id := m.conf.Endpoints[i].ID; m.c.shards.of(id) == o.Shard {
				h.leaving[id] = true
				endpoints = append(endpoints, id)
			}
		}
	}
	for _, id := range endpoints {
		m.leaves[id] = true
		delete(m.must, id)
		m.step(core.Leave{Endpoint: id})
	}
}

// left takes note that the core has left an endpoint, or that the store has told it to.
func (m *member) left(endpoint string) {
	switch h := m.held[m.c.shards.of(endpoint)]; {
	case h == nil:
	case h.leaving == nil:
		m.extend(h, 0)
	default:
		delete(h.leaving, endpoint)
	}
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

// epoch is what to write with what was decided about an endpoint.
func (m *member) epoch(endpoint string) int64 {
	if h := m.held[m.c.shards.of(endpoint)]; h != nil {
		return h.epoch
	}
	return -1
}

func (m *member) endpoint(id string) *grapnel.Endpoint {
	return &m.conf.Endpoints[slices.IndexFunc(m.conf.Endpoints, func(ep grapnel.Endpoint) bool { return ep.ID == id })]
}

// catchUp takes the configuration in if it has changed.
func (m *member) catchUp(done func(error)) {
	conf, known := store.Config{}, m.conf.Version
	m.call(0.2, func() error {
		version, _, err := m.c.model.Version(context.Background())
		if err == nil && version > known {
			conf = m.c.configuration()
		}
		return err
	}, func(err error) {
		if err == nil {
			m.know(conf)
		}
		done(err)
	})
}

// know takes a configuration in, if it is newer.
func (m *member) know(conf store.Config) {
	if conf.Version <= m.conf.Version {
		return
	}
	before := m.conf
	m.conf = conf
	for i := range conf.Endpoints {
		if ep := &conf.Endpoints[i]; ep.Revision != before.Endpoints[i].Revision {
			delete(m.must, ep.ID)
			if m.has(ep.ID) {
				m.step(core.Configured{Endpoint: ep, Newest: conf.Newest})
			}
		}
	}
}
