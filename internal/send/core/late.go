package core

import "time"

// late limits overdue deliveries so that they do not slow down those on time. After an outage of
// many endpoints a million deliveries may be due. The slots do not bound the load on the processor
// and the store, because a quick endpoint uses each slot many times per second, and every new
// delivery would queue behind the backlog.
//
// So while attempts on time happen, late ones share a limited number of slots. An attempt holds its
// slot from its start until its outcome is durable. The limit follows the time that outcomes take
// to become durable. Without attempts on time there is no limit.
//
// On a private store the baseline (usual) is the fastest commit seen. Any looser baseline lets late
// deliveries load the disk until on-time traffic suffers. A shared store varies by itself and
// seldom reaches its fastest commit. There the baseline is measured: now and then the limit falls
// to one for Bounds.Alone checks, and the commit time at the end of them becomes the baseline. A
// shared store that is slow, or busy with traffic on time, would be as slow without late
// deliveries, so the limit is at least the number of attempts on time in flight. Those leave the
// count when their request ends, not when their outcome is durable; otherwise a slower store would
// raise the limit of the deliveries that slow it down.
type late struct {
	Late
	slow    time.Duration // an attempt that takes longer counts as hanging
	places  quota
	freed   bool    // one became free in this step
	prompts int     // attempts on time in flight
	begun   []begun // attempts that are late or on time, oldest first; some have finished
	number  int64   // attempts ever added to begun
	limit   int
	shared  bool          // other nodes use the store too
	usual   time.Duration // baseline: time to become durable with almost no late attempts
	now     time.Duration // moving average of the time to become durable
	judged  time.Time     // time of the last check
	alone   int           // consecutive checks at limit 1
	found   time.Time     // when usual was measured last (shared store)
	prompt  time.Time     // when an attempt on time last began
}

// begun is an attempt whose duration can free its slot.
type begun struct {
	head  *head
	place int64
	at    time.Time
}

func newLate(shared bool, b Bounds) late {
	return late{Late: b.Late, slow: b.Slow, limit: 1, shared: shared}
}

// isLate says whether an attempt of this head is limited as late. A slow endpoint loads the machine
// little and has a quota of its own; it would hold these slots for as long as it hangs.
func (ep *endpoint) isLate(now time.Time, h *head) bool {
	return !h.urgent() && !ep.gate.tripped() && ep.share.average > 0 && !ep.slow(now) &&
		(ep.gate.ramp.Recovering() || now.Sub(h.due) > ep.bounds.Late.After)
}

// behind says whether the endpoint had late attempts recently. Its attempts on time then need no
// protection from late ones: with protection the endpoint's new deliveries would limit its own
// backlog, and it would never catch up.
func (ep *endpoint) behind(now time.Time) bool {
	since := now.Sub(ep.late)
	return 0 <= since && since < ep.bounds.Late.Protect
}

// full says whether late heads have to wait.
func (l *late) full(now time.Time) bool {
	return l.places.used >= l.allowance() && now.Sub(l.prompt) < l.Protect
}

// some says whether late attempts are in flight, or late heads wait for a slot. Then all outcomes
// are recorded at once: the limit follows how long that takes.
func (l *late) some() bool { return l.places.used > 0 || len(l.places.refused) > 0 }

// allowance is the number of slots for late attempts.
func (l *late) allowance() int {
	if l.shared {
		return max(l.limit, l.prompts)
	}
	return l.limit
}

// took learns from an outcome that has become durable after d.
func (l *late) took(now time.Time, d time.Duration, most int) {
	l.now += (d - l.now) / 16
	switch {
	case l.shared:
	case l.usual == 0 || d < l.usual:
		l.usual = d
	default:
		l.usual += l.usual / 4096 // let the baseline rise slowly
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

// take gives a late attempt a slot.
func (l *late) take(now time.Time, h *head) {
	l.places.used++
	h.late = true
	l.note(now, h)
}

// release frees a late attempt's slot. passOn looks at the endpoints that wait for one, once in a
// step. Otherwise each of many outcomes in an input would wake as many endpoints as slots have
// become free so far.
func (c *Core) release(h *head) {
	if h.late {
		h.late, c.late.freed = false, true
		c.late.places.used--
	}
}

// passOn gives freed slots to endpoints with late heads.
func (c *Core) passOn(now time.Time) {
	if c.late.freed {
		c.late.freed = false
		c.look(now, &c.late.places, c.late.allowance())
	}
}

// meet counts an attempt that is on time.
func (l *late) meet(now time.Time, h *head) {
	l.prompt = now
	l.prompts++
	h.prompt = true
	l.note(now, h)
}

// met stops counting an attempt on time, because it has ended or hangs.
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

// hung frees the slots of attempts that hang: they do not load the machine, and all late heads
// would wait for them. Attempts on time that hang stop counting as well.
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
			c.release(first.head)
		}
	}
}

// wake is when the oldest attempt counts as hanging; zero: no endpoint waits for a late slot.
func (l *late) wake() time.Time {
	if len(l.begun) == 0 || len(l.places.refused) == 0 {
		return time.Time{}
	}
	return l.begun[0].at.Add(l.slow)
}
