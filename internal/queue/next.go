package queue

import (
	"context"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/core"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Next leases at most so many deliveries for a consumer, and waits for the first if there is none. Nothing after that time is no error.
func (r *Room) Next(ctx context.Context, q *grapnel.Endpoint, consumer string, most int, wait time.Duration) ([]Message, error) {
	l := r.line(q.ID)
	l.see(consumer, r.now())
	r.metrics.waiting.Add(1)
	defer r.metrics.waiting.Add(-1)
	if most = min(most, q.Queue.MaxLeased); most < 1 {
		most = 1
	}
	ends := time.NewTimer(wait)
	defer ends.Stop()
	w := &waiter{wants: make([]store.Want, most), once: wait <= 0, reply: make(chan taken, 1)}
	for until := time.Now().Add(wait); ; {
		for i := range w.wants {
			w.wants[i] = store.Want{Token: grapnel.NewToken(grapnel.LeasePrefix, r.random), Consumer: consumer, For: q.Queue.Lease, Most: q.Queue.MaxLeased}
		}
		leases, err := l.take(ctx, w, ends)
		if err != nil || len(leases) == 0 {
			return nil, err
		}
		messages, err := r.open(leases)
		switch {
		case err != nil:
			r.giveBack(leases)
			return nil, err
		case ctx.Err() != nil:
			r.giveBack(leases)
			return nil, ctx.Err()
		case len(messages) > 0:
			return messages, nil
		}
		// All of it was too old, or damaged: that is over, and there may be something behind it.
		w.asked, w.leaving, w.once = false, false, wait <= 0 || !time.Now().Before(until)
	}
}

// take waits in the line until there is something, or the time is over, or who asked has left.
func (l *line) take(ctx context.Context, w *waiter, ends *time.Timer) ([]grapnel.Lease, error) {
	if !l.join(w) {
		return nil, nil
	}
	over := ends.C
	if w.once {
		over = nil // it is answered after one look
	}
	select {
	case t := <-w.reply:
		return t.leases, t.err
	case <-over:
	case <-ctx.Done():
	}
	if l.leave(w) {
		// It may have been answered while it was about to leave.
		select {
		case t := <-w.reply:
			return t.leases, t.err
		default:
			return nil, ctx.Err()
		}
	}
	t := <-w.reply
	return t.leases, t.err
}

// open puts leases together with what they are about. What can't be handed out is ended.
func (r *Room) open(leases []grapnel.Lease) ([]Message, error) {
	seqs := make([]int64, len(leases))
	for i := range leases {
		seqs[i] = leases[i].Event
	}
	// A caller who leaves must not make events look absent.
	events, err := r.store.Events(context.Background(), seqs)
	if err != nil {
		return nil, err
	}
	now := r.now()
	messages := make([]Message, 0, len(leases))
	var ended []core.Change
	for i, ev := range events {
		l := leases[i]
		ep, there := r.street.Endpoint(store.Everyone(), l.Queue)
		switch {
		case !there:
		case ev == nil:
			r.log.Error("an event is missing or damaged", "delivery", grapnel.DeliveryID(l.CreatedAt, l.Delivery), "event_seq", l.Event)
			ended = append(ended, core.Damaged(&ep, l, now))
		case core.Overdue(&ep.Policy, l.Trigger, l.Anchor, l.GrantedAt):
			ended = append(ended, core.Outlived(&ep, l, now))
		default:
			messages = append(messages, Message{l, ev})
		}
	}
	if len(ended) > 0 {
		for i := range ended {
			r.granted.drop(ended[i].Lease.Token)
		}
		// What is not recorded now comes up again when its lease is over.
		if _, err := r.street.Settle(context.Background(), ended); err != nil {
			r.log.Error("what cannot be handed out could not be ended", "deliveries", len(ended), "error", err)
		}
	}
	return messages, nil
}
