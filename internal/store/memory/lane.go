package memory

import (
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// delivery is a delivery with the store's own fields.
type delivery struct {
	grapnel.Delivery
	event   *event
	lane    *lane // nil: unordered or without key
	trigger grapnel.Trigger
	item    *item     // nil: no replay created it
	lease   *lease    // nil: not leased
	wide    time.Time // when the last attempt, which failed because of the endpoint, was recorded; zero: it did not
}

// queue is an endpoint's pending deliveries.
type queue struct {
	pending order          // all of it, the oldest first
	due     order          // the heads that are not blocked, the earliest first
	leased  order          // the leased ones of due
	held    map[string]int // leases by consumer
	lanes   map[string]*lane
}

// lane is one key's lane at one endpoint. It outlives its deliveries, because its positions
// continue.
type lane struct {
	last    int64 // the last assigned position
	pending order // the head first
}

func byNumber(a, b *delivery) bool { return a.Seq < b.Seq }

func byDue(a, b *delivery) bool {
	if c := a.Waiting.Due.Compare(b.Waiting.Due); c != 0 {
		return c < 0
	}
	return a.Seq < b.Seq
}

func (s *Store) queue(endpoint string) *queue {
	q := s.queues[endpoint]
	if q == nil {
		q = &queue{pending: order{before: byNumber}, due: order{before: byDue}, leased: order{before: byDue}, lanes: make(map[string]*lane),
			held: make(map[string]int)}
		s.queues[endpoint] = q
	}
	return q
}

func (q *queue) lane(key string) *lane {
	l := q.lanes[key]
	if l == nil {
		l = &lane{pending: order{before: byNumber}} // numbers and positions are given together, so they agree
		q.lanes[key] = l
	}
	return l
}

// commit assigns a row id to a new delivery of e and stores it.
func (s *Store) commit(e *event, d *delivery) {
	s.made++
	d.Seq = s.made
	d.event, d.EventSeq, d.EventID = e, e.Seq, e.ID
	d.Tenant, d.Type, d.Key = e.Tenant, e.Type, e.Key
	s.deliveries = append(s.deliveries, d)
	e.deliveries = append(e.deliveries, d)
}

// wait adds a new delivery to the end of its lane, or alone if it is unordered or has no key. It
// says whether the delivery became a head; only then the delay applies.
func (s *Store) wait(d *delivery, ordered bool, delay time.Duration) bool {
	q := s.queue(d.EndpointID)
	d.Status = grapnel.Pending
	q.pending.add(d)
	if ordered && d.Key != "" {
		d.lane = q.lane(d.Key)
		d.lane.last++
		d.Position = d.lane.last
		d.lane.pending.add(d)
		if d.lane.pending.first() != d {
			return false
		}
	}
	s.lead(d, d.CreatedAt, delay)
	return true
}

// lead makes d the head of its lane and starts its policy's clock, but not before d was created,
// even if the clock that finished its predecessor was behind.
func (s *Store) lead(d *delivery, at time.Time, delay time.Duration) {
	if at.Before(d.CreatedAt) {
		at = d.CreatedAt
	}
	d.Waiting = grapnel.Waiting{Head: true, Due: micro(at.Add(delay)), Anchor: at}
	s.queue(d.EndpointID).due.add(d)
}

// finish makes d final. If it was the head of its lane, the next one becomes the head, with this
// delay.
func (s *Store) finish(d *delivery, e store.Ending, delay time.Duration) {
	q, at, led := s.queue(d.EndpointID), micro(e.At), d.Waiting.Head
	s.release(d)
	q.pending.take(d)
	if led && !d.Waiting.Blocked {
		q.due.take(d)
	}
	d.Status, d.ReasonCode, d.Reason, d.FinishedAt = e.Status, e.ReasonCode, e.Reason, at
	d.Waiting = grapnel.Waiting{}
	if !e.Uncounted {
		s.ended(d)
	}
	s.tally(d)
	if d.lane == nil {
		return
	}
	d.lane.pending.take(d)
	if next := d.lane.pending.first(); led && next != nil {
		s.lead(next, at, delay)
	}
}

// plan changes the time of the next attempt of the head d.
func (s *Store) plan(d *delivery, due time.Time, blocked bool) {
	q := s.queue(d.EndpointID)
	if !d.Waiting.Blocked {
		q.due.take(d)
	}
	d.Waiting.Due, d.Waiting.Blocked = micro(due), blocked
	if blocked {
		d.Waiting.Due = time.Time{}
		return
	}
	q.due.add(d)
}

// place is a pending delivery as a Head.
func (d *delivery) place() *store.Head {
	h := &store.Head{
		Delivery:  d.Seq,
		Event:     d.EventSeq,
		Endpoint:  d.EndpointID,
		Position:  d.Position,
		Due:       d.Waiting.Due,
		Blocked:   d.Waiting.Blocked,
		Attempts:  d.AttemptsMade,
		Anchor:    d.Waiting.Anchor,
		Trigger:   d.trigger,
		CreatedAt: d.CreatedAt,
	}
	if d.lane != nil {
		h.Lane = d.Key
	}
	return h
}

// next is the head that a change returns: the lane's head, or the delivery itself if it has no
// lane.
func (d *delivery) next() *store.Head {
	if d.lane != nil {
		d = d.lane.pending.first()
	}
	if d == nil || d.Status.Final() {
		return nil
	}
	return d.place()
}
