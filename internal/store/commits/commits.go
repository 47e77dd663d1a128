// Package commits counts the commits of a store on disk: the transactions, the operations in them,
// and their durations. All such stores count alike, so that one histogram fits them all. Further
// counts are each store's own.
//
// It locks nothing: the store adds to its counts and copies them under a lock of its own.
package commits

import (
	"slices"
	"time"
)

// bounds are the upper bounds of the buckets, in seconds.
var bounds = [...]float64{0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1}

// Bounds returns the upper bounds of CommitBuckets, in seconds.
func Bounds() []float64 { return slices.Clone(bounds[:]) }

// Counts are the commits since the store was opened.
type Counts struct {
	Commits       int64
	Operations    int64 // in those commits
	CommitSeconds float64
	CommitBuckets [len(bounds) + 1]int64 // one for each bound, and one for longer commits
}

// Add counts a commit.
func (c *Counts) Add(operations int, took time.Duration) {
	c.Commits++
	c.Operations += int64(operations)
	c.CommitSeconds += took.Seconds()
	i, _ := slices.BinarySearch(bounds[:], took.Seconds())
	c.CommitBuckets[i]++
}
