package sqlite

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/grapnelhq/grapnel/internal/store/commits"
)

// Stats are counters since the store was opened.
type Stats struct {
	commits.Counts
	Bytes       int64 // written to the journal and to the write-ahead log
	Flushes     int64 // commits to the tables
	Checkpoints int64
	LogPages    int64 // in the write-ahead log, not yet in the database
	Queued      int   // operations waiting for the next transaction
	Damaged     int64 // reads that found an event damaged
	Full        bool  // the disk is full: new writes are refused
}

// stats collects the counters.
type stats struct {
	mu      sync.Mutex
	sum     Stats
	full    atomic.Bool
	damaged atomic.Int64
}

// frame is the size of a page in the write-ahead log.
const frame = pageSize + 24

func (s *stats) committed(operations int, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sum.Add(operations, took)
}

// kept counts a frame of the journal, or data in their file.
func (s *stats) kept(bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sum.Bytes += int64(bytes)
}

func (s *stats) flushed(pages int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sum.Flushes++
	s.sum.Bytes += int64(pages) * frame
}

func (s *stats) checkpointed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sum.Checkpoints++
}
