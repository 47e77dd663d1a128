package core

import "time"

// late keeps what has waited from taking the machine of what has not. After an outage of many endpoints a million deliveries are due, and a
// quick endpoint takes as many as it is given: the slots would not bound that, but the processor and the store, and everything new would
// stand in line with the rest.
//
// So while there are deliveries on time, those that are late share a number of places, each from its start until its outcome is durable.
// How many follows from how long outcomes take to become durable: what takes long takes long for everybody. With nobody on time there is
// nobody to protect, and no limit.
type late struct {
	places quota
	begun  []begun // attempts that have taken a place, the oldest first; some are over
	number int64   // of places ever taken
	limit  int
	usual  time.Duration // how long outcomes take to become durable when there is little to do
	now    time.Duration // and lately
	judged time.Time     // when the limit was looked at last
	prompt time.Time     // when an attempt last began that was on time
}

// begun is an attempt that has taken a place.
type begun struct {
	head  *head
	place int64
	at    time.Time
}

const (
	lateAfter   = time.Second            // what is due for longer is late
	promptFor   = 2 * time.Second        // so long after the last attempt on time there is nobody to protect
	lateRhythm  = 100 * time.Millisecond // how often the limit is looked at
	lateGrowth  = 4                      // one place more for so many, each time that all is well
	lateAllowed = time.Millisecond / 4   // so much longer than usual is too long
)

func newLate() late { return late{limit: 1} }

// isLate says whether an attempt of this head is one of those that give way. A slow endpoint does not burden the machine; it has a quota of
// its own, and would take these places for as long as it hangs.
func (ep *endpoint) isLate(now time.Time, h *head) bool {
	return !h.urgent() && !ep.gate.tripped() && ep.share.average > 0 && !ep.slow(now) &&
		(ep.gate.ramp.Recovering() || now.Sub(h.due) > lateAfter)
}

// full says whether what is late has to wait.
func (l *late) full(now time.Time) bool {
	return l.places.used >= l.limit && now.Sub(l.prompt) < promptFor
}

// took learns from an outcome that has become durable.
func (l *late) took(now time.Time, d time.Duration, most int) {
	if l.usual == 0 || d < l.usual {
		l.usual = d
	} else {
		l.usual += l.usual / 4096 // what is usual changes, slowly
	}
	l.now += (d - l.now) / 16
	if since := now.Sub(l.judged); since >= 0 && since < lateRhythm {
		return
	}
	l.judged = now
	if l.now > l.usual+lateAllowed {
		l.limit = max(l.limit/2, 1)
	} else {
		l.limit = min(l.limit+1+l.limit/lateGrowth, max(most, 1))
	}
}

// take gives an attempt a place.
func (l *late) take(now time.Time, h *head) {
	l.places.used++
	l.number++
	h.late, h.place = true, l.number
	l.begun = append(l.begun, begun{h, l.number, now})
}

// hung takes the places of attempts that hang: they do not burden the machine, and all that is late would wait for them.
func (c *Core) hung(now time.Time) {
	for l := &c.late; len(l.begun) > 0; {
		first := l.begun[0]
		takes := first.head.late && first.head.place == first.place && first.head.phase == running
		if takes && now.Sub(first.at) < tooSlow {
			return
		}
		l.begun = l.begun[1:]
		if takes {
			c.release(now, first.head)
		}
	}
}

// wake is when places are taken from attempts that hang by then; zero: nobody waits for one.
func (l *late) wake() time.Time {
	if len(l.begun) == 0 || len(l.places.refused) == 0 {
		return time.Time{}
	}
	return l.begun[0].at.Add(tooSlow)
}
