package lock

import (
	"errors"
	"io"
	"os"
	"syscall"

	"github.com/grapnelhq/grapnel"
)

// lockFile locks the database's file itself, because a lock file that is removed lets a second
// process in, which makes a new one. SQLite's own locks on this file are of another kind (fcntl),
// and the kernel keeps the two apart. On NFS it does not, so there the lock file is all.
func lockFile(path string) (io.Closer, error) {
	const nfs = 0x6969
	var system syscall.Statfs_t
	if err := syscall.Statfs(path, &system); err != nil || system.Type == nfs {
		return io.NopCloser(nil), err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		err = grapnel.Errorf(grapnel.CodeConflict, "the database is in use by another process, although %s.lock was removed", path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
