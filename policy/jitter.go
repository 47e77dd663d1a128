package policy

import (
	"fmt"
	"math"
	"time"
)

// Jitter spreads retries that would otherwise happen at the same time. It only adds: an attempt is
// never early. A wait of zero gets none. The zero Jitter adds nothing.
type Jitter struct {
	Fraction float64  // adds up to this part of the wait: 0.1 is 0 to 10 %
	Add      Duration // adds up to this much
}

// most is the largest addition to a wait.
func (j Jitter) most(wait time.Duration) time.Duration {
	if wait <= 0 {
		return 0
	}
	return (time.Duration(j.Fraction*float64(wait)) + j.Add.Std()).Truncate(time.Microsecond)
}

// of is the addition to the wait before attempt n. It is the same for the same seed and number, so
// that a restart plans the same times again.
func (j Jitter) of(wait time.Duration, seed uint64, n int) time.Duration {
	return time.Duration(unit(seed, uint64(n)) * float64(j.most(wait))).Truncate(time.Microsecond)
}

// unit draws a number in [0, 1) for the nth draw of a seed.
func unit(seed, n uint64) float64 { return math.Ldexp(float64(mix(seed, n)>>11), -53) }

// mix draws 64 bits for the nth draw of a seed: the output function of SplitMix64, which needs no
// state.
func mix(seed, n uint64) uint64 {
	z := seed + (n+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// String says it in words.
func (j Jitter) String() string {
	switch {
	case j.Add > 0:
		return "up to " + j.Add.String() + " more"
	case j.Fraction > 0:
		return fmt.Sprintf("up to %g %% more", j.Fraction*100)
	default:
		return "none"
	}
}
