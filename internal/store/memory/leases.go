package memory

import (
	"context"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/decide"
)

// Claim reads all due heads before it leases any, because leasing moves heads in the order.
func (s *model) Claim(_ context.Context, c store.Claim) (store.Claimed, error) {
	now, q, done := codec.Micros(c.Now), s.queue(c.Queue), store.Claimed{}
	var last *delivery // the last one read, if MostOver expired leases end the reading
	for d := range q.leased.all() {
		if d.Due > now || last != nil {
			break
		}
		if done.Over = append(done.Over, d.Leased(&d.lease)); len(done.Over) == store.MostOver {
			last = d
		}
	}
	wants := decide.Served(c.Wants, func(consumer string) int { return q.held[consumer] })
	var take []*delivery
	for d := range q.due.all() {
		looked := d.Due <= now && (last == nil || !byDue(last, d))
		if looked && d.Token != "" {
			continue // its lease has expired
		}
		if !looked || len(take) == len(wants) {
			done.Next = decide.Moment(d.Due)
			break
		}
		take = append(take, d)
	}
	for i, d := range take {
		s.delist(d)
		d.lease = d.Grant(&wants[i], c.Now)
		s.enlist(d)
		done.Leases = append(done.Leases, d.Leased(&d.lease))
	}
	return done, nil
}

// Extend moves the end of a lease.
func (s *model) Extend(_ context.Context, token string, now time.Time, by time.Duration) (grapnel.Lease, error) {
	d := s.leases[token]
	if d == nil || !decide.Moment(d.Due).After(now) {
		return grapnel.Lease{}, decide.ErrLeaseOver()
	}
	s.delist(d)
	d.Due = codec.Micros(now.Add(by))
	s.enlist(d)
	return d.Leased(&d.lease), nil
}

// Lease finds a lease by its token.
func (s *model) Lease(_ context.Context, token string) (grapnel.Lease, error) {
	d := s.leases[token]
	if d == nil {
		return grapnel.Lease{}, store.ErrNotFound("lease")
	}
	return d.Leased(&d.lease), nil
}

// LeaseList returns leases in the order of their ends.
func (s *model) LeaseList(_ context.Context, queue string, limit int) ([]grapnel.Lease, error) {
	var list []grapnel.Lease
	for d := range s.queue(queue).leased.all() {
		if len(list) >= limit {
			break
		}
		list = append(list, d.Leased(&d.lease))
	}
	return list, nil
}

// QueueCounts counts every delivery of the queue.
func (s *model) QueueCounts(_ context.Context, queue string, now time.Time) (grapnel.QueueCounts, error) {
	var n grapnel.QueueCounts
	q := s.queue(queue)
	for d := range q.pending.all() {
		if n.Oldest.IsZero() {
			n.Oldest = codec.Moment(d.Created)
		}
		switch {
		case !d.Head:
			n.Waiting++
		case d.Blocked:
			n.Blocked++
		case d.Token != "":
			n.Leased++
		case decide.Moment(d.Due).After(now):
			n.Delayed++
		default:
			n.Ready++
		}
	}
	letters := store.DeliveryQuery{DeadLetters: true}
	for _, d := range s.deliveries {
		if d.Endpoint == queue && letters.Dead(d.status, &d.mark) {
			n.Dead++
		}
	}
	return n, nil
}
