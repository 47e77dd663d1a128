package memory

import (
	"cmp"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/decide"
)

func byNumber(a, b *delivery) bool { return a.Seq < b.Seq }

func byDue(a, b *delivery) bool {
	return cmp.Or(cmp.Compare(a.Due, b.Due), cmp.Compare(a.Seq, b.Seq)) < 0
}

func (s *model) queue(endpoint string) *queue {
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
		l = &lane{last: q.forgot, pending: order{before: byNumber}} // numbers and positions are given together, so they agree
		q.lanes[key] = l
	}
	return l
}

// forget removes the lane of a purged delivery if nothing waits and it has the lane's last
// position, or was pending for the shortest retention: the last may have been purged meanwhile.
// Lanes that begin later have higher positions, so those of a key never go back.
func (q *queue) forget(d *delivery, shortest time.Duration) {
	long := decide.Moment(d.finished).Sub(decide.Moment(d.Created)) >= shortest
	if l := q.lanes[d.Key]; d.lane != nil && d.lane == l && (d.Position == l.last || long) && l.pending.first() == nil {
		delete(q.lanes, d.Key)
		q.forgot = max(q.forgot, l.last)
	}
}

// enlist adds d, as it is scheduled and leased now, to the orders of its queue.
func (s *model) enlist(d *delivery) {
	q := s.queue(d.Endpoint)
	if d.Head && !d.Blocked {
		q.due.add(d)
	}
	if d.Token != "" {
		q.leased.add(d)
		q.held[d.lease.Consumer]++
		s.leases[d.Token] = d
	}
}

// delist takes d out of them. Every change of its schedule or lease stands between both.
func (s *model) delist(d *delivery) {
	q := s.queue(d.Endpoint)
	if d.Head && !d.Blocked {
		q.due.take(d)
	}
	if d.Token != "" {
		q.leased.take(d)
		if q.held[d.lease.Consumer]--; q.held[d.lease.Consumer] == 0 {
			delete(q.held, d.lease.Consumer)
		}
		delete(s.leases, d.Token)
	}
}

// create returns a new delivery of e, which has a row id and is stored.
func (s *model) create(e *event, p decide.Pending) *delivery {
	s.made++
	p.Seq, p.Event = s.made, e.Seq
	d := &delivery{Pending: p, status: grapnel.Pending, finished: decide.None, event: e}
	s.deliveries = append(s.deliveries, d)
	e.deliveries = append(e.deliveries, d)
	s.queue(d.Endpoint).tenant = e.Tenant
	return d
}

// wait adds a new delivery to the end of its lane, or alone if it is unordered or has no key. The
// delay applies to a head only.
func (s *model) wait(d *delivery, ordered bool, delay time.Duration, notBefore time.Time) {
	q, first := s.queue(d.Endpoint), true
	q.pending.add(d)
	if ordered && d.event.Key != "" {
		d.Key, d.lane = d.event.Key, q.lane(d.event.Key)
		d.lane.last++
		d.Position = d.lane.last
		d.lane.pending.add(d)
		first = d.lane.pending.first() == d
	}
	d.Enter(first, delay, notBefore)
	s.enlist(d)
}

// end stores the end of d.
func (s *model) end(d *delivery, ending *store.Ending) {
	e := d.End(*ending)
	d.status, d.Code, d.Reason, d.finished = e.Status, e.ReasonCode, e.Reason, codec.Micros(e.At)
	if !e.Uncounted {
		s.ended(d, &e)
	}
}

// head is d, which may be nil, as a Head.
func (d *delivery) head() *store.Head {
	if d == nil {
		return nil
	}
	h := d.Shown()
	return &h
}

// next is the head that a change returns: the lane's head, or the delivery itself if it has no
// lane.
func (d *delivery) next() *store.Head {
	if d.lane != nil {
		d = d.lane.pending.first()
	}
	if d == nil || d.status.Final() {
		return nil
	}
	return d.head()
}
