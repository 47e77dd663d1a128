package queue

import (
	"context"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// Next leases at most `most` deliveries for a consumer. It waits up to `wait` for the first; no
// delivery in that time is no error.
func (r *Broker) Next(ctx context.Context, q *grapnel.Endpoint, consumer string, most int, wait time.Duration) ([]Message, error) {
	l := r.line(q.ID)
	l.see(consumer, r.now())
	r.metrics.waiting.Inc()
	defer r.metrics.waiting.Dec()
	most = max(min(most, q.Queue.MaxLeased), 1)
	ends := time.NewTimer(wait)
	defer ends.Stop()
	w := &waiter{wants: make([]store.Want, most), once: wait <= 0, reply: make(chan taken, 1)}
	for until := time.Now().Add(wait); ; {
		for i := range w.wants {
			w.wants[i] = store.Want{Token: grapnel.NewToken(grapnel.LeasePrefix, r.random), Consumer: consumer}
		}
		leases, err := l.take(ctx, w, ends)
		if err != nil || len(leases) == 0 {
			return nil, err
		}
		messages, err := r.open(leases)
		switch {
		case err != nil:
			r.Release(leases)
			return nil, err
		case ctx.Err() != nil:
			r.Release(leases)
			return nil, ctx.Err()
		case len(messages) > 0:
			return messages, nil
		}
		// All of them were too old or damaged and are finished now; others may be due behind them.
		w.asked, w.leaving, w.once = false, false, wait <= 0 || !time.Now().Before(until)
	}
}

// take waits in the line until the waiter is answered, the wait has passed, or ctx ends.
func (l *line) take(ctx context.Context, w *waiter, ends *time.Timer) ([]grapnel.Lease, error) {
	if !l.join(w) {
		return nil, nil
	}
	over := ends.C
	if w.once {
		over = nil // it is answered after one claim
	}
	select {
	case t := <-w.reply:
		return t.leases, t.err
	case <-over:
	case <-ctx.Done():
	}
	l.leave(w, ctx.Err())
	t := <-w.reply
	return t.leases, t.err
}

// open reads the leases' events. It ends deliveries whose event is damaged or erased, or that are
// too old.
func (r *Broker) open(leases []grapnel.Lease) ([]Message, error) {
	seqs := make([]int64, len(leases))
	for i := range leases {
		seqs[i] = leases[i].Event
	}
	// A cancelled read would make events look absent.
	events, err := r.store.Events(context.Background(), seqs)
	if err != nil {
		return nil, err
	}
	now := r.now()
	messages := make([]Message, 0, len(leases))
	var ended []core.Change
	for i, ev := range events {
		l := leases[i]
		ep, there := r.engine.Endpoint(store.Everyone(), l.Queue)
		switch {
		case !there:
		case ev == nil:
			r.log.Error("event missing or damaged; delivery failed", "delivery", r.store.IDs().Delivery(l.CreatedAt, l.Delivery),
				"event_seq", l.Event)
			ended = append(ended, core.Damaged(&ep, l, now))
		case !ev.ErasedAt.IsZero():
			ended = append(ended, core.Erased(&ep, l, now))
		case core.Overdue(&ep.Policy, l.Trigger, began(&ep.Policy, &l), l.GrantedAt):
			ended = append(ended, core.Outlived(&ep, l, now))
		default:
			messages = append(messages, Message{l, ev, r.begun(&l, ev)})
		}
	}
	if len(ended) > 0 {
		for i := range ended {
			r.granted.drop(ended[i].Lease.Token)
		}
		// A change that is not recorded now is tried again after its lease has expired.
		if _, err := r.engine.Settle(context.Background(), ended); err != nil {
			r.log.Error("ending damaged or expired deliveries failed; retried after their leases expire", "deliveries", len(ended), "err", err)
		}
	}
	return messages, nil
}

// began is when the policy of a lease's delivery began to count its age.
func began(p *policy.Policy, l *grapnel.Lease) time.Time {
	return core.Began(p, &store.Head{Attempts: l.Number - 1, Anchor: l.Anchor, Due: l.Scheduled})
}
