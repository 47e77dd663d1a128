package sqlite

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
)

// mountSmall makes a file system of a few MiB at dir. Only root can; TestDatabaseFull needs no
// rights.
func mountSmall(t *testing.T, dir string, size int) {
	t.Helper()
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size))
	if errors.Is(err, syscall.EPERM) {
		t.Skip("only root can mount a small file system; TestDatabaseFull shows the same with a small database")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
}
