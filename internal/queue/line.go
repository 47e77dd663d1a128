package queue

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/core"
	"github.com/grapnelhq/grapnel/internal/store"
)

// line is who waits at a queue. Its dispatcher runs while anybody does.
type line struct {
	room  *Room
	queue string
	wake  chan struct{} // holds a token when there is somebody new, or a hint

	hinted atomic.Bool // something may be due that was not before

	mu      sync.Mutex
	waiting []*waiter // in the order in which they came
	came    int       // how many have ever come
	running bool      // there is a dispatcher
	barred  bool      // something was due for which everybody who waited holds too many leases
	doubts  []string  // tokens of claims whose outcome is unknown
	seen    map[string]time.Time
	lookAt  time.Time // when the sweep has to look for leases that are over; zero: now
	ageAt   time.Time // when it has to look for what is too old
}

// waiter is one who asks. What it wants is kept with its tokens, which are as good for the next claim as for one that did not need them.
type waiter struct {
	number  int // of its coming
	wants   []store.Want
	once    bool // it does not wait
	asked   bool // what there was is known not to be for it
	claimed bool // a claim for it is on its way, and an answer may be
	leaving bool // it has had enough, and is only there because a claim is on its way
	reply   chan taken
}

// taken is the answer to a waiter.
type taken struct {
	leases []grapnel.Lease
	err    error
}

// nudge has the dispatcher look again, if there is one. It never waits.
func (l *line) nudge() {
	l.hinted.Store(true)
	l.call()
}

// call wakes the dispatcher.
func (l *line) call() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// unbar has it look again if somebody may hold fewer leases than before.
func (l *line) unbar() {
	l.mu.Lock()
	barred := l.barred
	l.mu.Unlock()
	if barred {
		l.nudge()
	}
}

// join puts somebody at the end of the line; false: the room is not open.
func (l *line) join(w *waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.running {
		if !l.room.begin(l) {
			return false
		}
		l.running = true
	}
	l.came++
	w.number = l.came
	l.waiting = append(l.waiting, w)
	l.call()
	return true
}

// leave takes somebody out of the line. true: it is out, and gets nothing; false: its answer is on its way.
func (l *line) leave(w *waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.claimed {
		w.leaving = true
		return false
	}
	l.remove(w)
	return true
}

func (l *line) remove(w *waiter) {
	l.waiting = slices.DeleteFunc(l.waiting, func(other *waiter) bool { return other == w })
}

// dispatch serves the line until nobody waits in it any more.
func (l *line) dispatch(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var until time.Time // when it is time to look without a hint
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
		l.room.log.Error("leases could not be claimed", "queue", l.queue, "error", err)
		if !rest(ctx, pause(failures)) {
			continue
		}
	}
}

// pause is how long to wait after so many failures in a row.
func pause(failures int) time.Duration {
	return min(50*time.Millisecond<<min(failures-1, 7), 5*time.Second)
}

// page are those who are asked for next.
func (l *line) page() (page []*waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	wants := 0
	for _, w := range l.waiting {
		if w.asked {
			continue
		}
		if wants += len(w.wants); wants > l.room.bounds.Claim && len(page) > 0 {
			break
		}
		w.asked, w.claimed = true, true
		page = append(page, w)
	}
	return page
}

// done says that nobody waits and nothing is in doubt, and that the dispatcher ends therefore.
func (l *line) done() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running = len(l.waiting) > 0 || len(l.doubts) > 0
	return !l.running
}

// again makes everybody worth asking for once more.
func (l *line) again() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.waiting {
		w.asked = false
	}
}

// close answers everybody that there is nothing.
func (l *line) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.waiting {
		w.reply <- taken{}
	}
	l.waiting, l.running = nil, false
}

// serve makes one claim for those in page and answers those who got something. It returns for how long nothing more is to be
// expected but hints.
func (l *line) serve(page []*waiter) (time.Duration, error) {
	r := l.room
	ep, there := r.street.Endpoint(store.Everyone(), l.queue)
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
		wants = append(wants, w.wants...)
	}
	l.mu.Lock()
	came := l.came
	l.mu.Unlock()
	// A claim that is under way is not given up with the room: whether it was granted has to be known.
	now := r.now()
	claimed, err := r.store.Claim(context.Background(), store.Claim{Queue: l.queue, Wants: wants, Now: now})
	if err != nil {
		if grapnel.CodeOf(err) == "" {
			l.doubt(page)
		}
		l.answer(page, nil, err)
		return r.bounds.Poll, err
	}
	r.granted.put(claimed.Leases)
	r.metrics.claimed(claimed.Leases)
	if ep, there = r.street.Endpoint(store.Everyone(), l.queue); !there || !active(&ep) {
		// It was stopped meanwhile, and whoever stopped it may have been told so already.
		l.answer(page, nil, nil)
		r.giveBack(claimed.Leases)
		return r.bounds.Poll, nil
	}
	l.expect(claimed.Leases)
	l.answer(page, claimed.Leases, nil)
	if len(claimed.Over) > 0 && r.runOut(&ep, claimed.Over) {
		l.again() // what was behind them may be due now
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

// answer gives leases to those who wanted them. Those who got none go on waiting, unless they do not want to, or there is an error.
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

// nothing takes in that there is nothing more for anybody who had come by then, so that a long line is not asked one page after the other.
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

// doubt remembers the tokens of a claim whose outcome is unknown. Nobody has them, so they are given back if they were granted; whoever
// wanted them gets others.
func (l *line) doubt(page []*waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range page {
		for _, want := range w.wants {
			l.doubts = append(l.doubts, want.Token)
		}
	}
}

// clear finds out what became of the claims in doubt.
func (l *line) clear() {
	l.mu.Lock()
	doubts := l.doubts
	l.mu.Unlock()
	if len(doubts) == 0 {
		return
	}
	var unwanted []grapnel.Lease
	for _, token := range doubts {
		lease, err := l.room.store.Lease(context.Background(), token)
		switch {
		case err == nil:
			unwanted = append(unwanted, lease)
		case grapnel.CodeOf(err) != grapnel.CodeNotFound:
			return // as long as nothing can be read, nothing can be claimed either
		}
	}
	l.room.giveBack(unwanted)
	l.mu.Lock()
	l.doubts = l.doubts[len(doubts):]
	l.mu.Unlock()
}

// Release gives leases back of which nobody has learnt, or whose messages are known not to have arrived. It counts as no attempt.
func (r *Room) Release(leases []grapnel.Lease) { r.giveBack(leases) }

// giveBack undoes leases of which nobody has learnt.
func (r *Room) giveBack(leases []grapnel.Lease) {
	now := r.now()
	var changes []core.Change
	for i := range leases {
		r.granted.drop(leases[i].Token)
		if ep, there := r.street.Endpoint(store.Everyone(), leases[i].Queue); there {
			changes = append(changes, core.GiveBack(&ep, leases[i], now))
		}
	}
	if len(changes) == 0 {
		return
	}
	for try := 1; ; try++ {
		_, err := r.street.Settle(context.Background(), changes)
		if err == nil {
			r.metrics.returned.Add(float64(len(changes)))
			return
		}
		if try == r.bounds.GiveBack {
			r.log.Error("leases that reached nobody could not be given back; they will run out", "leases", len(changes), "error", err)
			return
		}
		rest(context.Background(), pause(try))
	}
}
