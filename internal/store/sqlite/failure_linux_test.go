package sqlite

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// TestWriteError makes the operating system refuse to write, with another error than that of a full
// disk: what cannot be written fails and changes nothing, the store goes on, and what it does
// afterwards is there when it is opened again. Only after a failed sync the content of the disk
// is unknown.
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
	for _, size := range []int{100, 100_000} { // the second one's data go into the data file
		id := fmt.Sprint("evt_", size)
		allow := limitFileSize(t, 1)
		_, err = publish(t, s, id, size)
		settled := settle(t, s, h, 10)
		allow()
		if err == nil || grapnel.CodeOf(err) != "" {
			t.Errorf("the append of %d bytes: %v", size, err)
		}
		if settled == nil || grapnel.CodeOf(settled) != "" {
			t.Errorf("the outcome after it: %v", settled)
		}
		if err := s.Unable(); err != nil {
			t.Fatalf("the store has ended: %v", err)
		}
		if e, _, err := s.Event(t.Context(), store.Everyone(), "", id); e != nil || err == nil {
			t.Errorf("the event that was not accepted is there: %v, %v", e, err)
		}
		if _, err := publish(t, s, id, size); err != nil {
			t.Errorf("the same event afterwards: %v", err)
		}
	}
	if err := settle(t, s, h, 10); err != nil {
		t.Errorf("the outcome, again: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	s, err = Open(t.Context(), path, Options{Ballast: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, id := range []string{"evt_0", "evt_100", "evt_100000"} {
		if _, _, err := s.Event(t.Context(), store.Everyone(), "", id); err != nil {
			t.Errorf("%s was accepted: %v", id, err)
		}
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
