package policy

import (
	"cmp"
	"slices"
	"time"
)

// start begins an attempt.
func (r *simulation) start(i int) {
	e := &r.events[i]
	if e.attempts == 0 {
		e.anchor = r.now
	}
	e.attempts++
	e.phase, e.started, e.probe = flyingEvent, r.now, r.standing.Open()
	r.attempts = append(r.attempts, r.now)
	if e.probe {
		r.probes++
		r.probing = true
	} else if r.gated {
		r.ramp.Start(moment(r.now))
	}
	outcome, took := r.Outage.meet(r.now, r.Policy.Timeout, unit(^r.seed(i), uint64(e.attempts)))
	e.outcome = outcome
	if took == 0 && !r.gated {
		r.land(i) // it affects only its own lane
		return
	}
	r.flying++
	r.landing.put(appointment{r.now + took, i})
}

// land ends an attempt.
func (r *simulation) land(i int) {
	e := &r.events[i]
	e.over = r.now
	step := r.Policy.After(r.progress(i), e.outcome, moment(r.now))
	r.judge(i, step)
	switch {
	case step.Decision == Deliver:
		e.phase = deliveredEvent
	case step.Exhausted:
		e.phase = exhaustedEvent
	case step.Next.IsZero():
		e.phase = failedEvent
	default:
		r.putOff(i, step)
		r.makeDue()
		return
	}
	r.leave(i)
	r.makeDue()
}

// putOff schedules the next attempt of a head.
func (r *simulation) putOff(i int, step Step) {
	e := &r.events[i]
	next := elapsed(step.Next)
	line := &r.due
	if r.gated && (e.outcome.EndpointWide() || step.Decision == Throttle) {
		line = &r.spared
		if !r.standing.Open() && moment(e.started).Before(r.standing.RecoveredAt) {
			next, line = r.now, &r.due // the outage that it met has ended
		}
	}
	r.wait(line, i, next)
}

// judge applies an outcome to the endpoint.
func (r *simulation) judge(i int, step Step) {
	e := &r.events[i]
	if e.probe {
		r.probing = false
	}
	if r.alone {
		return
	}
	s := Sighting{
		Outcome: e.outcome, Decision: step.Decision, Hold: step.Hold, Started: moment(e.started), Ended: moment(r.now),
		Took: r.now - e.started, Probe: e.probe, First: e.attempts == 1, Counts: true, Seed: r.seed(i),
	}
	if r.gated {
		r.ramp.Observe(s)
		if s.Hold.After(r.standing.HoldUntil) {
			r.standing.HoldUntil = s.Hold
		}
		if !s.Started.Before(r.standing.RecoveredAt) {
			r.trust.Observe(s.Outcome, s.Ended)
		}
		switch r.circuit.Observe(&r.standing, r.rules, s) {
		case Opened:
			r.opened++
		case Closed:
			r.closed, r.putBack = r.now, true
			r.trust.Return()
			r.ramp.Begin(moment(r.now))
		case NoShift, Probed:
		}
	}
	if r.standing.Strike(r.Policy.Disable, s).Disable != "" && r.disabled == 0 {
		r.disabled = r.now
	}
}

// quiet says whether at that time nothing is due or in flight, except postponed heads.
func (r *simulation) quiet(at time.Duration) bool {
	head, ok := r.due.first(r.waits)
	return r.flying == 0 && (!ok || head.at > at)
}

// regained is the next time at which postponed heads may be tried if nothing else happens.
func (r *simulation) regained() (at time.Duration, ok bool) {
	if !r.putBack || r.standing.Open() || r.disabled > 0 {
		return 0, false
	}
	at = max(r.now, elapsed(r.trust.Next(moment(r.now))))
	return at, r.quiet(at)
}

// makeDue makes postponed heads of a recovered endpoint due, as many as Trust allows.
func (r *simulation) makeDue() {
	if !r.putBack || r.standing.Open() {
		return
	}
	most := r.trust.MakeDue(moment(r.now), r.quiet(r.now))
	if most == 0 {
		return
	}
	kept := r.spared[:0:0]
	slices.SortFunc(r.spared, func(a, b appointment) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.event, b.event)) })
	for _, p := range r.spared {
		switch e := &r.events[p.event]; {
		case !r.waits(p):
		case most > 0 && e.over < r.closed:
			e.due = min(e.due, r.closed)
			r.due.put(appointment{e.due, p.event})
			most--
		default:
			kept = append(kept, p)
		}
	}
	r.spared = kept // sorted, which is a valid heap
	r.putBack = most == 0
}

// leave removes a finished event from its lane.
func (r *simulation) leave(i int) {
	e := &r.events[i]
	begun := e.over
	if e.attempts > 0 {
		begun = e.started
	}
	e.affected = e.attempts > 1 || r.Outage.on(e.arrived) || begun > e.arrived+r.Policy.firstWait()
	if r.Keys == 0 {
		return
	}
	// A discarded delivery blocks no other.
	dead := e.phase == failedEvent || e.phase == exhaustedEvent && r.Policy.OnExhausted != Discard
	if dead && r.Policy.Then == Block {
		r.stuck[i%r.Keys] = true
	} else if i+r.Keys < len(r.events) {
		r.lead(i+r.Keys, r.now)
	}
}

// step processes the next event. At one time, all starts come before any ends, as if an answer took
// a millisecond, and deliveries that are too old are given up last.
func (r *simulation) step() bool {
	const never = time.Duration(1<<63 - 1)
	lands, starts, expires, regains := never, never, never, never
	if len(r.landing) > 0 {
		lands = r.landing[0].at
	}
	head, from, ok := r.next()
	if ok {
		starts = from
	}
	old, ok := r.oldest()
	if ok {
		expires = max(r.now, old.at)
	}
	if at, ok := r.regained(); ok {
		regains = at
	}
	switch next := min(lands, starts, expires, regains); {
	case next == never:
		return false
	case starts == next:
		r.now = next
		r.start(head)
	case lands == next:
		r.now = next
		i := r.landing[0].event
		r.landing.take()
		r.flying--
		r.land(i)
	case regains == next:
		r.now = next
		r.makeDue()
	default:
		r.now = next
		e := &r.events[old.event]
		e.phase, e.over = exhaustedEvent, r.now
		r.leave(old.event)
	}
	return true
}
