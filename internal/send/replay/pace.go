package replay

import (
	"math"
	"time"
)

// pace spreads the creation of deliveries over time. Time in which a job waits is not saved up, so
// it never makes up for lost time.
type pace struct {
	free time.Time // when the deliveries created so far have used their time
}

// batch is the number of deliveries of one step at this rate: large enough that a fast replay does
// not need a commit for each, and small enough that a next batch fits while these are pending.
func (pace) batch(rate float64, outstanding int) int {
	return max(1, min(outstanding/4, int(rate/stepsInASecond)))
}

// until is the wait before more can be created.
func (p *pace) until(now time.Time, rate float64, outstanding int) time.Duration {
	if wait := p.free.Sub(now); wait > 0 {
		return min(wait, cost(rate, outstanding)) // a clock that was set back must not make it longer
	}
	return 0
}

// spend takes the time of n new deliveries.
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

// speed is the rate at which deliveries of a job finish.
type speed struct {
	samples []sample // the oldest first, one a second at most
}

type sample struct {
	at   time.Time
	done int
}

// speedOver is the time over which speed is measured, speedAfter the shortest time that counts as a
// measurement.
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

// perSecond is the speed; negative: unknown yet.
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

// stepsInASecond is the highest number of steps of a job per second; a fast job creates more
// deliveries in each.
const stepsInASecond = 20
