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

// join appends a waiter to the line; false: Run has ended.
func (l *line) join(w *waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.running {
		if !l.broker.begin(l) {
			return false
		}
		l.running = true
	}
	l.came++
	w.number = l.came
	l.waiting = append(l.waiting, w)
	backoff.Wake(l.wake)
	return true
}

// leave answers a waiter with no lease, unless its answer is on its way or it has got one.
func (l *line) leave(w *waiter, because error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case w.claimed:
		w.leaving = true
	case slices.Contains(l.waiting, w):
		l.remove(w)
		w.reply <- taken{err: because}
	}
}

func (l *line) remove(w *waiter) {
	l.waiting = slices.DeleteFunc(l.waiting, func(other *waiter) bool { return other == w })
}

// dispatch serves the line until it has no waiters.
func (l *line) dispatch(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var until time.Time // when to ask the store without a hint
	for failures := 0; ; {
		if ctx.Err() != nil {
			l.close()
			return
		}
		l.clear()
		if l.hinted.Swap(false) {
			l.again()
		}
		page := l.page()
		if len(page) == 0 {
			if l.done() {
				return
			}
			timer.Reset(time.Until(until))
			select {
			case <-l.wake:
			case <-timer.C:
				until = time.Now().Add(l.broker.bounds.Poll) // unless a claim follows
				l.again()
			case <-ctx.Done():
			}
			continue
		}
		sleep, err := l.serve(page)
		until = time.Now().Add(sleep)
		if err == nil {
			failures = 0
			continue
		}
		failures++
		if n := l.broker.unclaimed.Add(1); backoff.Tells(int(n)) {
			l.broker.log.Error("claiming leases failed; retrying", "queue", l.queue, "failures", n, "err", err)
		}
		if !backoff.Wait(ctx.Done(), backoff.Store.After(failures)) {
			continue
		}
	}
}

// page marks and returns the waiters of the next claim.
func (l *line) page() (page []*waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	wants := 0
	for _, w := range l.waiting {
		if w.asked {
			continue
		}
		if wants += len(w.wants); wants > l.broker.bounds.Claim && len(page) > 0 {
			break
		}
		w.asked, w.claimed = true, true
		page = append(page, w)
	}
	return page
}

// done says whether the line has no waiters and no claim in doubt, so that the dispatcher ends.
func (l *line) done() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running = len(l.waiting) > 0 || len(l.doubts) > 0
	return !l.running
}

// again makes every waiter part of the next claims.
func (l *line) again() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.waiting {
		w.asked = false
	}
}

// close answers every waiter with no lease.
func (l *line) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.waiting {
		w.reply <- taken{}
	}
	l.waiting, l.running = nil, false
}

// serve makes one claim for the waiters of page and answers those that got leases. It returns how
// long the store has nothing more unless a hint comes.
func (l *line) serve(page []*waiter) (time.Duration, error) {
	r := l.broker
	ep, there := r.engine.Endpoint(store.Everyone(), l.queue)
	if !there {
		l.answer(page, nil, store.ErrNotFound("queue"))
		return r.bounds.Poll, nil
	}
	if !active(&ep) {
		l.answer(page, nil, nil)
		return r.bounds.Poll, nil
	}
	var wants []store.Want
	for _, w := range page {
		for _, want := range w.wants {
			want.For, want.Most = ep.Queue.Lease, ep.Queue.MaxLeased // as they are now: the waiter may have joined before a change
			wants = append(wants, want)
		}
	}
	l.mu.Lock()
	came := l.came
	l.mu.Unlock()
	// The claim does not end with Run's context: its outcome has to be known.
	now := r.now()
	claimed, err := r.store.Claim(context.Background(), store.Claim{Queue: l.queue, Wants: wants, Now: now})
	if err != nil {
		if grapnel.CodeOf(err) == "" {
			l.doubt(page)
		}
		l.answer(page, nil, err)
		return r.bounds.Poll, err
	}
	r.unclaimed.Store(0)
	r.granted.put(claimed.Leases)
	r.metrics.claimed(claimed.Leases)
	if ep, there = r.engine.Endpoint(store.Everyone(), l.queue); !there || !active(&ep) {
		// The queue was stopped during the claim, and the operator may have been answered already.
		l.answer(page, nil, nil)
		r.Release(claimed.Leases)
		return r.bounds.Poll, nil
	}
	l.expect(claimed.Leases)
	l.answer(page, claimed.Leases, nil)
	if len(claimed.Over) > 0 && r.runOut(&ep, claimed.Over) {
		l.again() // deliveries behind them may be due now
	}
	more := !claimed.Next.IsZero() && !claimed.Next.After(now)
	l.mu.Lock()
	l.barred = more
	l.mu.Unlock()
	if more {
		return r.bounds.Barred, nil
	}
	l.nothing(came)
	if claimed.Next.IsZero() {
		return r.bounds.Poll, nil
	}
	return min(max(claimed.Next.Sub(r.now()), time.Millisecond), r.bounds.Poll), nil
}

// answer passes leases to the waiters that wanted them. A waiter without a lease goes on waiting,
// unless it asked for one claim only, has left, or err is set.
func (l *line) answer(page []*waiter, leases []grapnel.Lease, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range page {
		w.claimed = false
		var own []grapnel.Lease
		// Leases come in the order of the wants, so a waiter's are together.
		for len(leases) > 0 && slices.ContainsFunc(w.wants, func(want store.Want) bool { return want.Token == leases[0].Token }) {
			own, leases = append(own, leases[0]), leases[1:]
		}
		if len(own) > 0 || err != nil || w.once || w.leaving {
			l.remove(w)
			w.reply <- taken{own, err}
		}
	}
}

// nothing marks every waiter that had come by then as asked, because the store had nothing more for
// any of them. Without it a long line would be claimed for page by page.
func (l *line) nothing(came int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = slices.DeleteFunc(l.waiting, func(w *waiter) bool {
		if w.number > came || w.asked {
			return false
		}
		if w.asked = true; w.once {
			w.reply <- taken{}
		}
		return w.once
	})
}

// doubt remembers the tokens of a claim whose outcome is unknown. No consumer gets them: if they
// were granted they are returned. The waiters go on waiting.
func (l *line) doubt(page []*waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range page {
		for _, want := range w.wants {
			l.doubts = append(l.doubts, want.Token)
		}
	}
}

// clear reads the leases of claims in doubt, and returns those that were granted. A slow store may
// still be committing such a claim. A claim without wants returns after that, as a store runs the
// claims of a queue one after another.
func (l *line) clear() {
	l.mu.Lock()
	doubts := l.doubts
	l.mu.Unlock()
	if len(doubts) == 0 {
		return
	}
	unwanted, err := l.granted(doubts)
	if err == nil && len(unwanted) < len(doubts) {
		_, err = l.broker.store.Claim(context.Background(), store.Claim{Queue: l.queue, Now: l.broker.now()})
		if err == nil {
			unwanted, err = l.granted(doubts)
		}
	}
	if err != nil {
		return // while the store cannot be read, it cannot be asked for leases either
	}
	l.broker.Release(unwanted)
	l.mu.Lock()
	l.doubts = l.doubts[len(doubts):]
	l.mu.Unlock()
}

// granted reads the leases of tokens, without those that the store does not have.
func (l *line) granted(tokens []string) (leases []grapnel.Lease, err error) {
	for _, token := range tokens {
		lease, err := l.broker.store.Lease(context.Background(), token)
		switch {
		case err == nil:
			leases = append(leases, lease)
		case grapnel.CodeOf(err) != grapnel.CodeNotFound:
			return nil, err
		}
	}
	return leases, nil
}

// Release returns leases that no consumer has received, or whose messages are known not to have
// arrived. It counts as no attempt.
func (r *Broker) Release(leases []grapnel.Lease) {
	now := r.now()
	var changes []core.Change
	for i := range leases {
		r.granted.drop(leases[i].Token)
		if ep, there := r.engine.Endpoint(store.Everyone(), leases[i].Queue); there {
			changes = append(changes, core.GiveBack(&ep, leases[i], now))
		}
	}
	if len(changes) == 0 {
		return
	}
	for try := 1; ; try++ {
		results, err := r.engine.Settle(context.Background(), changes)
		for i := range results {
			if results[i].Applied { // else it had expired, or its consumer got it after all and settled it
				r.metrics.returned.Inc()
			}
		}
		if err == nil {
			return
		}
		if try == r.bounds.GiveBack {
			r.log.Error("returning leases failed; they will expire", "leases", len(changes), "err", err)
			return
		}
		backoff.Wait(nil, backoff.Store.After(try))
	}
}

// begin starts a line's dispatcher; false: Run has ended.
func (r *Broker) begin(l *line) bool {
	r.door.Lock()
	defer r.door.Unlock()
	if r.ctx.Err() != nil {
		return false
	}
	r.work.Go(func() { l.dispatch(r.ctx) })
	return true
}
