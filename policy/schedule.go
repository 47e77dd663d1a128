package policy

import (
	"math"
	"time"
)

// Schedule has the pauses before each attempt: a table of delays, or a formula.
type Schedule struct {
	Mode Mode `json:"mode"`
	// SincePrevious and SinceFirst: one per attempt; the first is the wait before attempt 1
	Delays []Duration `json:"delays,omitempty"`
	Tail   Tail       `json:"tail,omitempty"` // after the table
	Base   Duration   `json:"base,omitempty"` // Exponential: the pause before attempt 2
	// Exponential: each pause divided by the one before
	Factor float64  `json:"factor,omitempty"`
	Max    Duration `json:"max,omitempty"` // Exponential: the longest pause
}

// Mode is the start of a delay.
type Mode string

// The modes. An exponential schedule makes its first attempt at once.
const (
	SincePrevious Mode = "since_previous" // the end of the attempt that failed
	SinceFirst    Mode = "since_first"    // the start of the first attempt
	// the end of the attempt that failed: base, base·factor, base·factor² … at most max
	Exponential Mode = "exponential"
)

// Tail is the behaviour after the last row of a table.
type Tail string

// The tails.
const (
	TailStop   Tail = "stop"   // nothing: the delivery is exhausted
	TailRepeat Tail = "repeat" // the last delay repeatedly, until max_attempts or max_age
)

// endless says whether the schedule alone never ends.
func (s *Schedule) endless() bool { return s.Mode == Exponential || s.Tail == TailRepeat }

// next returns the earliest start of attempt n, and the pause that its jitter is a part of. It
// returns false if the schedule has no attempt n. ended is the end of the attempt before; for n = 1
// it is the anchor.
func (s *Schedule) next(n int, anchor, ended time.Time) (at time.Time, wait time.Duration, ok bool) {
	switch {
	case s.Mode == Exponential:
		wait = s.power(n)
	case n > len(s.Delays) && s.Tail != TailRepeat:
		// An empty table still allows the first attempt: an empty policy must not lose deliveries.
		return ended, 0, n == 1
	case s.Mode == SinceFirst:
		wait = s.gap(n)
		if n <= len(s.Delays) {
			at = anchor.Add(s.Delays[n-1].Std())
			if at.Before(ended) { // the attempt before took longer than the gap
				at = ended
			}
			return at, wait, true
		}
		// Past the table the gap counts from the end of the attempt before. Counting from the first
		// attempt would, after a long pause, release all missed repetitions in one burst.
	default:
		wait = s.row(n)
	}
	return ended.Add(wait), wait, true
}

// row is entry n of the table, or the last one past its end.
func (s *Schedule) row(n int) time.Duration {
	if len(s.Delays) == 0 {
		return 0
	}
	return s.Delays[min(n, len(s.Delays))-1].Std()
}

// gap is how far row n lies behind the row before; past the table, the last gap again.
func (s *Schedule) gap(n int) time.Duration {
	n = min(n, len(s.Delays))
	if n <= 1 {
		return s.row(1)
	}
	return s.row(n) - s.row(n-1)
}

// power is the exponential pause before attempt n, in whole microseconds, the precision of a store.
func (s *Schedule) power(n int) time.Duration {
	if n <= 1 {
		return 0
	}
	wait := float64(s.Base) * math.Pow(s.Factor, float64(n-2))
	if wait >= float64(s.Max) { // also if the power has overflowed
		return s.Max.Std()
	}
	return time.Duration(wait).Round(time.Microsecond)
}

// longestGap is the longest wait before one of the first attempts that counts from the attempt
// before.
func (s *Schedule) longestGap(attempts int) time.Duration {
	var longest time.Duration
	for n := 2; n <= attempts; n++ {
		switch {
		case s.Mode == Exponential:
			longest = max(longest, s.power(n))
		case s.Mode == SincePrevious:
			longest = max(longest, s.row(n))
		case n > len(s.Delays):
			longest = max(longest, s.gap(n))
		}
	}
	return longest
}
