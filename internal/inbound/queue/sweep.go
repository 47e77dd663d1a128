package queue

import (
	"context"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/store"
)

// sweepUntil sweeps at every tick until ctx ends.
func (r *Broker) sweepUntil(ctx context.Context) {
	for n := 0; n == 0 || backoff.Wait(ctx.Done(), r.bounds.Sweep); n++ {
		r.Sweep(ctx)
		if n%60 == 59 {
			r.granted.forget(r.now().Add(-r.bounds.Forget))
		}
	}
}

// Sweep records expired leases and ends deliveries older than max_age, in every queue where some
// may be due. Run calls it every second.
func (r *Broker) Sweep(ctx context.Context) {
	now := r.now()
	r.mu.Lock()
	if r.swept.Sub(now) > time.Hour {
		r.setBacks++
	}
	r.swept = now
	setBacks := r.setBacks
	r.mu.Unlock()
	failed, in, first := 0, "", error(nil)
	for _, ep := range r.engine.Queues(store.Everyone()) {
		l := r.line(ep.ID)
		err := l.sweepLeases(ctx, &ep)
		if err == nil {
			err = l.sweepAges(ctx, &ep)
		}
		if err == nil {
			err = l.sweepAhead(ctx, &ep, setBacks)
		}
		if err == nil || ctx.Err() != nil {
			continue
		}
		if failed++; first == nil {
			in, first = ep.ID, err
		}
	}
	if failed == 0 {
		r.failures = 0
	} else if r.failures++; backoff.Tells(r.failures) {
		r.log.Error("ending expired leases and old deliveries failed; retrying at the next sweep", "queues", failed, "queue", in,
			"failures", r.failures, "err", first)
	}
	r.tidy()
}

// tidy removes the lines of deleted queues.
func (r *Broker) tidy() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, l := range r.lines {
		l.mu.Lock()
		idle := !l.running
		l.mu.Unlock()
		if _, there := r.engine.Endpoint(store.Everyone(), id); idle && !there {
			delete(r.lines, id)
		}
	}
}

// due says whether a time has come, and moves it on.
func due(at *time.Time, now time.Time, every time.Duration) bool {
	if backoff.Early(now, *at, every) {
		return false
	}
	*at = now.Add(every)
	return true
}

// lookAgain has the next sweep read the store, because this one recorded nothing.
func (l *line) lookAgain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lookAt = time.Time{}
}

func (l *line) sweepLeases(ctx context.Context, ep *grapnel.Endpoint) error {
	now := l.broker.now()
	l.mu.Lock()
	look := due(&l.lookAt, now, l.broker.bounds.Look)
	l.mu.Unlock()
	for look {
		leases, err := l.broker.store.LeaseList(ctx, ep.ID, l.broker.bounds.Over)
		if err != nil {
			l.lookAgain()
			return err
		}
		var over, valid []grapnel.Lease
		for _, lease := range leases {
			if lease.Until.After(now) && !store.GrantedAhead(lease.Until, now) {
				valid = append(valid, lease)
			} else {
				over = append(over, lease)
			}
		}
		l.expect(valid)
		if len(over) > 0 && !l.broker.runOut(ep, over) {
			l.lookAgain()
			return nil
		}
		look = len(over) == l.broker.bounds.Over && ctx.Err() == nil
	}
	return nil
}

// sweepAhead makes deliveries due that a clock that was ahead has planned. It looks for them at the
// first sweep of a queue, and each time that the clock was set back, until a page has all heads.
func (l *line) sweepAhead(ctx context.Context, ep *grapnel.Endpoint, setBacks int) error {
	r, now := l.broker, l.broker.now()
	l.mu.Lock()
	look := l.recalled < setBacks && due(&l.aheadAt, now, r.bounds.Look)
	l.mu.Unlock()
	if !look || !active(ep) {
		return nil
	}
	heads, err := r.store.Heads(ctx, ep.ID, r.bounds.Over)
	if err != nil {
		return err
	}
	var planned []core.Change
	for _, h := range heads {
		if core.Ahead(now, h) {
			planned = append(planned, core.Recalled(ep, h, now))
		}
	}
	if len(planned) > 0 {
		if _, err := r.engine.Settle(ctx, planned); err != nil {
			return err
		}
	}
	if len(heads) < r.bounds.Over {
		l.mu.Lock()
		l.recalled = setBacks
		l.mu.Unlock()
	}
	return nil
}

// sweepAges ends deliveries older than max_age. Heads come in the order of their due times, and a
// delivery is due before it is too old. Deliveries that an operator asked for never become too old
// and are skipped without limit. At most Bounds.Fresh younger ones are skipped: behind them may be
// older deliveries that were retried, which end at the latest when those in front do.
func (l *line) sweepAges(ctx context.Context, ep *grapnel.Endpoint) error {
	longest := ep.Policy.MaxAge.Std()
	if longest == 0 || !active(ep) {
		return nil
	}
	r, now := l.broker, l.broker.now()
	l.mu.Lock()
	look := due(&l.ageAt, now, min(max(longest/10, r.bounds.Sweep), r.bounds.Look))
	l.mu.Unlock()
	for limit := r.bounds.Over; look; {
		heads, err := r.store.Heads(ctx, ep.ID, limit)
		if err != nil {
			return err
		}
		var old []core.Change
		fresh := 0
		for _, h := range heads {
			switch {
			case h.Blocked || h.Due.After(now):
			case core.Overdue(&ep.Policy, h.Trigger, core.Began(&ep.Policy, &h), now):
				old = append(old, core.Expired(ep, h, now))
			case !core.Ageless(h.Trigger):
				fresh++
			}
		}
		ended := false
		for page := range slices.Chunk(old, r.bounds.Over) {
			results, err := r.engine.Settle(ctx, page)
			if err != nil {
				return err
			}
			for i := range results {
				ended = ended || results[i].Applied
			}
		}
		full := len(heads) == limit && !heads[limit-1].Due.After(now)
		refused := len(old) > 0 && !ended // by the store: their tenant is moving
		look = full && !refused && fresh <= r.bounds.Fresh && ctx.Err() == nil
		if !ended {
			limit *= 2 // the next read starts with the same heads: ask for as many after them
		}
	}
	return nil
}
