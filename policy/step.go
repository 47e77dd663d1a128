package policy

import "time"

// InternalPause is the pause after a fault of our own. The caller lengthens it after several in a
// row.
const InternalPause = time.Second

// maxUnaskedHold bounds the hold of an endpoint after a 429 without Retry-After. Without it, one
// old delivery whose own next attempt is a day away would stop all others for that day.
const maxUnaskedHold = time.Minute

// First returns the time of attempt 1. pr.Anchor is the time at which the delivery became the head
// of its lane.
func (p *Policy) First(pr Progress) Planned {
	return p.schedule(1, pr, pr.Anchor, 0)
}

// FirstDelay is the wait between a delivery becoming the head of its lane and its first attempt.
func (p *Policy) FirstDelay() time.Duration {
	var start time.Time
	return p.First(Progress{Anchor: start}).At.Sub(start)
}

// After returns the step after the outcome of an attempt. pr.Attempts counts that attempt,
// pr.Anchor is the start of the first attempt, ended is the end of this one.
//
// An outcome of ClassInternal uses up no attempt and finishes nothing: the attempt is repeated
// InternalPause after it ended.
//
// max_age counts from the anchor and includes its end. A next attempt that would be due later than
// that, jitter aside, is not made: the delivery is exhausted. Jitter and Retry-After cannot move an
// attempt past the end; it is then made at the end, so that the last chance is used.
func (p *Policy) After(pr Progress, o Outcome, ended time.Time) Step {
	o = p.Heed(o)
	plain := p.decide(o)
	step := Step{Decision: o.Wish.over(plain)}
	step.Disables = step.Decision == DisableEndpoint || o.Wish == WishDisable
	if o.Class == ClassInternal {
		step.Next = ended.Add(InternalPause)
		step.Latest = step.Next
		return step
	}
	if step.Decision != Retry && step.Decision != Throttle {
		if plain == Throttle {
			step.Hold = p.hold(pr, o, ended, time.Time{})
		}
		return step
	}
	whole := p.left(pr.Attempts+1, pr, ended)
	p, limited := p.under(o)
	if left := p.left(pr.Attempts+1, pr, ended); left == hasNext {
		planned := p.schedule(pr.Attempts+1, pr, ended, p.wish(o))
		if o.HasDelay {
			planned = p.asAsked(pr, ended.Add(min(o.Delay, MaxRetryAfter)))
		}
		step.Next, step.Latest = planned.At, planned.Latest
	} else {
		step.Exhausted, step.Limited = true, limited && whole == hasNext
		step.Expired = left == tooOld && !step.Limited
	}
	if step.Decision == Throttle {
		step.Hold = p.hold(pr, o, ended, step.Next)
	}
	return step
}

// Plan returns the attempts to come if each of them fails at once, answered as the last one was, at
// most most of them. pr.Attempts counts those made so far. next is the time of the next one if it
// is already scheduled; zero computes it, as if those made had failed at once as well.
func (p *Policy) Plan(pr Progress, next time.Time, most int) []Planned {
	p, _ = p.under(pr.Last)
	var plan []Planned
	ended := pr.Anchor
	from := pr.Attempts + 1
	if next.IsZero() {
		from = 1
	}
	for n := from; len(plan) < most; n++ {
		var planned Planned
		switch {
		case n == from && !next.IsZero():
			planned = Planned{Number: n, At: next, Latest: next}
		case n == 1:
			planned = p.First(pr)
		default:
			if p.left(n, pr, ended) != hasNext {
				return plan
			}
			planned = p.schedule(n, pr, ended, 0)
		}
		if n == 1 {
			pr.Anchor = planned.At
		}
		ended = planned.At
		if n > pr.Attempts {
			plan = append(plan, planned)
		}
	}
	return plan
}

// leftover says whether an attempt is left, and if not, the limit that ended it.
type leftover int

const (
	hasNext leftover = iota
	usedUp           // the schedule or max_attempts
	tooOld           // max_age
)

// left says whether attempt n may be made. The limit of attempts is reported before the age.
func (p *Policy) left(n int, pr Progress, ended time.Time) leftover {
	if p.MaxAttempts > 0 && n > p.MaxAttempts {
		return usedUp
	}
	at, _, ok := p.Schedule.next(n, pr.Anchor, ended)
	if !ok {
		return usedUp
	}
	if p.MaxAge > 0 && at.After(pr.Anchor.Add(p.MaxAge.Std())) {
		return tooOld
	}
	return hasNext
}

// schedule returns the time of attempt n: the schedule's, with jitter, but not before the
// receiver's Retry-After, and within the age.
func (p *Policy) schedule(n int, pr Progress, ended time.Time, wish time.Duration) Planned {
	at, wait, _ := p.Schedule.next(n, pr.Anchor, ended)
	planned := Planned{
		Number: n,
		At:     at.Add(p.Jitter.of(wait, pr.Seed, n)),
		Latest: at.Add(p.Jitter.most(wait)),
	}
	if asked := ended.Add(wish); planned.At.Before(asked) {
		planned.At = asked
	}
	if planned.Latest.Before(planned.At) {
		planned.Latest = planned.At
	}
	if p.MaxAge > 0 && n > 1 {
		end := pr.Anchor.Add(p.MaxAge.Std())
		planned.At, planned.Latest = earlier(planned.At, end), earlier(planned.Latest, end)
	}
	return planned
}

// asAsked is a next attempt at the time that a consumer asked for; only the age bounds it.
func (p *Policy) asAsked(pr Progress, at time.Time) Planned {
	if p.MaxAge > 0 {
		at = earlier(at, pr.Anchor.Add(p.MaxAge.Std()))
	}
	return Planned{Number: pr.Attempts + 1, At: at, Latest: at}
}

// wish is the pause that the receiver asked for.
func (p *Policy) wish(o Outcome) time.Duration {
	if !p.asked(o) {
		return 0
	}
	return min(o.RetryAfter, MaxRetryAfter)
}

// hold is the end of a throttled endpoint's pause: as long as it asked for, else until this
// delivery's next attempt but at most maxUnaskedHold.
func (p *Policy) hold(pr Progress, o Outcome, ended, next time.Time) time.Time {
	if p.asked(o) {
		return ended.Add(p.wish(o))
	}
	if next.IsZero() { // exhausted: the pause before this attempt stands in for the next one
		_, wait, _ := p.Schedule.next(max(pr.Attempts, 1), pr.Anchor, ended)
		next = ended.Add(wait)
	}
	return earlier(next, ended.Add(maxUnaskedHold))
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
