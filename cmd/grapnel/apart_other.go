//go:build !unix

package main

import (
	"os"
	"os/exec"
)

// apart has a handler interrupted when its time is up. Process groups are of Unix.
func apart(cmd *exec.Cmd) {
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
}
