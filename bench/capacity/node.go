package capacity

import "time"

// node is one process of Grapnel.
type node struct {
	cell       *cell
	cpu        *processors
	dead       bool
	publishing int
	pace       float64 // average duration of commits, over five seconds
	paced      time.Duration

	requests line[*request] // waiting for a transaction
	writing  int

	outcomes  line[*delivery] // waiting for the recorder
	recording bool

	running int
	most    int // the largest number running at once
	prompt  line[*endpoint]
	late    line[*endpoint]
	greedy  line[*endpoint] // until slots are less scarce
	gives   giving
}

// request is one part of a transaction: an event to accept, or outcomes to record.
type request struct {
	event    *event
	outcomes []*delivery
	since    time.Duration
}

type event struct {
	to   []*delivery
	done func()
}

type delivery struct {
	to       *endpoint
	due      time.Duration // of the next attempt
	born     time.Duration // when its publisher intended to send it
	attempts int
	failed   bool
	running  bool
	began    time.Duration
	ended    time.Duration
	counts   counts
	number   int // its number in the count
}

// publish accepts an event, or refuses it.
func (n *node) publish(e *event) bool {
	c := n.cell
	n.breathe(0)
	if n.publishing >= mostPublishing || n.pace > longCommit.Seconds() {
		return false
	}
	n.publishing++
	n.cpu.do(c.costs.NodePublish, func() {
		n.ask(&request{event: e, since: c.now})
	})
	return true
}

// breathe updates the average duration of commits.
func (n *node) breathe(took time.Duration) {
	passed := (n.cell.now - n.paced).Seconds()
	n.paced = n.cell.now
	n.pace += min(passed/5, 1) * (took.Seconds() - n.pace)
}

// ask queues a request for the writers. An idle writer gets a processor and takes every request
// that is queued by then.
func (n *node) ask(r *request) {
	n.requests.push(r)
	n.write()
}

func (n *node) write() {
	c := n.cell
	if n.dead || n.writing >= c.hardware.Writers || n.requests.len() == 0 {
		return
	}
	n.writing++
	batch := []*request{n.requests.pop()}
	n.cpu.do(c.costs.NodeCommit/2, func() {
		for len(batch) < batchMost && n.requests.len() > 0 {
			batch = append(batch, n.requests.pop())
		}
		n.transact(batch)
	})
}

// transact makes one transaction: locks and reads, then writes and the sync.
func (n *node) transact(batch []*request) {
	c := n.cell
	c.commits++
	k := c.costs
	work, bytes := time.Duration(0), 0
	const reads = 3 // a third of a delivery's cost is creating it, the rest is recording its outcome
	for _, r := range batch {
		if e := r.event; e != nil {
			work += k.DataPublish + time.Duration(len(e.to))*k.DataDeliver/reads
			bytes += k.LogPublish + len(e.to)*k.LogDeliver/reads
		}
		work += time.Duration(len(r.outcomes)) * (k.DataDeliver - k.DataDeliver/reads)
		bytes += len(r.outcomes) * (k.LogDeliver - k.LogDeliver/reads)
	}
	work = time.Duration(float64(work) * (1 + c.hardware.Purge))
	half := c.hardware.Trip / 2
	c.after(half, func() {
		c.data.do((k.DataCommit+work)/2, func() {
			c.after(2*half, func() {
				c.data.do((k.DataCommit+work)/2, func() {
					c.log.sync(bytes, func() { c.after(half, func() { n.committed(batch) }) })
				})
			})
		})
	})
}

// committed answers the requests of a batch.
func (n *node) committed(batch []*request) {
	c := n.cell
	n.cpu.do(c.costs.NodeCommit/2, func() {
		n.writing--
		for _, r := range batch {
			n.breathe(c.now - r.since)
			switch {
			case r.event != nil:
				n.publishing--
				c.accepted(r.event)
			default:
				n.recording = false
				for _, d := range r.outcomes {
					n.recorded(d)
				}
				n.record()
			}
		}
		n.write()
		n.dispatch()
	})
}

// offer queues a due delivery at its node. Deliveries of an endpoint are attempted in the order of
// their due times.
func (n *node) offer(d *delivery) {
	d.to.waiting.push(d)
	n.line(d.to)
	n.dispatch()
}

// line queues an endpoint for a slot: in one of two lines, depending on whether its first delivery
// is on time or late.
func (n *node) line(ep *endpoint) {
	switch {
	case ep.inLine || ep.waiting.len() == 0 || ep.running >= ep.Limit:
		return
	case ep.isLate(n.cell.now, ep.waiting.first()):
		n.late.push(ep)
	default:
		n.prompt.push(ep)
	}
	ep.inLine = true
}

// isGreedy says whether an endpoint must leave the remaining slots to others, as in
// internal/core/quota.go.
func (n *node) isGreedy(ep *endpoint) bool {
	slots := n.cell.hardware.Slots
	free := slots - n.running
	return ep.running > 0 && (free <= slots/8 || free <= slots/2 && (ep.average == 0 || ep.running >= slots/4))
}

// dispatch starts attempts: those on time first, and late ones within their limit.
func (n *node) dispatch() {
	c := n.cell
	n.gives.hung(c.now)
	for n.greedy.len() > 0 && !n.isGreedy(n.greedy.first()) {
		n.prompt.push(n.greedy.pop())
	}
	for !n.dead && n.running < c.hardware.Slots {
		var ep *endpoint
		isLate := false
		switch {
		case n.prompt.len() > 0:
			ep = n.prompt.pop()
		case n.late.len() > 0 && !n.gives.full(c.now):
			ep, isLate = n.late.pop(), true
		default:
			return
		}
		switch d := ep.waiting.first(); {
		case n.isGreedy(ep):
			n.greedy.push(ep)
			continue
		case !isLate && ep.isLate(c.now, d):
			n.late.push(ep)
			continue
		}
		ep.inLine = false
		n.start(ep.waiting.pop())
		n.line(ep)
	}
}

func (n *node) start(d *delivery) {
	c := n.cell
	n.running++
	n.most = max(n.most, n.running)
	if d.to.running == 0 {
		d.to.heard = c.now
	}
	n.gives.begin(c.now, d)
	d.to.running++
	d.running, d.began = true, c.now
	n.cpu.do(c.costs.NodeDeliver/2, func() {
		if n.dead {
			c.orphaned(d)
			return
		}
		if d.attempts == 0 {
			c.begun(d)
		}
		d.attempts++
		c.receive(d, func() {
			if n.dead {
				c.orphaned(d)
				return
			}
			n.cpu.do(c.costs.NodeDeliver-c.costs.NodeDeliver/2, func() { n.finished(d) })
		})
	})
}

// finished gives the slot to the next one and the outcome to the recorder.
func (n *node) finished(d *delivery) {
	if n.dead {
		n.cell.orphaned(d)
		return
	}
	now := n.cell.now
	n.running--
	d.to.running--
	d.to.answered(now, now-d.began)
	d.running, d.ended = false, now
	if d.counts == prompt {
		n.gives.release(d)
	}
	n.line(d.to)
	n.outcomes.push(d)
	n.record()
	n.dispatch()
}

func (n *node) record() {
	if n.recording || n.dead || n.outcomes.len() == 0 {
		return
	}
	n.recording = true
	page := make([]*delivery, 0, min(n.outcomes.len(), recordMost))
	for len(page) < recordMost && n.outcomes.len() > 0 {
		page = append(page, n.outcomes.pop())
	}
	n.ask(&request{outcomes: page, since: n.cell.now})
}

// recorded says that an outcome is durable.
func (n *node) recorded(d *delivery) {
	c := n.cell
	c.longest = max(c.longest, c.now-d.ended)
	n.gives.took(c.now, c.now-d.ended, c.hardware.Slots/2)
	n.gives.release(d)
	if !d.failed {
		c.delivered++
		return
	}
	d.failed = false
	d.due = c.now + again
	c.after(again, func() { c.hint(d) })
}

// answered records the duration of an attempt at the endpoint.
func (ep *endpoint) answered(now, took time.Duration) {
	ep.heard = now
	if ep.average == 0 {
		ep.average = took
	}
	ep.average += (took - ep.average) / 8
}
