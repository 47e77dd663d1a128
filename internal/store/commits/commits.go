// Package commits counts what a store on disk commits: how many transactions, how many operations in them, and how long they took. All such
// stores count alike, so that one histogram shows any of them. What they count besides is their own affair.
//
// It locks nothing: the store adds to its counts and copies them under a lock of its own.
package commits

import "time"

// bounds are the upper bounds of the buckets, in seconds.
var bounds = [...]float64{0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1}

// Bounds returns the upper bounds of CommitBuckets, in seconds.
func Bounds() []float64 { return append([]float64(nil), bounds[:]...) }

// Counts are what was committed since the store was opened.
type Counts struct {
	Commits       int64
	Operations    int64 // in those commits
	CommitSeconds float64
	CommitBuckets [len(bounds) + 1]int64 // one for each bound, and one more for what took longer
}

// Add counts a commit.
func (c *Counts) Add(operations int, took time.Duration) {
	c.Commits++
	c.Operations += int64(operations)
	c.CommitSeconds += took.Seconds()
	i := 0
	for i < len(bounds) && took.Seconds() > bounds[i] {
		i++
	}
	c.CommitBuckets[i]++
}
