// Package backoff says how long to wait before an operation is repeated, waits, and wakes a waiting
// goroutine. It also says which failures of those that repeat are logged.
//
// Pauses double with each failure in a row up to a limit. They contain no jitter: a caller whose
// repetitions could meet those of other processes multiplies them with a random number of its own.
// How often something is repeated, and what counts as a failure, is the caller's decision.
package backoff

import "time"

// Steps are pauses that double from First to Longest.
type Steps struct{ First, Longest time.Duration }

// Store are the pauses between calls of a store that fails.
var Store = Steps{First: 100 * time.Millisecond, Longest: 5 * time.Second}

// After returns the pause after the n-th failure in a row, counted from 1.
func (s Steps) After(n int) time.Duration {
	d := s.First
	for ; n > 1 && d < s.Longest; n-- {
		d *= 2
	}
	return min(d, s.Longest)
}

// Tells says whether the n-th failure in a row, counted from 1, is logged: the first, second,
// fourth and so on are. So an outage of an hour with a failure each second logs 12 lines.
func Tells(n int) bool { return n&(n-1) == 0 }

// Early says whether a time that repetitions are planned by is still to come. A time further ahead
// than the pause between them is not: the clock was set back since it was planned.
func Early(now, at time.Time, pause time.Duration) bool { return at.After(now) && at.Sub(now) <= pause }

// Wait returns true after d, or false as soon as stop is closed.
func Wait(stop <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-stop:
		return false
	}
}

// Wake puts a token into a channel that holds one, unless it is there already.
func Wake(waiting chan<- struct{}) {
	select {
	case waiting <- struct{}{}:
	default:
	}
}
