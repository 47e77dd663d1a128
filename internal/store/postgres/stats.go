package postgres

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Stats are counters since the store was opened.
type Stats struct {
	Commits       int64
	Operations    int64 // in those commits
	Failed        int64 // transactions that were not committed, for whatever reason
	Unknown       int64 // of which nobody knows whether they were
	Spoiled       int64 // that had to be made again because of another one: deadlocks, and two that made the same
	CommitSeconds float64
	CommitBuckets []int64 // parallel to CommitBounds, with one more for what took longer
	Queued        int     // operations that wait for the next transaction
	Connections   int
	Busy          int // of them in use
}

// CommitBounds are the upper bounds of CommitBuckets, in seconds.
func CommitBounds() []float64 {
	return []float64{0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1}
}

// stats gathers them.
type stats struct {
	mu      sync.Mutex
	sum     Stats
	spoiled atomic.Int64
}

func (s *stats) committed(operations int, err error, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.sum.Failed++
		if errors.Is(err, errUnknown) {
			s.sum.Unknown++
		}
		return
	}
	s.sum.Commits++
	s.sum.Operations += int64(operations)
	s.sum.CommitSeconds += took.Seconds()
	bounds := CommitBounds()
	if s.sum.CommitBuckets == nil {
		s.sum.CommitBuckets = make([]int64, len(bounds)+1)
	}
	i := 0
	for i < len(bounds) && took.Seconds() > bounds[i] {
		i++
	}
	s.sum.CommitBuckets[i]++
}

// Stats returns the counters.
func (s *Store) Stats() Stats {
	s.stats.mu.Lock()
	sum := s.stats.sum
	sum.CommitBuckets = append([]int64(nil), sum.CommitBuckets...)
	s.stats.mu.Unlock()
	sum.Spoiled, sum.Queued = s.stats.spoiled.Load(), len(s.requests)
	for _, pool := range []*pgxpool.Pool{s.pool, s.writing} {
		is := pool.Stat()
		sum.Connections += int(is.TotalConns())
		sum.Busy += int(is.AcquiredConns())
	}
	return sum
}
