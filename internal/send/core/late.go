package core

import (
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

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

// record emits a change to be stored, together with the endpoint's standing if that has changed.
// The head cannot be attempted until the change is durable. The engine's recorder commits it and
// answers with Recorded. event names the delivery's event; it is zero if the event was not read.
func (c *Core) record(ep *endpoint, h *head, ch store.Change, news []News, event Named) {
	ch.Delivery, ch.Identity, ch.Tenant = h.Delivery, h.Identity(), ep.config.Tenant
	ch.Standing = ep.standing()
	if ch.Attempt != nil {
		ch.Expect, ch.Lone = h.Attempts, h.Lane == ""
	} else {
		ch.Expect = min(ch.Expect, store.AnyAttempts)
	}
	ch.NextDelay = ep.delay
	h.phase = recording
	ep.recording++
	h.recorded = ch.At
	h.change = &Change{Endpoint: ep.config.ID, Change: ch, News: news,
		Subject: Subject{Event: h.Event, CreatedAt: h.CreatedAt, Attempts: h.Attempts, Named: event},
		Patient: ch.Lone && ch.Status == grapnel.Delivered && ch.Standing == nil && len(news) == 0 && !c.late.some()}
	c.recording++
	c.emit(Record{h.change})
}
