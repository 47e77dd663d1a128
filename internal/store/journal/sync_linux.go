package journal

import (
	"errors"
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

// Allocate gives a part of a file blocks of the device, without writing them, and makes the file as
// long. They read as zeros.
func Allocate(f *os.File, at, size int64) error {
	return os.NewSyscallError("fallocate", retried(func() error { return syscall.Fallocate(int(f.Fd()), 0, at, size) }))
}

// reserve gives a part of a file blocks of the device, without writing them. The file stays as
// long.
func reserve(f *os.File, at, size int64) error {
	const keepSize = 1
	return retried(func() error { return syscall.Fallocate(int(f.Fd()), keepSize, at, size) })
}

// free is the number of bytes that a file system has free for this process; 0: unknown.
func free(f *os.File) int64 {
	var is syscall.Statfs_t
	if retried(func() error { return syscall.Fstatfs(int(f.Fd()), &is) }) != nil {
		return 0
	}
	return int64(is.Bavail) * int64(is.Bsize)
}

// Punch makes a part of a file a hole: its blocks go back to the file system, and the bytes of
// blocks that other parts share become zeros. The file stays as long.
func Punch(f *os.File, at, size int64) error {
	const punch, keepSize = 2, 1
	return os.NewSyscallError("fallocate", retried(func() error { return syscall.Fallocate(int(f.Fd()), punch|keepSize, at, size) }))
}

// Zero makes the bytes of a part of a file zeros, and keeps its blocks.
func Zero(f *os.File, at, size int64) error {
	const zero = 16
	return os.NewSyscallError("fallocate", retried(func() error { return syscall.Fallocate(int(f.Fd()), zero, at, size) }))
}

func retried(call func() error) error {
	for {
		if err := call(); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// Size is the number of bytes that a file has on the device. Holes have none.
func Size(info os.FileInfo) int64 {
	if stat, is := info.Sys().(*syscall.Stat_t); is {
		return stat.Blocks * 512
	}
	return info.Size()
}
