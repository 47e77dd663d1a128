//go:build !linux

package sqlite3

import "modernc.org/libc"

// SyncInParts does nothing here.
func (c *Conn) SyncInParts(int64, func(fd int, at, size int64) error) error { return nil }

func (p *parts) free(*libc.TLS) {}
