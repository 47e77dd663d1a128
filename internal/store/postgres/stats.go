package postgres

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grapnelhq/grapnel/internal/store/commits"
)

// Stats are counters since the store was opened.
type Stats struct {
	commits.Counts
	Failed      int64 // transactions that were not committed, for any reason
	Unknown     int64 // of them, those whose outcome is unknown
	Spoiled     int64 // transactions tried again: a concurrent one came in between, or a delivery was not as expected (write_lone.go)
	Damaged     int64 // reads that found an event damaged
	Queued      int   // operations that wait for the next transaction
	Connections int
	Busy        int // of them in use
}

// stats collects the counters.
type stats struct {
	mu      sync.Mutex
	sum     Stats
	spoiled atomic.Int64
	damaged atomic.Int64
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
	s.sum.Add(operations, took)
}
