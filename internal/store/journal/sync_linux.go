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
