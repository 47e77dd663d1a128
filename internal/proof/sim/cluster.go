package sim

import (
	"fmt"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/proof/sim/history"
)

// Histories of several nodes that share a store. They are worlds of their own, so that the seeds of
// one-node histories keep their meaning. The shell modelled here (member.go, tenure.go) is that of
// package engine: leases by the store's clock, a deadline of the node's own one second earlier,
// epochs on every write, leaving before releasing, and changes answered once every node has them.
//
// In addition to the faults of one node, nodes freeze for longer than their leases and continue
// with outdated state, are cut off from the store, get each other's messages late or never, stop
// and restart, and take over each other's shards.

// ClusterOutcome is the result of a history of several nodes.
type ClusterOutcome struct {
	Outcome
	Takeovers int // shards taken over without a release
	Handovers int // shards released to another node
	Pauses    int // nodes that were frozen
	Refused   int // writes refused because their epoch had passed
	Late      int // requests sent in an epoch that had passed
}

// RunCluster plays one history of several nodes.
func RunCluster(o Options) ClusterOutcome {
	c := newCluster(o)
	c.setUp()
	for _, s := range c.slots {
		c.agenda.in(c.between(0, 3*time.Second), func() { c.start(s) })
	}
	c.agenda.until(chaosTime)
	c.heal()
	for end := c.agenda.now + healTime; c.agenda.now < end && !c.quiet() && len(c.excesses) == 0; {
		c.agenda.until(c.agenda.now + time.Minute)
	}
	c.collect(c.deliveries(), nil)
	var violations []history.Violation
	if len(c.excesses) == 0 { // else the history was not played to its end
		violations = history.Check(c.history)
	}
	return ClusterOutcome{
		Outcome:   Outcome{History: c.history, Violations: violations, Excesses: c.excesses, Steps: c.steps, Repaired: len(c.history.Faults)},
		Takeovers: c.shards.taken, Handovers: c.shards.given, Pauses: c.pauses, Refused: c.shards.refused, Late: c.late,
	}
}

// cluster is the state of one run.
type cluster struct {
	stage
	lease   time.Duration
	shards  *shardBook
	plan    troubles
	slots   []*slot
	targets []*receiving
	events  []*published
	pauses  int
	late    int
}

// slot is a machine on which nodes live, one after the other.
type slot struct {
	name   string
	skew   time.Duration
	cut    bool          // the store is unreachable from here
	cutAt  time.Duration // start of the cut
	cutEnd time.Duration
	deaf   bool // reaches only the store
	lives  int
	slept  time.Duration // total time for which the machine was suspended: its monotonic clock is behind by this much
	member *member       // nil: it is down
}

// troubles are the faults that a seed enables, each with a probability.
type troubles struct {
	crash, stop, pause, cut                          float64
	storeError, storeUnknown, slow                   float64
	hintLost, hintDouble, hintLate, loadLate, peer   float64
	receiverDown, receiverSlow, answerLost, operator float64
}

func newCluster(o Options) *cluster {
	c := &cluster{stage: newStage(o, 0x6e_6f64_6573)}
	c.lease = c.between(8*time.Second, 15*time.Second)
	c.plan = troubles{
		crash: c.maybe(), stop: c.maybe(), pause: c.maybe(), cut: c.maybe(),
		storeError: c.maybe() / 4, storeUnknown: c.maybe() / 4, slow: c.maybe() / 3,
		hintLost: c.maybe(), hintDouble: c.maybe(), hintLate: c.maybe(), loadLate: c.maybe(), peer: c.maybe(),
		receiverDown: c.maybe(), receiverSlow: c.maybe(), answerLost: c.maybe() / 2, operator: c.maybe(),
	}
	for i := range 2 + c.rand.IntN(3) {
		c.slots = append(c.slots, &slot{name: fmt.Sprintf("n%d", i), skew: c.between(-10*time.Millisecond, 10*time.Millisecond)})
	}
	c.shards = newShardBook(c, 1+c.rand.IntN(6))
	// An outcome may wait for a store call that began before it, and need two of its own until it
	// is durable.
	c.history.Limits = history.Limits{Commit: 3 * (slowAsk + slowAnswer), Transit: 100 * time.Millisecond}
	return c
}

// setUp creates the endpoints and plans publishes, faults and operators' actions.
func (c *cluster) setUp() {
	for _, ep := range c.createEndpoints(kinds(), func(*grapnel.Endpoint) {}) {
		c.targets = append(c.targets, &receiving{c: c, id: ep.ID, tenant: ep.Tenant, most: ep.MaxConcurrency})
	}
	c.publishers(c.try)
	c.every(8*time.Second, c.plan.crash, func() { c.crash(c.anywhere()) })
	c.every(8*time.Second, c.plan.stop, func() { c.stop(c.anywhere()) })
	c.every(5*time.Second, c.plan.pause, func() { c.pause(c.anywhere()) })
	c.every(8*time.Second, c.plan.cut, func() { c.cutOff(c.anywhere()) })
	c.every(8*time.Second, c.plan.peer, func() { c.isolate(c.anywhere()) })
	c.every(5*time.Second, c.plan.receiverDown, func() { t := c.anyone(); t.down = !t.down })
	c.every(5*time.Second, c.plan.receiverSlow, func() { t := c.anyone(); t.slow = !t.slow })
	c.every(5*time.Second, c.plan.operator, c.operate)
}

func (c *cluster) anywhere() *slot    { return c.slots[c.rand.IntN(len(c.slots))] }
func (c *cluster) anyone() *receiving { return c.targets[c.rand.IntN(len(c.targets))] }

// someone is a random node that takes calls; nil: none does.
func (c *cluster) someone() *member {
	if s := c.anywhere(); s.member != nil && !s.member.draining && !s.deaf {
		return s.member
	}
	return nil
}

// crash kills a node. Later another one starts in its slot; it owns no shard yet.
func (c *cluster) crash(s *slot) {
	if s.member == nil {
		return
	}
	c.trace("%s crashes", s.name)
	down := c.between(10*time.Millisecond, 20*time.Second)
	since := c.agenda.now
	if c.agenda.now-s.member.troubled < 4*time.Second && s.cutAt > 0 {
		since = s.cutAt // changes that could not be recorded since then are lost with it
	}
	c.history.Faults = append(c.history.Faults, history.Fault{Kind: history.Crash, Node: s.name, Start: since, End: c.agenda.now + down})
	c.gone(s)
	c.agenda.in(down, func() { c.start(s) })
}

// gone ends a node's life.
func (c *cluster) gone(s *slot) {
	s.member.gone = true
	for _, t := range c.targets {
		t.hangUp(s.member)
	}
	s.member = nil
}

// stop stops a node as an operator would.
func (c *cluster) stop(s *slot) {
	if s.member == nil || s.member.draining {
		return
	}
	c.trace("%s is stopped", s.name)
	c.history.Faults = append(c.history.Faults, history.Fault{Kind: history.CleanStop, Node: s.name, Start: c.agenda.now, End: c.agenda.now})
	s.member.drain()
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

// isolate keeps a node from reaching anything but the store.
func (c *cluster) isolate(s *slot) {
	if s.deaf {
		return
	}
	s.deaf = true
	c.trace("%s is isolated", s.name)
	c.agenda.in(c.between(time.Second, 3*c.lease), func() { s.deaf = false })
}

// heal ends all faults and opens every endpoint that was closed.
func (c *cluster) heal() {
	c.trace("heal")
	c.healing = true
	for _, t := range c.targets {
		t.down, t.slow = false, false
	}
	c.tend()
}

// tend acts as a careful operator until the system is quiet.
func (c *cluster) tend() {
	if m := c.someone(); m != nil {
		for _, ep := range c.configuration().Endpoints {
			if ep.Status != grapnel.EndpointEnabled && ep.DeletedAt.IsZero() {
				m.act(ep.ID, history.Enable, enable)
			}
		}
		for _, d := range c.deliveries() {
			if d.Waiting.Blocked && !d.Status.Final() {
				m.skip(&d)
			}
		}
	}
	c.agenda.in(30*time.Second, c.tend)
}
