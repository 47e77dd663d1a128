package engine

import (
	"math"
	"time"
)

// pace is the duration of a commit, averaged over the last seconds. The average is over time and
// not over commits: a stall in which hundreds wait is one stall, and an idle second counts as a
// second in which commits take no time.
type pace struct {
	average time.Duration
	at      time.Time // the average is up to date until here
	calls   int       // in flight
	since   time.Time // while calls > 0: no commit has come back since
}

// paceOver is the time after which the past weighs a third.
const paceOver = 5 * time.Second

func (p *pace) begin(now time.Time) {
	if p.calls == 0 {
		p.advance(now, 0)
		p.since = now
	}
	p.calls++
}

// end counts a call that has returned. A failed one says nothing about the duration of commits,
// except that none came back while it waited.
func (p *pace) end(now, began time.Time, committed bool) {
	if committed {
		p.advance(now, now.Sub(began))
		p.since = now
	} else {
		p.advance(now, p.level(now))
	}
	p.calls--
}

// current is the average now. A commit in flight counts with the time it has taken so far.
func (p pace) current(now time.Time) time.Duration {
	p.advance(now, p.level(now))
	return p.average
}

// level is the duration of a commit now: the average, or the time without a returned commit if that
// is longer.
func (p *pace) level(now time.Time) time.Duration {
	if p.calls == 0 {
		return 0
	}
	return max(p.average, now.Sub(p.since))
}

// advance brings the average to now, with commits that took level since the last time.
func (p *pace) advance(now time.Time, level time.Duration) {
	if passed := now.Sub(p.at); !p.at.IsZero() && passed > 0 {
		p.average += time.Duration(-math.Expm1(-passed.Seconds()/paceOver.Seconds()) * float64(level-p.average))
	}
	p.at = now
}
