package sqlite

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// TestOneCopiesTheLog: while a connection copies the log, no other one can. That is no failure, and
// the pages that are not copied yet stay counted.
func TestOneCopiesTheLog(t *testing.T) {
	var log bytes.Buffer
	path := filepath.Join(fast(t), "grapnel.db")
	s, err := Open(t.Context(), path, Options{Ballast: -1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := publish(t, s, "evt_1", 10_000); err != nil {
		t.Fatal(err)
	}
	other, err := connect(path, sqlite3.ReadWrite, 64)
	if err != nil {
		t.Fatal(err)
	}
	copying, end, done := make(chan struct{}), make(chan struct{}), make(chan error)
	if err := other.SyncInParts(1<<30, func(int, int64, int64) error {
		close(copying)
		<-end
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _, err := other.Checkpoint()
		done <- err
	}()
	<-copying
	before, copied := s.Stats(), make(chan struct{})
	s.checkpoints.asked <- copied
	<-copied
	if now := s.Stats(); now.LogPages != before.LogPages || now.Checkpoints != before.Checkpoints {
		t.Errorf("%d pages are in the log after %d copies, want %d and %d", now.LogPages, now.Checkpoints, before.LogPages, before.Checkpoints)
	}
	close(end)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if log.Len() > 0 {
		t.Errorf("it logged %s", &log)
	}
}
