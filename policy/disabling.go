package policy

import (
	"fmt"
	"time"
)

// Verdict is the effect of an outcome on whether its endpoint stays enabled.
type Verdict struct {
	Changed bool   // the standing is another one now
	Disable string // reason for disabling the endpoint; empty: it stays enabled
	// percent of the way to being disabled, if an operational event is due; 0: none
	Warning   int
	Recovered bool // a success came after a warning
}

// Warnings are sent halfway to being disabled, and again shortly before the end.
func warnings() []int { return []int{50, 90} }

// Strike counts an outcome. Any success resets the count, whatever triggered the attempt. Only
// countable deliveries add to it: a delivery counts once, at its first attempt. Any failure starts
// the clock. Disabling resets the count as well, so that an endpoint starts from zero when it is
// enabled again.
func (s *Standing) Strike(rules Disable, o Sighting) Verdict {
	if o.Disables || o.Decision == DisableEndpoint {
		v := s.condemn("a delivery ended with an outcome for which the policy disables: "+o.Cause, o.Ended)
		s.SentencedByAnswer = true
		return v
	}
	if o.Decision == Deliver {
		recovered := s.Warned > 0
		return Verdict{Changed: s.Pardon(), Recovered: recovered}
	}
	if !o.Counts || o.Outcome.Elsewhere() || o.Outcome.Class == ClassBlocked || o.Outcome.Wish == WishStop {
		return Verdict{}
	}
	var v Verdict
	if s.FailingSince.IsZero() || s.FailingSince.After(o.Ended) { // after: by a clock that was ahead
		s.FailingSince, v.Changed = o.Ended, true
	}
	if o.First && rules.Consecutive > 0 && rules.strikes(o.Outcome) {
		s.Strikes++
		v.Changed = true
	}
	way := s.Way(rules, o.Ended)
	if way >= 100 {
		return s.condemn(s.because(rules, o), o.Ended)
	}
	for _, at := range warnings() {
		if way >= at && s.Warned < at {
			s.Warned, v.Warning, v.Changed = at, at, true
		}
	}
	return v
}

// Pardon resets the count. It says whether the count was above zero.
func (s *Standing) Pardon() bool {
	was := s.Strikes > 0 || !s.FailingSince.IsZero() || s.Warned > 0 || !s.SentencedAt.IsZero()
	s.Strikes, s.FailingSince, s.Warned, s.SentencedAt, s.Sentence, s.SentencedByAnswer = 0, time.Time{}, 0, time.Time{}, "", false
	return was
}

// condemn resets the count and records the sentence, so that it is carried out even if the process
// dies first.
func (s *Standing) condemn(why string, now time.Time) Verdict {
	s.Pardon()
	s.SentencedAt, s.Sentence = now, why
	return Verdict{Changed: true, Disable: why}
}

// strikes says whether an outcome is of the class that disables. Some 4xx concern the moment and
// not the endpoint. A 410 that is retried is one like any other.
func (d Disable) strikes(o Outcome) bool {
	if o.Class != d.Of {
		return false
	}
	switch o.Status {
	case 408, 425, 429:
		return false
	}
	return true
}

// Way is the progress towards being disabled, in percent.
func (s *Standing) Way(rules Disable, now time.Time) int {
	way := 0
	if rules.Consecutive > 0 {
		way = 100 * s.Strikes / rules.Consecutive
	}
	switch failing := now.Sub(s.FailingSince); {
	case rules.After <= 0 || s.FailingSince.IsZero() || failing <= 0:
		return way
	// not computed as a percentage, which would overflow after a large jump of the clock
	case failing >= rules.After.Std():
		return 100
	default:
		return max(way, int(100*failing/rules.After.Std()))
	}
}

// Absent bounds the progress towards being disabled after a time in which no attempt could be made,
// because the process did not run: that time alone brings an endpoint no further than to its next
// warning. It says whether it has changed anything.
func (s *Standing) Absent(rules Disable, now time.Time) bool {
	most := 100
	for _, at := range warnings() {
		if s.Warned < at {
			most = at
			break
		}
	}
	since := now.Add(-rules.After.Std() / 100 * time.Duration(most))
	if rules.After <= 0 || s.FailingSince.IsZero() || !s.FailingSince.Before(since) {
		return false
	}
	s.FailingSince = since
	return true
}

func (s *Standing) because(rules Disable, o Sighting) string {
	if rules.Consecutive > 0 && s.Strikes >= rules.Consecutive {
		return fmt.Sprintf("%d deliveries in a row failed at their first attempt; last: %s", s.Strikes, o.Cause)
	}
	return fmt.Sprintf("no attempt has succeeded for %s; last: %s", rules.After, o.Cause)
}
