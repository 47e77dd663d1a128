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

// WriteBack writes changed pages of a file to the device, some bytes at once, and waits for each
// part. A sync of another file meanwhile waits for one part at most; behind a sync of this file it
// would wait for all of them. It makes nothing durable, so an error only means that the sync has
// more to write.
func WriteBack(f *os.File, part int64) {
	info, err := f.Stat()
	if err != nil {
		return
	}
	for at := int64(0); at < info.Size(); at += part {
		if syscall.SyncFileRange(int(f.Fd()), at, part, thoroughly) != nil {
			return
		}
	}
}
