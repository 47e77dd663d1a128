package sim

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/proof/sim/history"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/store"
)

// slowAsk and slowAnswer are how long it takes at most until a call of the store has its effect,
// and from then until its caller knows.
const slowAsk, slowAnswer = 2 * time.Second, 5 * time.Second

// call is one call of the store: it may fail, with or without its effect, take its time, or find
// the store unreachable. A call that was sent is executed even if the caller dies meanwhile.
func (m *member) call(risk float64, do func() error, done func(error)) {
	c := m.c
	m.calls++
	m.later(c.between(0, time.Millisecond), func() {
		answer := func(d time.Duration, err error) {
			m.later(d, func() {
				m.calls--
				done(err)
				m.depart()
			})
		}
		if m.slot.cut {
			m.trouble(c.agenda.now)
			answer(c.between(500*time.Millisecond, 3*time.Second), errCommit)
			return
		}
		before, after := c.between(0, 2*time.Millisecond), c.between(0, 2*time.Millisecond)
		if c.chance(c.plan.slow) {
			before = c.between(0, slowAsk)
			m.trouble(c.agenda.now + before)
		}
		if c.chance(c.plan.slow) {
			after = c.between(0, slowAnswer)
			m.trouble(c.agenda.now + before + after)
		}
		fails, unknown := c.chance(c.plan.storeError*risk), c.chance(c.plan.storeUnknown*risk)
		if fails || unknown {
			m.trouble(c.agenda.now)
		}
		c.agenda.in(before, func() {
			if fails {
				answer(after, errCommit)
				return
			}
			err := do()
			if unknown && err == nil {
				err = errCommit
			}
			if m.slot.cut {
				err, after = errCommit, c.between(500*time.Millisecond, 3*time.Second)
				m.trouble(c.agenda.now)
			}
			answer(after, err)
		})
	})
}

// watch compares an attempt that the core starts with the recorded state.
func (m *member) watch(a core.Attempt) {
	id := a.Config.ID
	if m.leaves[id] {
		m.c.excess("%s attempts %s, which it is leaving", m.id, id)
	}
	st, known := m.must[id]
	asked := a.Head.Trigger == grapnel.TriggerManual || a.Head.Trigger == grapnel.TriggerTest || a.Head.Trigger == grapnel.TriggerProbe
	if !known || asked {
		return
	}
	if st.Open() && a.Trigger != grapnel.TriggerProbe {
		m.c.excess("%s attempts %s although its breaker was open when it was taken over", m.id, id)
	}
	if st.HoldUntil.After(m.now()) {
		m.c.excess("%s attempts %s although it asked to be spared until %v before it was taken over", m.id, id, st.HoldUntil.Sub(m.c.base))
	}
}

// sleep plans the next tick.
func (m *member) sleep() {
	at := m.core.Wake()
	if at.IsZero() || !m.wakes.IsZero() && !at.Before(m.wakes) && m.wakes.After(m.now()) {
		return
	}
	m.wakes = at
	m.later(min(at.Sub(m.now()), 10*time.Second), func() {
		m.wakes = time.Time{}
		m.step(core.Tick{})
	})
}

// record commits the queued changes, one page at a time. It carries the shards' epochs as held when
// it is sent.
func (m *member) record() {
	if m.recording || len(m.queue) == 0 {
		return
	}
	c := m.c
	m.recording = true
	m.later(c.between(0, 2*time.Millisecond), func() {
		page := m.queue[:min(len(m.queue), 1+c.rand.IntN(8))]
		m.queue = m.queue[len(page):]
		changes, endpoints := make([]store.Change, len(page)), make([]string, len(page))
		for i := range page {
			changes[i], endpoints[i] = page[i].Change, page[i].Endpoint
			changes[i].Epoch = m.epoch(page[i].Endpoint)
		}
		var results []store.Changed
		m.call(1, func() (err error) {
			results, err = c.shards.record(context.Background(), endpoints, changes)
			return err
		}, func(err error) {
			c.trace("%s records %d changes: %v", m.id, len(page), err)
			answer, wait := core.Recorded{Changes: page, Results: results}, time.Duration(0)
			if err != nil {
				answer, wait = core.Recorded{Changes: page, Err: err}, 100*time.Millisecond
			}
			m.later(wait, func() {
				m.recording = false
				m.step(answer)
				m.record()
			})
		})
	})
}

// load reads a page now and delivers it later: by then it may be outdated.
func (m *member) load(l core.Load) {
	c := m.c
	var heads []store.Head
	m.call(1, func() (err error) {
		heads, err = c.model.Heads(context.Background(), l.Endpoint, l.Limit)
		return err
	}, func(err error) {
		if old, there := m.stale[l.Endpoint]; there && err == nil {
			heads = old
			delete(m.stale, l.Endpoint)
		}
		late := time.Duration(0)
		if c.chance(c.plan.loadLate) {
			late = c.between(0, 5*time.Second)
		}
		m.later(late, func() { m.step(core.Loaded{Endpoint: l.Endpoint, Heads: heads, Limit: l.Limit, Err: err}) })
	})
}

// drain stops the node: it gives up all shards, finishes requests in flight, and ends.
func (m *member) drain() {
	m.run(func() {
		m.draining = true
		m.step(core.Drain{})
	})
}

// depart ends a node that is done: its core gets no more input, calls are waited for, and held
// shards are released.
func (m *member) depart() {
	if running, recording := m.core.Busy(); m.gone || !m.draining || m.closing || running+recording > 0 {
		return
	}
	m.closing = true
	var end func()
	end = func() {
		if m.calls > 0 {
			m.later(50*time.Millisecond, end)
			return
		}
		owned := m.owned(nil)
		m.call(0.2, func() error {
			m.c.shards.release(m.id, owned)
			m.c.shards.leave(m.id)
			return nil
		}, func(error) { // other nodes can take the shards once their leases have expired
			m.c.trace("%s has stopped", m.id)
			m.c.gone(m.slot)
			m.c.agenda.in(m.c.between(time.Millisecond, 5*time.Second), func() { m.c.restart(m.slot) })
		})
	}
	end()
}

// cutOff keeps a node from the store. It has to stop by its own clock.
func (c *cluster) cutOff(s *slot) {
	if s.cut {
		return
	}
	d := c.between(10*time.Millisecond, 3*c.lease)
	if s.cut = true; s.cutEnd == 0 || c.agenda.now > s.cutEnd+5*time.Second {
		s.cutAt = c.agenda.now // else changes that could not be recorded the last time may still not be
	}
	s.cutEnd = c.agenda.now + d
	c.trace("%s cannot reach the store for %v", s.name, d)
	if s.member != nil {
		s.member.trouble(c.agenda.now)
	}
	c.agenda.in(d, func() {
		s.cut = false
		if s.member != nil {
			s.member.trouble(c.agenda.now)
		}
	})
}

// extend sets until when a shard is held, and plans the check of that deadline.
func (m *member) extend(h *holding, until time.Duration) {
	h.until, h.slept = until, m.slot.slept
	m.later(until-m.c.agenda.now+m.c.between(0, margin/10), m.guard)
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

func (m *member) numbers() []int { return slices.Sorted(maps.Keys(m.held)) }

func (m *member) owned(kind func(int, *holding) bool) (all []store.Owned) {
	for _, n := range m.numbers() {
		if h := m.held[n]; kind == nil || kind(n, h) {
			all = append(all, store.Owned{Shard: n, Epoch: h.epoch})
		}
	}
	return all
}
