package sqlite

import (
	"sync"
	"sync/atomic"
	"time"
)

// Stats are counters since the store was opened.
type Stats struct {
	Commits           int64
	Operations        int64 // in those commits
	Bytes             int64 // written to the write-ahead log
	CommitSeconds     float64
	CommitBuckets     []int64 // parallel to CommitBounds, with one more for what took longer
	Checkpoints       int64
	CheckpointSeconds float64
	LogPages          int64 // in the write-ahead log, not yet in the database
	Queued            int   // operations that wait for the next transaction
	Full              bool  // the disk is full: what is new is refused
}

// CommitBounds are the upper bounds of CommitBuckets, in seconds.
func CommitBounds() []float64 {
	return []float64{0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1}
}

// stats gathers them.
type stats struct {
	mu   sync.Mutex
	sum  Stats
	full atomic.Bool
}

// frame is what a page takes in the write-ahead log.
const frame = pageSize + 24

func (s *stats) committed(operations, pages int, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sum.Commits++
	s.sum.Operations += int64(operations)
	s.sum.Bytes += int64(pages) * frame
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

func (s *stats) checkpointed(took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sum.Checkpoints++
	s.sum.CheckpointSeconds += took.Seconds()
}

// Stats returns the counters.
func (s *Store) Stats() Stats {
	s.stats.mu.Lock()
	sum := s.stats.sum
	sum.CommitBuckets = append([]int64(nil), sum.CommitBuckets...)
	s.stats.mu.Unlock()
	sum.Full = s.stats.full.Load()
	sum.LogPages = s.checkpoints.pages.Load()
	sum.Queued = len(s.writer.requests)
	return sum
}
