package core

import "time"

// late keeps what has waited from taking the machine of what has not. After an outage of many endpoints a million deliveries are due, and a
// quick endpoint takes as many as it is given: the slots would not bound that, but the processor and the store, and everything new would
// stand in line with the rest.
//
// So while there are deliveries on time, those that are late share a number of places, each from its start until its outcome is durable. How
// many follows from how long outcomes take to become durable: what takes long takes long for everybody. With nobody on time there is
// nobody to protect, and no limit.
//
// What is usual is how long the quickest take, if the store is this process's alone: by any other measure a disk is given so much to do that others
// notice. A store that other nodes use as well varies by itself, and is seldom as quick as the quickest. There it is found out by leaving the late ones
// out: now and then they get one place for a moment, and how long outcomes take then is what is usual. That such a store is slow, or busy with what is
// on time, is no reason to keep them waiting, for it would be as slow without them; and they have as many places as there are attempts on time in
// flight, at least. (Were those counted until their outcome is durable, too, a store that gets slower would give more to who makes it slow.)
type late struct {
	Late
	slow    time.Duration // an attempt that takes longer hangs
	places  quota
	prompts int     // attempts on time that are in flight
	begun   []begun // attempts that have taken a place, or were on time, the oldest first; some are over
	number  int64   // of attempts ever noted there
	limit   int
	shared  bool          // other nodes use the store, too
	usual   time.Duration // how long outcomes take to become durable with next to nothing late among them
	now     time.Duration // and lately
	judged  time.Time     // when the limit was looked at last
	alone   int           // for so many looks there has been one place
	found   time.Time     // when it was found out what is usual
	prompt  time.Time     // when an attempt last began that was on time
}

// begun is an attempt of which it matters how long it takes.
type begun struct {
	head  *head
	place int64
	at    time.Time
}

func newLate(shared bool, b Bounds) late {
	return late{Late: b.Late, slow: b.Slow, limit: 1, shared: shared}
}

// isLate says whether an attempt of this head is one of those that give way. A slow endpoint does not burden the machine; it has a quota of
// its own, and would take these places for as long as it hangs.
func (ep *endpoint) isLate(now time.Time, h *head) bool {
	return !h.urgent() && !ep.gate.tripped() && ep.share.average > 0 && !ep.slow(now) &&
		(ep.gate.ramp.Recovering() || now.Sub(h.due) > ep.bounds.Late.After)
}

// behind says whether an endpoint has late ones of its own. What is on time there all the same, because it came while older ones were being read from
// the store, needs no protection from them; else who is behind would be kept back by itself, and never catch up.
func (ep *endpoint) behind(now time.Time) bool {
	since := now.Sub(ep.late)
	return 0 <= since && since < ep.bounds.Late.Protect
}

// full says whether what is late has to wait.
func (l *late) full(now time.Time) bool {
	return l.places.used >= l.room() && now.Sub(l.prompt) < l.Protect
}

// room is how many places there are.
func (l *late) room() int {
	if l.shared {
		return max(l.limit, l.prompts)
	}
	return l.limit
}

// took learns from an outcome that has become durable.
func (l *late) took(now time.Time, d time.Duration, most int) {
	l.now += (d - l.now) / 16
	switch {
	case l.shared:
	case l.usual == 0 || d < l.usual:
		l.usual = d
	default:
		l.usual += l.usual / 4096 // what is usual changes, slowly
	}
	if since := now.Sub(l.judged); since >= 0 && since < l.Rhythm {
		return
	}
	l.judged = now
	before, more := l.limit, min(l.limit+1+l.limit/l.Growth, max(most, 1))
	switch renew := now.Sub(l.found); {
	case !l.shared && l.now > l.usual+l.Allowed:
		l.limit = max(l.limit/2, 1)
	case !l.shared:
		l.limit = more
	case l.limit > 1 && (renew < 0 || renew > l.Renewed):
		l.limit = 1
	case l.limit > 1 && l.now > l.usual+max(l.Allowed, l.usual):
		l.limit /= 2
	case l.limit == 1 && l.alone < l.Alone:
		l.alone++
	case l.limit == 1:
		l.usual, l.found = l.now, now
		fallthrough
	default:
		l.limit = more
	}
	if l.limit != before {
		l.alone = 0
	}
}

// take gives an attempt a place.
func (l *late) take(now time.Time, h *head) {
	l.places.used++
	h.late = true
	l.note(now, h)
}

// meet takes note of an attempt that is on time.
func (l *late) meet(now time.Time, h *head) {
	l.prompt = now
	l.prompts++
	h.prompt = true
	l.note(now, h)
}

// met forgets an attempt on time, because it has ended or hangs.
func (c *Core) met(h *head) {
	if h.prompt {
		h.prompt = false
		c.late.prompts--
	}
}

func (l *late) note(now time.Time, h *head) {
	l.number++
	h.place = l.number
	l.begun = append(l.begun, begun{h, l.number, now})
}

// hung takes the places of attempts that hang: they do not burden the machine, and all that is late would wait for them. Nor do those on time
// that hang.
func (c *Core) hung(now time.Time) {
	for l := &c.late; len(l.begun) > 0; {
		first := l.begun[0]
		takes := (first.head.late || first.head.prompt) && first.head.place == first.place && first.head.phase == running
		if takes && now.Sub(first.at) < l.slow {
			return
		}
		l.begun = l.begun[1:]
		if takes {
			c.met(first.head)
			c.release(now, first.head)
		}
	}
}

// wake is when places are taken from attempts that hang by then; zero: nobody waits for one.
func (l *late) wake() time.Time {
	if len(l.begun) == 0 || len(l.places.refused) == 0 {
		return time.Time{}
	}
	return l.begun[0].at.Add(l.slow)
}
