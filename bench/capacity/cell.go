package capacity

import (
	"math"
	"math/rand/v2"
	"time"
)

// cell is one database with its nodes, and the state of its simulation.
type cell struct {
	timeline
	costs     Costs
	hardware  Hardware
	load      Load
	random    *rand.Rand
	nodes     []*node
	data      *processors
	clients   *processors // nil: they have machines of their own
	log       *log
	endpoints []endpoint
	pick      alias
	orphans   []*delivery // of the dead node

	commits, delivered    int
	taken, asked, refused int
	lag                   histogram     // of first attempts, while no node has died
	bins                  []histogram   // the same, per second
	took                  histogram     // from the publisher's intention to the receiver
	struckLag             time.Duration // the longest, at endpoints whose node has died
	over                  time.Duration // when the last late one began there
	longest               time.Duration // until an outcome became durable
	waiting               int           // first attempts pending there at the end
	from                  mark
}

type mark struct {
	at                        time.Duration
	commits, delivered, taken int
	node, data                time.Duration
}

type endpoint struct {
	Endpoint
	node    *node
	running int
	inLine  bool          // for a slot
	struck  bool          // its node has died
	average time.Duration // duration of an attempt, as its node has measured; 0: unknown
	heard   time.Duration // the last answer, or the start of the first attempt in flight
	late    time.Duration // time of the last late attempt
	waiting line[*delivery]
}

func newCell(k Costs, h Hardware, l Load) *cell {
	c := &cell{costs: k, hardware: h, load: l, random: rand.New(rand.NewPCG(l.Seed, 7))}
	if h.Discount != 0 {
		for _, t := range []*time.Duration{&c.costs.NodePublish, &c.costs.NodeDeliver, &c.costs.NodeCommit, &c.costs.DataPublish,
			&c.costs.DataDeliver, &c.costs.DataCommit} {
			*t = time.Duration(float64(*t) / h.Discount)
		}
	}
	c.data = &processors{time: &c.timeline, cores: h.DataCores}
	c.log = &log{time: &c.timeline, random: c.random, base: h.Sync, rate: h.LogRate}
	for range h.Nodes {
		n := &node{cell: c, cpu: &processors{time: &c.timeline, cores: h.NodeCores}, gives: newGiving()}
		if h.Shared {
			n.cpu, c.clients = c.data, c.data
		}
		c.nodes = append(c.nodes, n)
	}
	weights := make([]float64, len(l.Endpoints))
	c.endpoints = make([]endpoint, len(l.Endpoints))
	for i, e := range l.Endpoints {
		weights[i] = e.Weight
		c.endpoints[i] = endpoint{Endpoint: e, node: c.nodes[c.random.IntN(h.Nodes)], late: -promptFor}
	}
	c.pick = newAlias(weights)
	return c
}

// run simulates the load.
func (c *cell) run() {
	l := &c.load
	if l.Closed > 0 {
		for range l.Closed {
			c.again()
		}
	} else {
		c.arrive()
	}
	for range l.Backlog {
		first := &c.endpoints[0]
		first.node.offer(&delivery{to: first, due: -time.Minute, born: -time.Minute})
	}
	if l.Dies > 0 {
		c.at(l.Dies, c.die)
	}
	if l.Away > 0 {
		c.at(l.Away, func() { c.data.stopped = true })
		c.at(l.Away+l.Gone, func() { c.data.stopped = false; c.data.start() })
	}
	c.at(l.From, func() { c.lag, c.took, c.from = histogram{}, histogram{}, c.mark() })
	if l.Calm > 0 {
		c.at(l.Calm, func() { c.from = c.mark() })
	}
	c.timeline.run(l.Until)
	c.outstanding()
}

// outstanding counts deliveries pending at the end: a count of starts would miss those that never
// start.
func (c *cell) outstanding() {
	for i := range c.endpoints {
		ep := &c.endpoints[i]
		for j := range ep.waiting.len() {
			d := ep.waiting.at(j)
			if d.attempts > 0 {
				continue
			}
			if ep.struck {
				c.waiting++
				c.struckLag = max(c.struckLag, c.now-d.due)
				continue
			}
			c.begun(d)
		}
	}
}

func (c *cell) mark() mark {
	m := mark{at: c.now, commits: c.commits, delivered: c.delivered, taken: c.taken, data: c.data.used}
	for _, n := range c.nodes {
		if !n.dead {
			m.node += n.cpu.used
		}
	}
	return m
}

// arrive is an event to publish, and schedules the next one.
func (c *cell) arrive() {
	l := &c.load
	rate := l.Rate
	if l.Burst > 0 && c.now >= l.BurstAt && c.now < l.BurstAt+l.BurstFor {
		rate *= l.Burst
	}
	c.after(time.Duration(c.random.ExpFloat64()/rate*float64(time.Second)), func() {
		c.publish(c.event())
		c.arrive()
	})
}

// again is a publisher that publishes when its last publish was answered.
func (c *cell) again() {
	e := c.event()
	e.done = c.again
	c.clients.do(c.costs.Publisher, func() { c.publish(e) })
}

func (c *cell) event() *event {
	e := &event{to: make([]*delivery, max(c.load.Fanout, 1))}
	all := make([]delivery, len(e.to))
	for i := range all {
		to := &c.endpoints[c.pick.draw(c.random)]
		if len(all) == len(c.endpoints) {
			to = &c.endpoints[i]
		}
		all[i] = delivery{to: to, born: c.now}
		e.to[i] = &all[i]
	}
	return e
}

// publish sends an event to one of the live nodes. A refused publisher retries.
func (c *cell) publish(e *event) {
	c.asked++
	n := c.nodes[c.random.IntN(len(c.nodes))]
	for n.dead {
		n = c.nodes[c.random.IntN(len(c.nodes))]
	}
	if !n.publish(e) {
		c.refused++
		c.after(time.Second+time.Duration(c.random.Float64()*float64(4*time.Second)), func() { c.publish(e) })
	}
}

// accepted is an event that is durable: its publisher knows, and its deliveries are due.
func (c *cell) accepted(e *event) {
	c.taken++
	if e.done != nil {
		e.done()
	}
	for _, d := range e.to {
		d.due = c.now
		c.hint(d)
	}
}

// hint tells a delivery's node that it is due. The delivery waits while that node is dead, or its
// circuit is open.
func (c *cell) hint(d *delivery) {
	switch {
	case d.to.Down:
	case d.to.node.dead:
		c.orphans = append(c.orphans, d)
	default:
		d.to.node.offer(d)
	}
}

// begun records a first attempt.
func (c *cell) begun(d *delivery) {
	lag := c.now - d.due
	if d.to.struck {
		c.struckLag = max(c.struckLag, lag)
		if lag > lateAfter {
			c.over = c.now
		}
		return
	}
	c.lag.add(lag)
	c.took.add(c.now - d.born)
	second := int(max(c.now-1, 0) / time.Second) // a delivery pending at the end belongs to the last second
	for len(c.bins) <= second {
		c.bins = append(c.bins, histogram{})
	}
	c.bins[second].add(lag)
}

// receive is the receiver's handling of a request.
func (c *cell) receive(d *delivery, then func()) {
	l := &c.load
	if c.clients != nil {
		c.clients.do(c.costs.Receiver, then)
		return
	}
	d.failed = c.random.Float64() < l.Fails
	mean := l.Answer
	if d.to.Slow {
		mean = l.SlowOnes
	}
	// No receiver answers in no time: half of the time is constant.
	c.after(time.Duration((0.5+0.5*c.random.ExpFloat64())*float64(mean)), then)
}

// die kills a node. Others get its endpoints once its lease has expired and they have looked.
func (c *cell) die() {
	n := c.nodes[0]
	n.dead = true
	for i := range c.endpoints {
		c.endpoints[i].struck = c.endpoints[i].node == n
	}
	for n.requests.len() > 0 {
		r := n.requests.pop()
		if r.event != nil {
			c.after(time.Second, func() { c.publish(r.event) }) // its publisher tries another node
		}
		c.orphaned(r.outcomes...)
	}
	for n.outcomes.len() > 0 {
		c.orphaned(n.outcomes.pop())
	}
	c.after(c.hardware.Lease+lookEvery, c.adopt)
}

// orphaned are deliveries of a node that died. A request that was sent but not recorded is sent
// again.
func (c *cell) orphaned(these ...*delivery) {
	for _, d := range these {
		d.running, d.counts = false, neither
		if d.to.node.dead {
			c.orphans = append(c.orphans, d)
		} else {
			d.to.node.offer(d)
		}
	}
}

func (c *cell) adopt() {
	living := c.nodes[1:]
	if len(living) == 0 {
		return
	}
	for i := range c.endpoints {
		if e := &c.endpoints[i]; e.node.dead {
			e.node = living[c.random.IntN(len(living))]
			e.running, e.inLine, e.average, e.late = 0, false, 0, -promptFor
			e.node.line(e)
		}
	}
	these := c.orphans
	c.orphans = nil
	for _, d := range these {
		d.to.node.offer(d)
	}
}

// alias draws from many weights in the same time as from few.
type alias struct {
	keep  []float64
	other []int32
}

func newAlias(weights []float64) alias {
	n := len(weights)
	a := alias{make([]float64, n), make([]int32, n)}
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	var small, large []int32
	for i, w := range weights {
		a.keep[i] = w / sum * float64(n)
		if a.keep[i] < 1 {
			small = append(small, int32(i))
		} else {
			large = append(large, int32(i))
		}
	}
	for len(small) > 0 && len(large) > 0 {
		s, l := small[len(small)-1], large[len(large)-1]
		small = small[:len(small)-1]
		a.other[s] = l
		if a.keep[l] -= 1 - a.keep[s]; a.keep[l] < 1 {
			large = large[:len(large)-1]
			small = append(small, l)
		}
	}
	for _, i := range append(small, large...) {
		a.keep[i], a.other[i] = 1, i
	}
	return a
}

func (a *alias) draw(r *rand.Rand) int {
	i := r.IntN(len(a.keep))
	if r.Float64() < a.keep[i] {
		return i
	}
	return int(a.other[i])
}

// histogram counts times in steps of some four percent.
type histogram struct {
	counts []int32
	n      int
	sum    time.Duration
	most   time.Duration
}

const stepsPerDouble = 16

func (h *histogram) add(d time.Duration) {
	i := 0
	if d > time.Microsecond {
		i = 1 + int(math.Log2(float64(d)/float64(time.Microsecond))*stepsPerDouble)
	}
	for len(h.counts) <= i {
		h.counts = append(h.counts, 0)
	}
	h.counts[i]++
	h.n++
	h.sum += d
	h.most = max(h.most, d)
}

func (h *histogram) mean() time.Duration {
	if h.n == 0 {
		return 0
	}
	return h.sum / time.Duration(h.n)
}

func (h *histogram) quantile(q float64) time.Duration {
	left := int(math.Ceil(q * float64(h.n)))
	for i, n := range h.counts {
		if left -= int(n); left <= 0 {
			return min(h.most, time.Duration(math.Exp2(float64(i)/stepsPerDouble)*float64(time.Microsecond)))
		}
	}
	return h.most
}
