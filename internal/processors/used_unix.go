//go:build linux || darwin

package processors

import (
	"syscall"
	"time"
)

// used is the processor time that this process has used; false: the system does not say.
func used() (time.Duration, bool) {
	var is syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &is); err != nil {
		return 0, false
	}
	return time.Duration(is.Utime.Nano() + is.Stime.Nano()), true
}
