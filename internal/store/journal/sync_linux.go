package journal

import (
	"os"
	"syscall"
)

// Sync makes the data of a file durable, and its length if that has changed.
func Sync(f *os.File) error {
	for {
		if err := syscall.Fdatasync(int(f.Fd())); err != syscall.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}

// thoroughly has the flags of sync_file_range: wait for earlier writes, write, wait for the end.
const thoroughly = 1 | 2 | 4

// WriteBack writes changed pages of a part of a file to the device, and waits for that. A sync of
// another file meanwhile waits for one part at most; behind a sync of the whole file it would wait
// for all of it. WriteBack makes nothing durable. Its error is one of the device. An error of the
// device is reported once for each descriptor, so a later sync of this one may succeed after it.
func WriteBack(fd int, at, size int64) error {
	for {
		switch err := syscall.SyncFileRange(fd, at, size, thoroughly); err {
		case nil, syscall.ENOSYS, syscall.EINVAL, syscall.ESPIPE, syscall.EOPNOTSUPP, syscall.EPERM:
			return nil // without this call the sync has more to write
		case syscall.EINTR:
		default:
			return os.NewSyscallError("sync_file_range", err)
		}
	}
}
