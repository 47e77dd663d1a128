package sqlite

import (
	"fmt"
	"testing"

	"github.com/grapnelhq/grapnel/internal/store"
)

// TestOneCommitForMany: operations queued while a transaction commits share the next one.
func TestOneCommitForMany(t *testing.T) {
	s, _ := openNew(t)
	before := s.Stats()
	release := hold(t, s)
	const n = 100
	results := make(chan error)
	for range n {
		go func() {
			_, err := s.Record(t.Context(), []store.Change{{Delivery: 1}})
			results <- err
		}()
	}
	until(t, "all of them", func() bool { return s.Stats().Queued == n })
	release()
	for range n {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	after := s.Stats()
	if commits, operations := after.Commits-before.Commits, after.Operations-before.Operations; commits != 2 || operations != n+1 {
		t.Errorf("%d operations in %d commits, want %d in 2", operations, commits, n+1)
	}
	inBuckets := int64(0)
	for _, n := range after.CommitBuckets {
		inBuckets += n
	}
	if inBuckets != after.Commits {
		t.Errorf("%d commits are in buckets, %d were made", inBuckets, after.Commits)
	}
}

// TestLogIsBegunAnew: the log is copied into the database during commits, and does not grow without
// limit.
func TestLogIsBegunAnew(t *testing.T) {
	s, path := openNew(t)
	s.checkpoints.at = 40
	for i := 0; s.Stats().Bytes < 5000*frame; i++ {
		if _, err := publish(t, s, fmt.Sprint("evt_", i), 5000); err != nil {
			t.Fatal(err)
		}
	}
	if size := len(read(t, path+"-wal")); size == 0 || size > 5000*frame/4 {
		t.Errorf("the log has %d bytes after %d were written to it", size, s.Stats().Bytes)
	}
	if s.Stats().Checkpoints == 0 {
		t.Error("no checkpoint was made")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), path, Options{Ballast: -1}); err != nil {
		t.Fatal(err)
	}
}
