package journal

import (
	"os"
	"syscall"
)

// syncData makes the file's data durable, and its length if that has changed.
func syncData(f *os.File) error {
	for {
		if err := syscall.Fdatasync(int(f.Fd())); err != syscall.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
