//go:build unix

package lock

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/grapnelhq/grapnel"
)

// Own makes this process the only one that uses the database. The operating system releases the
// lock when the process ends, in any way; the file stays.
func Own(path string) (io.Closer, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer func() { _ = f.Close() }()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		holder := make([]byte, 20)
		n, _ := f.ReadAt(holder, 0)
		return nil, grapnel.Errorf(grapnel.CodeConflict, "the database is in use by another process (number %s, which holds %s)",
			strings.TrimSpace(string(holder[:n])), path)
	}
	// The number is for the message above; nothing depends on it.
	_ = f.Truncate(0)
	_, _ = fmt.Fprintln(f, os.Getpid())
	return f, nil
}
