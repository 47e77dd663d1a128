package engine

import (
	"math"
	"time"
)

// pace is how long a commit takes, averaged over the last seconds. The average is one over time and not over commits: a stall in which
// hundreds wait is one stall, and an idle second counts as one in which commits take no time.
type pace struct {
	average time.Duration
	at      time.Time // up to which the average has been taken
	calls   int       // on their way
	since   time.Time // while there are any: none has come back since then
}

// paceOver is the time after which the past counts for a third.
const paceOver = 5 * time.Second

func (p *pace) begin(now time.Time) {
	if p.calls == 0 {
		p.advance(now, 0)
		p.since = now
	}
	p.calls++
}

// end counts a call that is over. One that failed says nothing of how long commits take, but that nothing came back while it waited.
func (p *pace) end(now, began time.Time, committed bool) {
	if committed {
		p.advance(now, now.Sub(began))
		p.since = now
	} else {
		p.advance(now, p.level(now))
	}
	p.calls--
}

// current is the average now. A commit that does not come back counts while it is on its way.
func (p pace) current(now time.Time) time.Duration {
	p.advance(now, p.level(now))
	return p.average
}

// level is how long a commit takes at the moment, as far as one can tell without one that has come back.
func (p *pace) level(now time.Time) time.Duration {
	if p.calls == 0 {
		return 0
	}
	return max(p.average, now.Sub(p.since))
}

// advance takes the average on to now. Since the last time commits took as long as given.
func (p *pace) advance(now time.Time, level time.Duration) {
	if passed := now.Sub(p.at); !p.at.IsZero() && passed > 0 {
		p.average += time.Duration(-math.Expm1(-passed.Seconds()/paceOver.Seconds()) * float64(level-p.average))
	}
	p.at = now
}
