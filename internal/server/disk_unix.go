//go:build linux || darwin

package server

import (
	"math"
	"syscall"

	"github.com/grapnelhq/grapnel/internal/send/engine"
)

// descriptors is how many files and connections the process may have open.
func descriptors() int {
	var is syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &is); err != nil {
		return math.MaxInt32
	}
	return int(min(is.Cur, math.MaxInt32))
}

// spaceAt returns the free and total space on the disk of a directory. Space reserved for root does
// not count: this process cannot use it.
func spaceAt(dir string) (engine.DiskSpace, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return engine.DiskSpace{}, err
	}
	block := uint64(s.Bsize)
	used := s.Blocks - s.Bfree
	return engine.DiskSpace{Free: s.Bavail * block, Total: (used + s.Bavail) * block}, nil
}
