//go:build !linux

package postgres

import (
	"syscall"
	"time"
)

// unacknowledged does nothing here: deadlines of calls and TCP's keepalive have to do.
func unacknowledged(time.Duration) func(network, address string, c syscall.RawConn) error { return nil }
