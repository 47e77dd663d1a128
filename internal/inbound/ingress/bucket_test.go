package ingress

import (
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
)

// TestABucketAfterTheClockWasAhead: a clock that was hours ahead leaves a source its rate, and no
// more than that.
func TestABucketAfterTheClockWasAhead(t *testing.T) {
	b := newBucket(&grapnel.RateLimit{PerSecond: 10, Burst: 5})
	right := time.Unix(1_700_000_000, 0)
	if _, ok := b.take(right.Add(6 * time.Hour)); !ok {
		t.Error("the first token of a clock that is ahead is refused")
	}
	taken := 0
	for n := range 1000 {
		if wait, ok := b.take(right.Add(time.Duration(n) * 10 * time.Millisecond)); ok {
			taken++
		} else if wait > time.Second {
			t.Fatalf("a token is refused for %s", wait)
		}
	}
	if taken != 99 {
		t.Errorf("%d tokens in ten seconds", taken)
	}
}
