package replay

import (
	"math"
	"time"
)

// pace spreads what is made over time. Nothing is saved up while a job waits for something else, so it never makes up for lost time.
type pace struct {
	free time.Time // from then on all that was made has had its time
}

// batch is how many deliveries one step makes at this rate: so many that a fast replay does not need a commit for each, and so few that
// there is room for more while these are on their way.
func (pace) batch(rate float64, outstanding int) int {
	return max(1, min(outstanding/4, int(rate/stepsInASecond)))
}

// until is how long to wait before more can be made.
func (p *pace) until(now time.Time, rate float64, outstanding int) time.Duration {
	if wait := p.free.Sub(now); wait > 0 {
		return min(wait, cost(rate, outstanding)) // a clock that was set back must not make it longer
	}
	return 0
}

// spend takes the time of n that were made.
func (p *pace) spend(now time.Time, rate float64, n int) {
	from := now
	if lag := now.Sub(p.free); lag > 0 && lag < time.Second/stepsInASecond {
		from = p.free // a timer that fires late costs no rate
	}
	p.free = from.Add(cost(rate, n))
}

func cost(rate float64, n int) time.Duration {
	return time.Duration(min(float64(n)/rate*float64(time.Second), math.MaxInt64/4))
}

// speed is how fast deliveries of a job come to their end.
type speed struct {
	samples []sample // the oldest first, one a second at most
}

type sample struct {
	at   time.Time
	done int
}

// speedOver is the time over which speed is measured, speedAfter how much of it there has to be.
const (
	speedOver  = 30 * time.Second
	speedAfter = 2 * time.Second
)

func (s *speed) observe(now time.Time, done int) {
	if n := len(s.samples); n > 0 && now.Sub(s.samples[n-1].at).Abs() < time.Second {
		return
	}
	for len(s.samples) > 0 && (now.Sub(s.samples[0].at) > speedOver || now.Before(s.samples[0].at)) {
		s.samples = s.samples[1:]
	}
	s.samples = append(s.samples, sample{now, done})
}

// perSecond is the speed; negative: nobody knows yet.
func (s *speed) perSecond(now time.Time) float64 {
	if len(s.samples) < 2 {
		return -1
	}
	first, last := s.samples[0], s.samples[len(s.samples)-1]
	took := last.at.Sub(first.at)
	if took < speedAfter || now.Sub(last.at) > speedOver {
		return -1
	}
	return float64(last.done-first.done) / took.Seconds()
}
