package commits_test

import (
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/store/commits"
)

// TestEachCommitIsInOneBucket: a bound belongs to the bucket below it, and a commit longer than all
// bounds is counted too.
func TestEachCommitIsInOneBucket(t *testing.T) {
	var c commits.Counts
	bounds := commits.Bounds()
	for i, bound := range bounds {
		before := c
		took := time.Duration(bound * float64(time.Second))
		c.Add(2, took)
		c.Add(3, took+time.Microsecond)
		if c.CommitBuckets[i]-before.CommitBuckets[i] != 1 || c.CommitBuckets[i+1]-before.CommitBuckets[i+1] != 1 {
			t.Errorf("of %v and a little more one should be below the bound and one above it: %v, then %v", took, before.CommitBuckets,
				c.CommitBuckets)
		}
	}
	c.Add(1, time.Hour)
	sum := int64(0)
	for _, n := range c.CommitBuckets {
		sum += n
	}
	if n := int64(2*len(bounds) + 1); c.Commits != n || sum != n || c.Operations != int64(5*len(bounds)+1) || c.CommitSeconds < 3600 {
		t.Errorf("%d commits, %d in buckets, want %d; %d operations, %.1f s", c.Commits, sum, n, c.Operations, c.CommitSeconds)
	}
}
