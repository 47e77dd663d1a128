//go:build linux && prove

package e2e

import (
	"testing"
	"time"
)

// Of ten endpoints one takes five seconds for every request. The other nine are unaffected: their
// 99th percentile from acceptance to arrival is within 1.2 times of that without the slow one.
// Windows with and without it alternate in one run, so that other load on the machine hits both.
func TestHangingEndpointCostsOthersNothing(t *testing.T) {
	perSecond, least, most, quantile, length := 400, 5, 15, 75, time.Second
	if soak() {
		perSecond, least, most, quantile, length = 800, 9, 19, 50, 5*time.Second
	}
	c := newChild(t, program{}, t.TempDir())
	c.start()
	c.ready(30 * time.Second)
	b := newBeat(t, c, "127.0.3", 10, perSecond)
	slow, others := b.sites[9], b.sites[:9]
	b.window(length, b.sites) // warms up

	var lagWithout, lagWith []time.Duration
	held := 0
	ratio, without, with := inTurn(least, most, quantile, 1.2, func() (a, z time.Duration) {
		a, lag := b.window(length, others)
		lagWithout = append(lagWithout, lag)
		eventually(t, 20*time.Second, "nothing waits for a healthy endpoint", func() bool { return !c.waiting() })

		free := make(chan struct{})
		slow.turn(way{after: 5 * time.Second, freed: free})
		z, lag = b.window(length, others)
		lagWith = append(lagWith, lag)
		held = max(held, crowd(slow.seen(0), 15*time.Second))
		slow.turn(way{})
		close(free)
		eventually(t, 60*time.Second, "what waited for the slow endpoint is delivered", func() bool { return !c.waiting() })
		return a, z
	})
	t.Logf("%d events/s, %d pairs of windows of %v: p99 from acceptance to arrival %v without and %v with the hanging endpoint, ratio %.2f (to "+
		"the %d. percentile: %.2f); from when they should have been published %v and %v; it held %d requests at once", perSecond, len(with),
		length, median(without),
		median(with), float64(median(with))/float64(median(without)), quantile, ratio, median(lagWithout), median(lagWith), held)
	if ratio > 1.2 {
		t.Errorf("the p99 of the nine others is %.2f times what it is without the hanging one: %v against %v", ratio, with, without)
	}
	if held < 16 {
		t.Errorf("the hanging endpoint held only %d requests at once: it was no burden", held)
	}
}
