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

func newCluster(o Options) *cluster {
	c := &cluster{stage: newStage(o, 0x6e_6f64_6573)}
	c.restart = c.start
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

// stop stops a node as an operator would.
func (c *cluster) stop(s *slot) {
	if s.member == nil || s.member.draining {
		return
	}
	c.trace("%s is stopped", s.name)
	c.history.Faults = append(c.history.Faults, history.Fault{Kind: history.CleanStop, Node: s.name, Start: c.agenda.now, End: c.agenda.now})
	s.member.drain()
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
