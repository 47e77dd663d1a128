package policy

import (
	"fmt"
	"time"
)

// Verdict is what an outcome means for whether its endpoint stays enabled.
type Verdict struct {
	Changed   bool   // the standing is another one now
	Disable   string // why the endpoint is to be disabled; empty: it is not
	Warning   int    // how far it is on the way there, in percent, when that is to be told; 0: nothing is to be told
	Recovered bool   // a success came after a warning
}

// Warnings are told when half of the way to being disabled is behind an endpoint, and again shortly before its end.
func warnings() []int { return []int{50, 90} }

// Strike takes an outcome in. Any 2xx wipes the slate clean, whoever asked for it. Only deliveries that count add to it: a delivery
// is counted once, at its first attempt; what is no success at all starts the clock. Being disabled wipes the slate as well, so that
// whoever enables the endpoint again begins anew.
func (s *Standing) Strike(rules Disable, o Sighting) Verdict {
	if o.Decision == Deliver {
		recovered := s.Warned > 0
		return Verdict{Changed: s.Pardon(), Recovered: recovered}
	}
	if o.Decision == DisableEndpoint {
		return s.condemn("a delivery ended with an outcome for which the policy disables: "+o.Cause, o.Ended)
	}
	if !o.Counts || o.Outcome.Class == ClassInternal || o.Outcome.Class == ClassBlocked {
		return Verdict{}
	}
	var v Verdict
	if s.FailingSince.IsZero() {
		s.FailingSince, v.Changed = o.Ended, true
	}
	if o.First && rules.Consecutive > 0 && rules.strikes(o.Outcome) {
		s.Strikes++
		v.Changed = true
	}
	way := s.way(rules, o.Ended)
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

// Pardon wipes the slate. It says whether there was anything on it.
func (s *Standing) Pardon() bool {
	was := s.Strikes > 0 || !s.FailingSince.IsZero() || s.Warned > 0 || !s.SentencedAt.IsZero()
	s.Strikes, s.FailingSince, s.Warned, s.SentencedAt, s.Sentence = 0, time.Time{}, 0, time.Time{}, ""
	return was
}

// condemn wipes the slate and keeps the sentence, so that it is carried out even if the process dies before it is.
func (s *Standing) condemn(why string, now time.Time) Verdict {
	s.Pardon()
	s.SentencedAt, s.Sentence = now, why
	return Verdict{Changed: true, Disable: why}
}

// strikes says whether an outcome is of the class that disables. Of the 4xx some are about the moment and not about the endpoint,
// and a 410 needs no counting.
func (d Disable) strikes(o Outcome) bool {
	if o.Class != d.Of {
		return false
	}
	switch o.Status {
	case 408, 410, 425, 429:
		return false
	}
	return true
}

// way is how far the endpoint is on its way to being disabled, in percent.
func (s *Standing) way(rules Disable, now time.Time) int {
	way := 0
	if rules.Consecutive > 0 {
		way = 100 * s.Strikes / rules.Consecutive
	}
	switch failing := now.Sub(s.FailingSince); {
	case rules.After <= 0 || s.FailingSince.IsZero():
		return way
	case failing >= rules.After.Std(): // said apart, because a hundred times the years that a clock can jump does not fit
		return 100
	default:
		return max(way, int(100*failing/rules.After.Std()))
	}
}

func (s *Standing) because(rules Disable, o Sighting) string {
	if rules.Consecutive > 0 && s.Strikes >= rules.Consecutive {
		return fmt.Sprintf("%d deliveries in a row failed at their first attempt; last: %s", s.Strikes, o.Cause)
	}
	return fmt.Sprintf("no attempt has succeeded for %s; last: %s", rules.After, o.Cause)
}
