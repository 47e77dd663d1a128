package sim

import (
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/proof/sim/history"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/policy"
)

// The requests of several nodes and their receivers. If a sender dies or gives up, its receiver
// sees the connection end. If a sender is frozen, it does not.

func (c *cluster) target(id string) *receiving {
	return c.targets[slices.IndexFunc(c.targets, func(t *receiving) bool { return t.id == id })]
}

// attempt checks once more whether the attempt may be sent, and sends it. The node may freeze
// between the check and the request.
func (m *member) attempt(a core.Attempt) {
	c := m.c
	spare := func() { m.finish(a, internal, m.now()) }
	m.later(c.between(0, time.Millisecond), func() {
		h := m.held[c.shards.of(a.Config.ID)]
		ep := m.endpoint(a.Config.ID)
		tardy := h != nil && (h.cut || m.remains(h) <= 0) && !c.is(HasNoDeadline)
		if ep.Status != grapnel.EndpointEnabled || !ep.DeletedAt.IsZero() || h == nil || h.leaving != nil || tardy {
			spare()
			return
		}
		p := &post{from: m, held: h, attempt: a}
		h.posts = append(h.posts, p)
		if c.chance(c.plan.pause / 4) {
			c.pause(m.slot)
		}
		m.later(c.between(0, time.Millisecond), func() {
			if p.over {
				return
			}
			p.started = m.now()
			t := c.target(a.Config.ID)
			c.agenda.in(c.between(0, 20*time.Millisecond), func() { t.arrive(p) })
			m.later(5*time.Second, func() { t.abandon(p, policy.Outcome{Class: policy.ClassTimeout}) })
		})
	})
}

// finish reports the outcome of an attempt to the core.
func (m *member) finish(a core.Attempt, o policy.Outcome, started time.Time) {
	if o.Class != policy.ClassInternal {
		delete(m.must, a.Config.ID)
	}
	m.step(&core.Finished{Endpoint: a.Config.ID, Delivery: a.Head.Delivery, Outcome: o,
		Attempt: grapnel.Attempt{StartedAt: started, Duration: m.now().Sub(started), StatusCode: o.Status, Class: o.Class}})
}

// arrive is a request reaching its receiver, or a refused connection.
func (t *receiving) arrive(p *post) {
	c := t.c
	if p.over && !p.from.gone {
		return
	}
	if t.down {
		c.agenda.in(c.between(0, 10*time.Millisecond), func() { t.answer(p, policy.Outcome{Class: policy.ClassConnect}) })
		return
	}
	h := &p.attempt.Head
	ev := c.events[h.Event-1]
	p.receipt = history.Receipt{Event: ev.id, Endpoint: t.id, Position: h.Position, Delivery: grapnel.PlainDeliveryID(h.CreatedAt, h.Delivery),
		Hash: "data of " + ev.id, Start: c.agenda.now, Attempt: p.attempt.Number, Trigger: p.attempt.Trigger,
		Node: p.from.slot.name, Epoch: p.held.epoch}
	if p.held.epoch < c.shards.all[c.shards.of(t.id)].Epoch {
		c.late++
	}
	if p.from.gone {
		p.receipt.Status, p.receipt.AnswerLost = 200, true
		t.close(p)
		return
	}
	t.open = append(t.open, p)
	now := 0
	for _, q := range t.open {
		if q.held.epoch == p.held.epoch {
			now++
		}
	}
	if now > t.most {
		c.excess("%d requests at once at %s", now, t.id)
	}
	work := c.between(0, 30*time.Millisecond)
	if t.slow {
		work = c.between(0, 7*time.Second)
	}
	c.agenda.in(work, func() {
		if p.shut {
			return
		}
		o := t.verdict()
		p.receipt.Status = o.Status
		if c.chance(c.plan.answerLost) {
			p.receipt.AnswerLost = true
			o = policy.Outcome{Class: policy.ClassReset}
		}
		t.close(p)
		at := len(c.history.Receipts) - 1
		c.trace("%s answers %d to %s from %s, epoch %d", t.id, p.receipt.Status, p.receipt.Delivery, p.from.id, p.held.epoch)
		p.from.later(c.between(0, 10*time.Millisecond), func() {
			if p.over {
				c.history.Receipts[at].AnswerLost = true // the sender had given up
				return
			}
			t.answer(p, o)
		})
	})
}

// verdict is the receiver's outcome for a request.
func (t *receiving) verdict() policy.Outcome {
	c := t.c
	if !c.chance(c.plan.receiverDown) {
		return policy.Outcome{Status: 200, Class: policy.ClassNone}
	}
	return c.refusal(30*time.Second, policy.Outcome{Status: 404, Class: policy.ClassStatus4xx})
}

// answer reaches the sender if it still lives and waits.
func (t *receiving) answer(p *post, o policy.Outcome) {
	p.from.run(func() {
		if !p.over {
			p.end()
			p.from.finish(p.attempt, o, p.started)
		}
	})
}

func (p *post) end() {
	p.over = true
	p.held.posts = slices.DeleteFunc(p.held.posts, func(q *post) bool { return q == p })
}

// abandon ends the request from the sender's side: it timed out, or must end now.
func (t *receiving) abandon(p *post, o policy.Outcome) {
	if p.over {
		return
	}
	if slices.Contains(t.open, p) {
		p.receipt.AnswerLost = true
		t.close(p)
	}
	p.end()
	p.from.finish(p.attempt, o, p.started)
}

// hangUp ends the receiver's requests of a sender that died.
func (t *receiving) hangUp(m *member) {
	for _, p := range slices.Clone(t.open) {
		if p.from == m {
			p.receipt.AnswerLost = true
			if t.c.rand.IntN(2) == 0 {
				p.receipt.Status = 200 // the receiver had done the work
			}
			t.close(p)
			p.over = true
		}
	}
}

// close ends a request from the receiver's side.
func (t *receiving) close(p *post) {
	p.shut = true
	p.receipt.End = t.c.agenda.now
	t.open = slices.DeleteFunc(t.open, func(q *post) bool { return q == p })
	t.c.history.Receipts = append(t.c.history.Receipts, p.receipt)
}

func (c *cluster) anyone() *receiving { return c.targets[c.rand.IntN(len(c.targets))] }

// gone ends a node's life.
func (c *cluster) gone(s *slot) {
	s.member.gone = true
	for _, t := range c.targets {
		t.hangUp(s.member)
	}
	s.member = nil
}

// pause freezes a node: it carries out its earlier decisions when it resumes, and reads waiting
// messages then. Every other time its machine is suspended.
func (c *cluster) pause(s *slot) {
	m := s.member
	if m == nil || m.frozen > c.agenda.now {
		return
	}
	d := c.between(10*time.Millisecond, 2*c.lease)
	m.frozen = c.agenda.now + d
	if d%2 == 0 {
		s.slept += d
	}
	m.trouble(m.frozen)
	c.pauses++
	c.trace("%s stands still for %v", s.name, d)
	since, long, cut := c.agenda.now, d > 2*time.Second, s.cutAt > 0 && c.agenda.now < s.cutEnd+5*time.Second
	if long && cut {
		since = s.cutAt // changes that could not be recorded since then are still not recorded
	}
	if long || cut { // others cost nothing: the node renews its leases long before they expire
		c.history.Faults = append(c.history.Faults, history.Fault{Kind: history.Standstill, Node: s.name, Start: since, End: m.frozen})
	}
}

func (m *member) now() time.Time { return m.c.base.Add(m.c.agenda.now + m.slot.skew) }

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

// remains is how long a node may still use a shard. Its monotonic clock has missed the time for
// which the machine was suspended, so the wall clock counts as well.
func (m *member) remains(h *holding) time.Duration {
	left := h.until - m.c.agenda.now
	if m.c.is(ForgetsSuspension) {
		left += m.slot.slept - h.slept
	}
	return left
}

// sever cancels the attempts in flight in a shard.
func (m *member) sever(h *holding) {
	for _, p := range slices.Clone(h.posts) {
		m.later(m.c.between(0, 5*time.Millisecond), func() { m.c.target(p.attempt.Config.ID).abandon(p, internal) })
	}
}

func (m *member) endpoint(id string) *grapnel.Endpoint {
	return &m.conf.Endpoints[slices.IndexFunc(m.conf.Endpoints, func(ep grapnel.Endpoint) bool { return ep.ID == id })]
}
