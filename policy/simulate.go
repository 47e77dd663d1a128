package policy

import "time"

// usualConcurrency is the limit of an endpoint's simultaneous requests if it sets none.
const usualConcurrency = 32

// simulation is one run. Times are counted from its start.
type simulation struct {
	Scenario
	alone bool // by schedule alone: no breaker, no holds, no limit, no disabling
	gated bool // the endpoint has a circuit: it is paused and probed
	rules Breaker

	now    time.Duration
	events []simulated
	stuck  []bool // lanes blocked by a dead letter

	due     agenda // heads, by when their next attempt is due
	spared  agenda // postponed because of the endpoint; they become due when it recovers
	tooOld  agenda // heads, by when max_age ends them
	landing agenda // attempts in flight, by their end
	flying  int
	probing bool

	circuit  Circuit
	ramp     Ramp
	trust    Trust
	standing Standing

	attempts []time.Duration
	probes   int
	opened   int
	closed   time.Duration // time of the last closing
	putBack  bool          // deliveries postponed until then may become due, gradually
	disabled time.Duration // 0: it was not
}

// simulated is one event.
type simulated struct {
	arrived  time.Duration
	anchor   time.Duration
	due      time.Duration
	started  time.Duration // its last attempt
	over     time.Duration
	outcome  Outcome // of its last attempt
	attempts int
	phase    phase
	probe    bool // its last attempt is one
	affected bool
}

// phase is the state of an event.
type phase int

const (
	queuedEvent    phase = iota // not yet the head of its lane
	waitingEvent                // the head, with a time for its next attempt
	flyingEvent                 // being attempted
	deliveredEvent              // this phase and those below are final
	failedEvent                 // failed by a decision
	exhaustedEvent              // failed by its attempts or its age
	blockedEvent                // never attempted, behind a dead letter
	heldEvent                   // held at a disabled endpoint
	droppedEvent                // dropped by the disabling
)

// moment and elapsed convert between a simulation's times and those of the functions that it calls.
func moment(d time.Duration) time.Time  { return time.Unix(0, int64(d)).UTC() }
func elapsed(t time.Time) time.Duration { return t.Sub(time.Unix(0, 0)) }

// lead makes an event the head of its lane, now or when it arrives.
func (r *simulation) lead(i int, from time.Duration) {
	e := &r.events[i]
	e.anchor = max(e.arrived, from)
	first := r.Policy.First(r.progress(i))
	r.wait(&r.due, i, elapsed(first.At))
}

// wait adds a head to a line.
func (r *simulation) wait(line *agenda, i int, until time.Duration) {
	e := &r.events[i]
	e.phase, e.due = waitingEvent, until
	line.put(appointment{until, i})
	if r.gated && r.Policy.MaxAge > 0 {
		r.tooOld.put(appointment{e.anchor + r.Policy.MaxAge.Std(), i})
	}
}

// waits says whether an entry of due or spared is current.
func (r *simulation) waits(p appointment) bool {
	e := &r.events[p.event]
	return e.phase == waitingEvent && e.due == p.at
}

// next is the head that is due earliest, and the time of its attempt if nothing else happens
// before.
func (r *simulation) next() (i int, from time.Duration, ok bool) {
	if r.disabled > 0 {
		return 0, 0, false
	}
	head, ok := r.due.first(r.waits)
	if other, there := r.spared.first(r.waits); there && (!ok || other.before(head)) {
		head, ok = other, true
	}
	from = max(r.now, head.at)
	if !ok || !r.gated {
		return head.event, from, ok
	}
	from = max(from, elapsed(r.standing.HoldUntil))
	switch {
	case r.flying >= r.ramp.Limit(), r.standing.Open() && r.probing:
		return 0, 0, false
	case r.standing.Open():
		return head.event, max(from, elapsed(r.standing.ProbeAt)), true
	}
	return head.event, max(from, elapsed(r.ramp.Next(moment(from)))), true
}

// oldest is the head that expires first. Pending deliveries expire only while the circuit is open.
func (r *simulation) oldest() (appointment, bool) {
	p, ok := r.tooOld.first(func(p appointment) bool {
		e := &r.events[p.event]
		return e.phase == waitingEvent && e.anchor+r.Policy.MaxAge.Std() == p.at
	})
	spared := r.standing.Open() || r.standing.HoldUntil.After(moment(max(r.now, p.at)))
	return p, ok && spared && r.disabled == 0
}

// settle gives unfinished events their final phase.
func (r *simulation) settle() {
	for i := range r.events {
		e := &r.events[i]
		switch {
		case e.phase >= deliveredEvent:
		case r.disabled > 0 && r.Policy.Disable.Pending == PendingDrop && !r.standing.SentencedByAnswer:
			e.phase, e.over, e.affected = droppedEvent, max(r.disabled, e.arrived), true
		case r.Keys > 0 && r.stuck[i%r.Keys]:
			e.phase = blockedEvent
		default:
			e.phase = heldEvent
		}
	}
}

func (r *simulation) seed(i int) uint64 { return mix(r.Seed, uint64(i)) }

func (r *simulation) progress(i int) Progress {
	e := &r.events[i]
	return Progress{Attempts: e.attempts, Anchor: moment(e.anchor), Seed: r.seed(i)}
}

// possible is when an event could have been delivered at the earliest.
func (r *simulation) possible(arrived time.Duration) time.Duration {
	if (r.Outage.Kind == OutageDown || r.Outage.Kind == OutageStatus) && r.Outage.on(arrived) {
		return r.Outage.end()
	}
	return arrived + r.Policy.firstWait()
}

// firstWait is the longest pause of a healthy event before its first attempt.
func (p *Policy) firstWait() time.Duration {
	return p.First(Progress{}).Latest.Sub(time.Time{})
}
