package insight

import (
	"math"
)

// candidate is a cause that is being considered.
type candidate struct {
	Cause
	tried  int // candidates of its kind, itself included
	covers func(*Observation) bool
}

// likelihood is the logarithm of how likely these outcomes are at the rate that fits them best.
func likelihood(failed, delivered int) float64 {
	n := float64(failed + delivered)
	return part(float64(failed), n) + part(float64(delivered), n)
}

func part(k, n float64) float64 {
	if k == 0 {
		return 0
	}
	return k * math.Log(k/n)
}
