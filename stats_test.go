package grapnel

import (
	"testing"
	"time"
)

// Totals of months of a busy server have more in one bucket than 32 bits count.
func TestTotalsOfManyAttempts(t *testing.T) {
	const attempts = 3_000_000_000
	var month, sum Totals
	month.Attempts = attempts + attempts*2/5
	month.Latency[40], month.Latency[50] = attempts, attempts*2/5
	month.Success[40], month.Success[50] = attempts, attempts*2/5
	// What one month says, two such months say too.
	fast, fastest := month.Latency.Percentile(.6), month.Success.Percentile(.6)
	for range 2 {
		sum.Add(&month)
	}
	var counted int64
	for _, n := range sum.Latency {
		counted += int64(n)
	}
	if counted != sum.Attempts {
		t.Errorf("%d latencies of %d attempts", counted, sum.Attempts)
	}
	slow, slowest := month.Latency.Percentile(1), month.Success.Percentile(1)
	for part, want := range map[float64][2]time.Duration{.6: {fast, fastest}, .99: {slow, slowest}} {
		if got := [2]time.Duration{sum.Latency.Percentile(part), sum.Success.Percentile(part)}; got != want {
			t.Errorf("percentiles %v are %v, want %v", part, got, want)
		}
	}
}
