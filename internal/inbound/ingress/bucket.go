package ingress

import (
	"sync/atomic"
	"time"

	"github.com/grapnelhq/grapnel"
)

// bucket is a token bucket in one number: the time at which it will be full. The zero bucket has no
// limit.
type bucket struct {
	each  time.Duration // for one token
	depth time.Duration // for all of them
	full  atomic.Int64  // nanoseconds since 1970
}

func newBucket(l *grapnel.RateLimit) *bucket {
	each, depth := l.Pace()
	return &bucket{each: each, depth: depth}
}

// setBack is how far a bucket may be beyond empty before that means that the clock was set back.
// Requests that take tokens at once differ by the time that verifying them takes, which is less.
const setBack = time.Minute

// take takes a token, or returns the time until the next one.
func (b *bucket) take(now time.Time) (wait time.Duration, ok bool) { return b.takeAll(now, 1) }

// takeAll takes several tokens or none. More than the bucket's size count as its size.
func (b *bucket) takeAll(now time.Time, tokens int) (wait time.Duration, ok bool) {
	if b.each <= 0 {
		return 0, true
	}
	cost := min(time.Duration(tokens), b.depth/b.each) * b.each
	for {
		before := b.full.Load()
		if empty := now.Add(b.depth).UnixNano(); before > empty+int64(setBack) {
			b.full.CompareAndSwap(before, empty)
			continue
		}
		full := max(before, now.UnixNano()) + int64(cost)
		if late := full - now.UnixNano() - int64(b.depth); late > 0 {
			return time.Duration(late), false
		}
		if b.full.CompareAndSwap(before, full) {
			return 0, true
		}
	}
}
