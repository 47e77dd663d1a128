//go:build !linux

package postgres

import (
	"syscall"
	"time"
)

// unacknowledged does nothing here: only deadlines of calls and TCP's keepalive detect silence.
func unacknowledged(time.Duration) func(network, address string, c syscall.RawConn) error { return nil }
