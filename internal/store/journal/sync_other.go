//go:build !linux

package journal

import (
	"errors"
	"os"
)

// Sync makes the data of a file durable.
func Sync(f *os.File) error { return f.Sync() }

// WriteBack does nothing here.
func WriteBack(fd int, at, size int64) error { return nil }

// Allocate is not possible here.
func Allocate(f *os.File, at, size int64) error { return errors.ErrUnsupported }

// reserve is not possible here.
func reserve(f *os.File, at, size int64) error { return errors.ErrUnsupported }

// free is unknown here.
func free(f *os.File) int64 { return 0 }

// Punch is not possible here.
func Punch(f *os.File, at, size int64) error { return errors.ErrUnsupported }

// Zero is not possible here.
func Zero(f *os.File, at, size int64) error { return errors.ErrUnsupported }

// Size is the number of bytes of a file.
func Size(info os.FileInfo) int64 { return info.Size() }
