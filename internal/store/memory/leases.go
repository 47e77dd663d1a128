package memory

import (
	"context"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// lease is a delivery's lease. It ends at the delivery's due time.
type lease struct {
	token, consumer    string
	scheduled, granted time.Time
}

// leased shows the lease of a delivery that has one.
func (d *delivery) leased() grapnel.Lease {
	return grapnel.Lease{
		Token: d.lease.token, Queue: d.EndpointID, Consumer: d.lease.consumer, Delivery: d.Seq, Event: d.EventSeq, Number: d.AttemptsMade + 1,
		CreatedAt: d.CreatedAt, Anchor: d.Waiting.Anchor, Trigger: d.trigger,
		Scheduled: d.lease.scheduled, GrantedAt: d.lease.granted, Until: d.Waiting.Due,
	}
}

// yields says whether the lease of d, if any, lets a change be made.
func (d *delivery) yields(c *store.Change) bool {
	if d.lease == nil {
		return c.Yields("", time.Time{})
	}
	return c.Yields(d.lease.token, d.Waiting.Due)
}

// release ends the lease of d, if it has one.
func (s *Store) release(d *delivery) {
	if d.lease == nil {
		return
	}
	q := s.queue(d.EndpointID)
	q.leased.take(d)
	if q.held[d.lease.consumer]--; q.held[d.lease.consumer] == 0 {
		delete(q.held, d.lease.consumer)
	}
	delete(s.leases, d.lease.token)
	d.lease = nil
}

// Claim reads all due heads before it leases any, because leasing moves heads in the order.
func (s *Store) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return store.Claimed{}, err
	}
	defer leave()
	now, q, done := micro(c.Now), s.queue(c.Queue), store.Claimed{}
	var last *delivery // the last one read, if MostOver expired leases end the reading
	for d := range q.leased.all() {
		if d.Waiting.Due.After(now) || last != nil {
			break
		}
		if done.Over = append(done.Over, d.leased()); len(done.Over) == store.MostOver {
			last = d
		}
	}
	wants := granted(c.Wants, q.held)
	var take []*delivery
	for d := range q.due.all() {
		looked := !d.Waiting.Due.After(now) && (last == nil || !byDue(last, d))
		if looked && d.lease != nil {
			continue // its lease has expired
		}
		if !looked || len(take) == len(wants) {
			done.Next = d.Waiting.Due
			break
		}
		take = append(take, d)
	}
	for i, d := range take {
		s.grant(d, wants[i], c.Now)
		done.Leases = append(done.Leases, d.leased())
	}
	return done, nil
}

// granted are the Wants that are not skipped.
func granted(wants []store.Want, held map[string]int) []store.Want {
	more := make(map[string]int)
	return slices.DeleteFunc(slices.Clone(wants), func(w store.Want) bool {
		if w.Most > 0 && held[w.Consumer]+more[w.Consumer] >= w.Most {
			return true
		}
		more[w.Consumer]++
		return false
	})
}

func (s *Store) grant(d *delivery, w store.Want, now time.Time) {
	q := s.queue(d.EndpointID)
	l := &lease{token: w.Token, consumer: w.Consumer, scheduled: d.Waiting.Due, granted: micro(now)}
	s.plan(d, now.Add(w.For), false)
	d.lease = l
	q.leased.add(d)
	q.held[w.Consumer]++
	s.leases[w.Token] = d
}

// Extend moves the end of a lease.
func (s *Store) Extend(ctx context.Context, token string, now time.Time, by time.Duration) (grapnel.Lease, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return grapnel.Lease{}, err
	}
	defer leave()
	d := s.leases[token]
	if d == nil || !d.Waiting.Due.After(now) {
		return grapnel.Lease{}, grapnel.Errorf(grapnel.CodeConflict, "the lease has expired or is settled")
	}
	q := s.queue(d.EndpointID)
	q.leased.take(d)
	s.plan(d, now.Add(by), false)
	q.leased.add(d)
	return d.leased(), nil
}

// Lease finds a lease by its token.
func (s *Store) Lease(ctx context.Context, token string) (grapnel.Lease, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return grapnel.Lease{}, err
	}
	defer leave()
	d := s.leases[token]
	if d == nil {
		return grapnel.Lease{}, store.ErrNotFound("lease")
	}
	return d.leased(), nil
}

// LeaseList returns leases in the order of their ends.
func (s *Store) LeaseList(ctx context.Context, queue string, limit int) ([]grapnel.Lease, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	var list []grapnel.Lease
	for d := range s.queue(queue).leased.all() {
		if len(list) >= limit {
			break
		}
		list = append(list, d.leased())
	}
	return list, nil
}

// QueueCounts counts every delivery of the queue.
func (s *Store) QueueCounts(ctx context.Context, queue string, now time.Time) (grapnel.QueueCounts, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return grapnel.QueueCounts{}, err
	}
	defer leave()
	var n grapnel.QueueCounts
	q := s.queue(queue)
	for d := range q.pending.all() {
		if n.Oldest.IsZero() {
			n.Oldest = d.CreatedAt
		}
		switch {
		case !d.Waiting.Head:
			n.Waiting++
		case d.Waiting.Blocked:
			n.Blocked++
		case d.lease != nil:
			n.Leased++
		case d.Waiting.Due.After(now):
			n.Delayed++
		default:
			n.Ready++
		}
	}
	for _, d := range s.deliveries {
		if d.EndpointID == queue && d.Status == grapnel.Failed && d.Mark.DiscardedAt.IsZero() {
			n.Dead++
		}
	}
	return n, nil
}
