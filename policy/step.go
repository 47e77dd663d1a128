package policy

import "time"

// What a receiver's Retry-After can do.
const (
	// MaxRetryAfter is the longest wait that a Retry-After causes.
	MaxRetryAfter = 24 * time.Hour
	// credibleRetryAfter is the longest Retry-After that is believed at all; what asks for more is taken for a mistake.
	credibleRetryAfter = 7 * 24 * time.Hour
)

// InternalPause is the wait after a fault of our own. Whoever has several in a row lengthens it.
const InternalPause = time.Second

// maxUnaskedHold bounds how long a 429 without Retry-After spares the endpoint. Without it, one old delivery whose own next
// attempt is a day away would stop every other one for that day.
const maxUnaskedHold = time.Minute

// First returns when attempt 1 may start. pr.Anchor is when the delivery became the head of its lane.
func (p *Policy) First(pr Progress) Planned {
	return p.schedule(1, pr, pr.Anchor, 0)
}

// After says what follows from the outcome of an attempt. pr.Attempts counts that attempt, pr.Anchor is the start of the first
// attempt, ended is when this one ended.
//
// An outcome of ClassInternal uses up nothing and ends nothing: it is tried again InternalPause after it ended.
//
// max_age counts from the anchor and includes its end. A next attempt that would be due later than that, jitter aside, is not
// made: the delivery is exhausted. Neither jitter nor Retry-After moves an attempt past the end; they are cut there, so that
// the last chance is used and not lost.
func (p *Policy) After(pr Progress, o Outcome, ended time.Time) Step {
	step := Step{Decision: p.Decide(o)}
	if o.Class == ClassInternal {
		step.Next = ended.Add(InternalPause)
		step.Latest = step.Next
		return step
	}
	if step.Decision != Retry && step.Decision != Throttle {
		return step
	}
	if left := p.left(pr.Attempts+1, pr, ended); left == hasNext {
		planned := p.schedule(pr.Attempts+1, pr, ended, p.wish(o))
		if o.HasDelay {
			planned = p.asAsked(pr, ended.Add(min(o.Delay, MaxRetryAfter)))
		}
		step.Next, step.Latest = planned.At, planned.Latest
	} else {
		step.Exhausted, step.Expired = true, left == tooOld
	}
	if step.Decision == Throttle {
		step.Hold = p.hold(pr, o, ended, step.Next)
	}
	return step
}

// Plan returns the attempts still to come if each of them fails at once, at most most of them. pr.Attempts counts those that
// were made. next is the time of the next one if it is already scheduled; zero computes it, as if those made had
// failed at once as well.
func (p *Policy) Plan(pr Progress, next time.Time, most int) []Planned {
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

// leftover says whether there is an attempt left, and if not, what ended it.
type leftover int

const (
	hasNext leftover = iota
	usedUp           // the schedule or max_attempts
	tooOld           // max_age
)

// left says whether attempt n may be made. What used up the attempts is named before the age.
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

// schedule gives attempt n its time: the schedule's, with jitter, but not before the receiver's wish, and within the age.
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

// asked says whether the outcome carries a Retry-After that this policy heeds.
func (p *Policy) asked(o Outcome) bool {
	return p.RetryAfter != RetryAfterIgnore && o.HasRetryAfter && o.RetryAfter >= 0 && o.RetryAfter <= credibleRetryAfter
}

// wish is the wait that the receiver asked for.
func (p *Policy) wish(o Outcome) time.Duration {
	if !p.asked(o) {
		return 0
	}
	return min(o.RetryAfter, MaxRetryAfter)
}

// hold says until when a throttled endpoint is spared: as long as it asked, else until this delivery's next attempt but at
// most maxUnaskedHold.
func (p *Policy) hold(pr Progress, o Outcome, ended, next time.Time) time.Time {
	if p.asked(o) {
		return ended.Add(p.wish(o))
	}
	if next.IsZero() { // exhausted: the wait that led to this attempt stands in for the one that does not follow
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
