package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/proof/sim/history"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/store"
)

// member is one life of one of several nodes: a core and the modelled shell around it. Its steps go
// through later, so that a dead node does nothing, and a frozen node gets its input when it
// resumes.
type member struct {
	c    *cluster
	slot *slot
	id   string // another one for each life
	core *core.Core

	queue     []core.Change
	recording bool
	wakes     time.Time
	conf      store.Config
	calls     int // of the store, under way
	gone      bool
	draining  bool
	closing   bool          // the core takes no more inputs
	frozen    time.Duration // frozen until then
	troubled  time.Duration // when a fault last kept it from the store; below zero: never

	held          map[int]*holding
	nodes         []store.Node
	there         []store.Shard
	looked        time.Duration // below zero: not since something changed
	renewed       time.Duration
	round, rounds int // the round in progress, or 0; the number of rounds so far
	highest       []int64

	must   map[string]store.Standing // recorded standings of endpoints when they were taken over, until a newer one
	loads  map[string]bool           // endpoints whose page was read since they were taken over
	stale  map[string][]store.Head   // for ReadsTooEarly
	leaves map[string]bool           // endpoints that the core was told to leave
}

// holding is a shard that a node has.
type holding struct {
	epoch   int64
	until   time.Duration // by whichever of its own clocks is ahead: the wall clock, or the monotonic one, which stops with the machine
	slept   time.Duration // how long the machine had been suspended, in all, when that was found out
	leaving map[string]bool
	posts   []*post // in flight
	cut     bool
}

// start brings a node up.
func (c *cluster) start(s *slot) {
	limits := c.limits(4, 2)
	limits.Shared = true
	s.lives++
	m := &member{c: c, slot: s, id: fmt.Sprintf("%s.%d", s.name, s.lives), core: core.New(limits), held: map[int]*holding{},
		must: map[string]store.Standing{}, loads: map[string]bool{}, stale: map[string][]store.Head{}, leaves: map[string]bool{},
		looked: -1, troubled: -time.Hour, conf: c.configuration()}
	s.member = m
	c.trace("%s starts as %s", s.name, m.id)
	m.tick()
	m.fresh()
}

func (m *member) now() time.Time { return m.c.base.Add(m.c.agenda.now + m.slot.skew) }

// trouble notes that something keeps the node from the store until then.
func (m *member) trouble(until time.Duration) { m.troubled = max(m.troubled, until) }

// later plans something that runs only if this life still lasts, and after the node resumes if it
// is frozen.
func (m *member) later(d time.Duration, do func()) {
	m.c.agenda.in(d, func() { m.run(do) })
}

func (m *member) run(do func()) {
	switch left := m.frozen - m.c.agenda.now; {
	case m.gone:
	case left > 0:
		m.c.agenda.in(left+m.c.between(0, 20*time.Millisecond), func() { m.run(do) })
	default:
		do()
	}
}

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

// step gives the core an input and carries the effects out, as package engine does.
func (m *member) step(in core.Input) {
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
		case core.Hasten:
			h, count, limit := effect.Hastening, 0, 1+c.rand.IntN(3)
			h.Epoch = m.epoch(effect.Endpoint)
			m.call(1, func() (err error) {
				count, err = c.shards.hasten(context.Background(), effect.Endpoint, h, limit)
				return err
			}, func(err error) {
				if count > 0 {
					count = max(count, effect.Limit) // pages here are small, so there may be more
				}
				m.step(core.Hastened{Endpoint: effect.Endpoint, Count: count, Err: err})
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
			m.c.agenda.in(m.c.between(time.Millisecond, 5*time.Second), func() { m.c.start(m.slot) })
		})
	}
	end()
}
