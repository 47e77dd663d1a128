//go:build unix

package cli

import (
	"os/signal"
	"syscall"
)

// unstopped lets a program that reads a terminal run in the background: the read fails there, and
// would stop the program otherwise.
func unstopped() { signal.Ignore(syscall.SIGTTIN) }
