package sim

import (
	"context"
	"hash/fnv"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/store"
)

// How shards go from node to node, as in package engine.

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

// giveUp leaves shards intended for other nodes, and releases those that are left.
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

// take acquires shards intended for this node that have no owner.
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

// glance reads the pending heads of an endpoint.
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
	var standings map[string]store.Standing
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
			m.turn(round, func() error {
				standings = c.standings()
				return nil
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
					if st, known := standings[ep.ID]; known {
						in.Standing = st
						m.must[ep.ID] = st
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
						c.excess("%s has taken over %s and does not read its heads", m.id, ep.ID)
					}
				}
				then()
			})
		})
	})
}

// expire leaves shards whose lease has expired.
func (m *member) expire() {
	if m.c.is(HasNoDeadline) {
		return
	}
	m.leave(m.owned(func(_ int, h *holding) bool { return h.leaving == nil && (h.cut || m.remains(h) <= 0) }))
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

// left notes that the core has left an endpoint, or that the store has told it to.
func (m *member) left(endpoint string) {
	switch h := m.held[m.c.shards.of(endpoint)]; {
	case h == nil:
	case h.leaving == nil:
		m.extend(h, 0)
	default:
		delete(h.leaving, endpoint)
	}
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
