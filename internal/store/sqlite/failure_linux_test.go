package sqlite

import (
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// TestWriteError makes the operating system refuse to write, which differs from a full disk: the
// transaction fails, the store ends, and events accepted before are there when it is opened again.
func TestWriteError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "grapnel.db")
	s, err := Open(t.Context(), path, Options{Ballast: -1})
	if err != nil {
		t.Fatal(err)
	}
	h, err := publish(t, s, "evt_0", 100)
	if err != nil {
		t.Fatal(err)
	}
	allow := limitFileSize(t, 1)
	_, err = publish(t, s, "evt_lost", 100)
	settled := settle(t, s, h, 10)
	allow()
	if err == nil || grapnel.CodeOf(err) != "" {
		t.Errorf("the append: %v", err)
	}
	if settled == nil || grapnel.CodeOf(settled) != "" {
		t.Errorf("the outcome after it: %v", settled)
	}
	failed(t, s)
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}

	s, err = Open(t.Context(), path, Options{Ballast: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if e, _, err := s.Event(t.Context(), store.Everyone(), "", "evt_0"); err != nil || e.Seq != h.Event {
		t.Errorf("what was accepted: %v", err)
	}
	if err := settle(t, s, h, 10); err != nil {
		t.Errorf("the outcome, again: %v", err)
	}
}

// limitFileSize makes every write beyond a size of a file fail with EFBIG, in this process, until
// allow is called.
func limitFileSize(t *testing.T, size uint64) (allow func()) {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ)
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: size, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
			panic(err) // no later write to a file could succeed
		}
		signal.Reset(syscall.SIGXFSZ)
		_ = os.Stderr.Sync()
	}
}
