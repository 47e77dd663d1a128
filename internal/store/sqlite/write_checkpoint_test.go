package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
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

// TestACopyBesideCommitsIsNotSynced: SQLite does not sync the database's file at the end of a
// checkpoint beside which the log has grown, although all that the checkpoint saw is copied. So the
// tables do not say that their file can do without the log.
func TestACopyBesideCommitsIsNotSynced(t *testing.T) {
	s, _ := openNew(t)
	y := &s.writer.unflushed
	for _, beside := range []bool{true, false} {
		if _, err := publish(t, s, fmt.Sprint("evt_", beside), 10_000); err != nil {
			t.Fatal(err)
		}
		if err := s.write(t.Context(), flushing{}); err != nil {
			t.Fatal(err)
		}
		c, commits := s.checkpoints, func() {}
		if err := c.conn.SyncInParts(1<<30, func(int, int64, int64) error {
			commits()
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if commits = sync.OnceFunc(func() {
			_, err := publish(t, s, "evt_beside", 10_000)
			if err := errors.Join(err, s.write(t.Context(), flushing{})); err != nil {
				t.Error(err)
			}
		}); !beside {
			commits = func() {}
		}
		before, copied := y.alone.Load(), make(chan struct{})
		c.asked <- copied
		<-copied
		if moved := y.alone.Load() > before; moved == beside {
			t.Errorf("with a commit beside it, %v: the file has all up to %d, before %d", beside, y.alone.Load(), before)
		}
	}
}
