//go:build !linux

package journal

import "os"

// Sync makes the data of a file durable.
func Sync(f *os.File) error { return f.Sync() }

// WriteBack does nothing here.
func WriteBack(fd int, at, size int64) error { return nil }
