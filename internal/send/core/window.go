package core

import (
	"cmp"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

const (
	idle      phase = iota // in waiting, may be attempted when due
	running                // an attempt is in flight
	recording              // a change is on its way to the store
)

// next is the head to attempt first: an urgent one that is due, else the one with the earliest due
// time. nil: no head is idle.
func (w *window) next(now time.Time) *head {
	for i, h := range w.waiting {
		if !h.due.After(now) || !h.urgent() || i == len(w.waiting)-1 {
			return h
		}
	}
	return nil
}

// fresh is the first due head that is no retry and no replay; nil: none.
func (w *window) fresh(now time.Time) *head {
	for _, h := range w.waiting {
		if h.due.After(now) {
			if h.urgent() {
				continue // it waits after a fault of this process; the others may be due
			}
			break
		}
		if !h.again() {
			return h
		}
	}
	return nil
}

// put makes a head idle. If the window is full, the head that is due last leaves it.
func (w *window) put(now time.Time, h *head) {
	if h.due.After(now.Add(w.bounds.Horizon)) {
		w.drop(h)
		return
	}
	if next := w.reserve.first(); next != nil && !h.urgent() && compareReserved(next, &store.Head{Due: h.due, Delivery: h.Delivery}) < 0 {
		w.spill(h)
		return
	}
	h.phase = idle
	w.oldest = earliest(w.oldest, h.Anchor)
	w.heads[h.Delivery] = h
	at, _ := slices.BinarySearchFunc(w.waiting, h, compareHeads)
	w.waiting = slices.Insert(w.waiting, at, h)
	if len(w.heads) > w.size && len(w.waiting) > 0 {
		last := w.waiting[len(w.waiting)-1]
		w.waiting = w.waiting[:len(w.waiting)-1]
		w.spill(last)
	}
}

// spill moves a head from the window to the reserve. A head whose due time here is not the stored
// one, and an urgent one, stay in the store only.
func (w *window) spill(h *head) {
	if h.urgent() || !h.due.Equal(h.Due) {
		w.drop(h)
		return
	}
	w.remove(h)
	if left := w.reserve.add(h.Head); !left.IsZero() {
		w.chill(left)
	}
}

// refill moves heads from the reserve into the window, up to the first that is only in the store.
func (w *window) refill(now time.Time) {
	for len(w.heads) < w.size {
		next := w.reserve.first()
		if next == nil || !w.cold.IsZero() && w.cold.Before(next.Due) {
			return
		}
		w.reserve.remove(next.Delivery)
		w.put(now, &head{Head: *next, due: next.Due})
	}
}

// known is a delivery in the window or in the reserve, or nil.
func (w *window) known(delivery int64) *store.Head {
	if h := w.heads[delivery]; h != nil {
		return &h.Head
	}
	return w.reserve.by[delivery]
}

// drop removes a head that stays in the store.
func (w *window) drop(h *head) {
	w.chill(h.due)
	w.remove(h)
}

// remove deletes a head from the window. It must not be in waiting.
func (w *window) remove(h *head) {
	delete(w.heads, h.Delivery)
	if w.loading {
		w.touched[h.Delivery] = true
	}
}

// unline takes an idle head out of waiting.
func (w *window) unline(h *head) {
	if at, found := slices.BinarySearchFunc(w.waiting, h, compareHeads); found {
		w.waiting = slices.Delete(w.waiting, at, at+1)
	}
}

// doubt plans another read of the heads, because the store contradicts the window. It waits first,
// so that a store that keeps contradicting itself is not read in a tight loop.
func (w *window) doubt(now time.Time) {
	w.chill(now)
	w.retryAt = latest(w.retryAt, now.Add(w.bounds.Retry))
}

// park removes all idle heads; they stay in the store. A page on its way may show deliveries that
// are ended before it arrives, so it becomes stale.
func (w *window) park() {
	w.stale = w.loading
	if next := w.reserve.first(); next != nil {
		w.chill(next.Due)
	}
	w.reserve.clear()
	for _, h := range w.waiting {
		w.drop(h)
	}
	w.waiting = w.waiting[:0]
}

// forgetPlans removes idle heads that are due later, because their times have changed in the store,
// and has them read again.
func (w *window) forgetPlans(now time.Time) {
	w.stale = w.loading
	w.waiting = slices.DeleteFunc(w.waiting, func(h *head) bool {
		later := h.due.After(now) && !h.urgent()
		if later {
			w.drop(h)
		}
		return later
	})
	w.reserve.cut(now)
	w.chill(now)
}

// obey makes the urgent heads due: an operator asked for their attempts at once.
func (w *window) obey(now time.Time) {
	for _, h := range w.waiting {
		if h.urgent() && h.due.After(now) {
			h.due = now
		}
	}
	slices.SortFunc(w.waiting, compareHeads)
}

// wantsPage says whether a page should be read once pageAt is reached.
func (w *window) wantsPage() bool {
	return !w.loading && !w.cold.IsZero() && w.before(w.cold) <= w.size/2
}

// before counts the heads in the window that come before one due at the given time.
func (w *window) before(due time.Time) int {
	at, _ := slices.BinarySearchFunc(w.waiting, due, func(h *head, due time.Time) int {
		if h.urgent() || !h.due.After(due) {
			return -1
		}
		return 1
	})
	return len(w.heads) - len(w.waiting) + at
}

func (w *window) pageAt() time.Time {
	at := w.cold.Add(-w.bounds.Lead)
	if at.Before(w.retryAt) {
		return w.retryAt
	}
	return at
}

// urgent says whether an operator asked for the attempt. A probe that the gate started is not
// urgent; a probe that an operator ordered has its trigger from the store.
func (h *head) urgent() bool {
	return h.Trigger == grapnel.TriggerManual || h.Trigger == grapnel.TriggerTest || h.Trigger == grapnel.TriggerProbe
}

// again says whether the delivery's event was sent to its endpoint before, by this delivery or by
// one that a replay repeats. New events do not wait for such deliveries.
func (h *head) again() bool { return h.Attempts > 0 || h.Trigger == grapnel.TriggerReplay }

// trigger is the trigger of the head's next attempt, or of the one in flight.
func (h *head) trigger() grapnel.Trigger {
	if h.probe {
		return grapnel.TriggerProbe
	}
	return h.Trigger
}

func compareHeads(a, b *head) int {
	if a.urgent() != b.urgent() {
		if a.urgent() {
			return -1
		}
		return 1
	}
	return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.Delivery, b.Delivery))
}

// load asks for a page when heads in the store are due and the window has space, or when the poll
// is due in case a hint was lost.
func (c *Core) load(now time.Time, ep *endpoint) {
	w := &ep.window
	if !ep.open() || w.loading || c.draining {
		return
	}
	polled := !ep.pollAt.After(now)
	if polled {
		ep.pollAt = now.Add(c.bounds.Poll)
	}
	if !polled && (!w.wantsPage() || w.pageAt().After(now)) || w.retryAt.After(now) {
		return
	}
	w.loading = true
	w.colder, w.cold = w.cold, time.Time{} // the page sets it again; heads chilled meanwhile count as well
	clear(w.touched)
	// The page starts with the heads that are already in the window, so ask for that many more.
	c.emit(Load{Endpoint: ep.config.ID, Limit: w.size + len(w.heads)})
}

// chillBehind notes that there may be more heads in the store behind a full page, whose last head
// is due at the given time. complete says that all its heads were in memory. If the reserve goes on
// behind the page as well, then hints have brought the backlog, and it is not read back. A head
// whose hint was lost is found by a poll, once it is among the first.
func (w *window) chillBehind(last time.Time, complete bool) {
	switch {
	case !complete || !w.reserve.reaches(last):
		w.chill(last)
	case w.colder.After(last):
		w.chill(w.colder)
	}
}

// supplant removes an idle delivery whose row id belongs to another one now, and a remembered one
// that has another due time now: the store has gone back. With the time from before, a page full of
// such heads would count as in memory, and none would enter the window.
func (w *window) supplant(by *store.Head) {
	if old := w.heads[by.Delivery]; old != nil && old.phase == idle && !old.Same(by) {
		w.unline(old)
		w.remove(old)
	}
	old := w.reserve.by[by.Delivery]
	if old != nil && (!old.Same(by) || !w.touched[by.Delivery] && old.Due.UnixMicro() != by.Due.UnixMicro()) {
		w.reserve.remove(by.Delivery)
	}
}

// admit makes a head idle unless it is in memory already.
func (c *Core) admit(now time.Time, ep *endpoint, sh store.Head) {
	w := &ep.window
	c.seen.add(sh.Delivery)
	if w.known(sh.Delivery) != nil || sh.Blocked || sh.Endpoint != ep.config.ID {
		return
	}
	sh.Endpoint = ep.config.ID // one string for all heads
	h := &head{Head: sh, due: sh.Due}
	switch {
	case ahead(now, &sh):
		h.due, h.Anchor = now, now
	case begunAhead(now, &sh):
		h.Anchor = now
	}
	w.put(now, h)
}

// ahead says whether a head was planned by a clock that was ahead and has been set right. Its own
// time may never come, and deliveries behind it in its lane would wait for it. A delivery that a
// right clock has planned was never due further ahead than a policy may reach. One that is due
// before its anchor was begun by the wrong clock and planned by the right one: it keeps its time.
func ahead(now time.Time, h *store.Head) bool {
	return h.Due.After(now.Add(policy.MaxAge)) || begunAhead(now, h) && !h.Due.Before(h.Anchor)
}

// begunAhead says whether a clock that was ahead began to count a head's age.
func begunAhead(now time.Time, h *store.Head) bool { return h.Anchor.After(now.Add(time.Hour)) }

// alarm is the next time at which an endpoint must be refreshed without an input; zero: never.
// Times that have passed are left out, because refresh has acted on them already, so the alarm is
// in the future.
func (c *Core) alarm(now time.Time, ep *endpoint) time.Time {
	var at time.Time
	soonest := func(t time.Time) {
		if t.After(now) {
			at = earliest(at, t)
		}
	}
	switch {
	case c.draining:
	case !ep.open():
		soonest(ep.endAt)
	default:
		ep.gate.opensAt(now, soonest)
		soonest(ep.makeDueAt)
		if ep.makeDue && !ep.gate.tripped() {
			soonest(ep.gate.trust.Next(now))
		}
		if longest := ep.config.Policy.MaxAge.Std(); longest > 0 && !ep.window.oldest.IsZero() && ep.gate.barred(now) {
			soonest(ep.window.oldest.Add(longest + time.Nanosecond))
		}
		for _, h := range ep.window.waiting {
			if soonest(h.due); !h.urgent() {
				break // the others are due later
			}
		}
		if !ep.window.loading {
			soonest(ep.pollAt)
			soonest(ep.window.retryAt)
		}
		if ep.window.wantsPage() {
			soonest(ep.window.pageAt())
		}
	}
	return at
}
